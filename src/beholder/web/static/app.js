import { h, isTyping } from "./dom.js";
import { themeToggle } from "./theme.js";

// What every page has: the theme, the help, and keys that lead to what the page marks with data-key.

const toggle = document.querySelector("[data-theme-toggle]");
const help = document.querySelector("[data-help-dialog]");
themeToggle(toggle);
document.querySelector("[data-help]").addEventListener("click", () => help.showModal());

document.addEventListener("keydown", (event) => {
  if (isTyping(event) || document.querySelector("dialog[open]")) return;
  if (event.key === "?") help.showModal();
  else if (event.key === "t") toggle.click();
  else {
    const target = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
    if (!target || target.getAttribute("aria-disabled") === "true") return;
    if (target.matches("input")) target.focus();
    else target.click();
  }
  event.preventDefault();
});

// Filters take effect when they are applied, never by a choice alone (WCAG 3.2.2). The list then comes as a new page, on
// which the keyboard is where it was.
const FOCUS_KEY = "beholder-focus";
for (const form of document.querySelectorAll("form[data-filters]")) {
  const fields = [...form.elements];
  const named = (field) => `${new URL(form.action).pathname} ${field.name} ${field.dataset.group ?? ""}`;
  const back = sessionStorage.getItem(FOCUS_KEY);
  fields.find((field) => named(field) === back)?.focus({ preventScroll: true });
  sessionStorage.removeItem(FOCUS_KEY);
  form.addEventListener("change", () => form.classList.add("changed"));
  form.addEventListener("submit", () => {
    if (fields.includes(document.activeElement)) sessionStorage.setItem(FOCUS_KEY, named(document.activeElement));
    // What is empty need not stand in the address.
    for (const field of fields) if (field.name && !field.value) field.disabled = true;
  });
  addEventListener("pageshow", () => {
    for (const field of fields) field.disabled = false;
  });
}

// What needs a script is shown only with one. Copy buttons say what became of it.
for (const one of document.querySelectorAll("[data-scripted]")) one.hidden = false;

async function copy(value) {
  if (navigator.clipboard) return navigator.clipboard.writeText(value);
  const field = document.createElement("textarea"); // over plain HTTP from another machine
  field.value = value;
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest?.("[data-copy], [data-copy-link], [data-copy-from]");
  if (!button || button.dataset.told) return;
  const { copy: value, copyLink: link, copyFrom: source } = button.dataset;
  button.dataset.told = button.textContent;
  try {
    await copy(value ?? (link ? new URL(link, location.href).href : JSON.stringify(await (await fetch(source)).json(), null, 2)));
    button.textContent = "Copied";
  } catch {
    button.textContent = "Not copied";
  }
  setTimeout(() => { button.textContent = button.dataset.told; delete button.dataset.told; }, 1500);
});

// A small form changes only its own part of the page; without script the page is loaded anew. Where that fails, the form
// says why and keeps what was written.
function refuse(form, why) {
  form.querySelector("[role=alert]")?.remove();
  form.append(h("p", { class: "notice small", role: "alert" }, `Nothing was changed: ${why}`));
}

document.addEventListener("submit", async (event) => {
  const form = event.target.closest?.("form[data-swap]");
  if (!form) return;
  event.preventDefault();
  const id = form.dataset.swap;
  let answer, page;
  try {
    answer = await fetch(form.action, { method: "POST", body: new URLSearchParams(new FormData(form, event.submitter)) });
    page = new DOMParser().parseFromString(await answer.text(), "text/html");
  } catch {
    return refuse(form, "the app does not answer. If it was stopped, start it and try again.");
  }
  const part = answer.ok && page.getElementById(id);
  if (!part) return refuse(form, (page.querySelector("main .lede") ?? page.body).textContent.trim());
  document.getElementById(id).replaceWith(part);
  for (const one of part.querySelectorAll("[data-scripted]")) one.hidden = false;
  part.querySelector("button, summary, a")?.focus({ preventScroll: true });
});

document.documentElement.dataset.app = ""; // keys and forms answer from here on
