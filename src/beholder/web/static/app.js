import { isTyping } from "./dom.js";
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

// A form whose choices are made is sent; without script it has a button.
for (const form of document.querySelectorAll("form[data-auto]")) {
  form.addEventListener("change", () => form.requestSubmit());
  // What is empty need not stand in the address.
  form.addEventListener("submit", () => {
    for (const field of form.elements) if (field.name && !field.value) field.disabled = true;
  });
  addEventListener("pageshow", () => {
    for (const field of form.elements) field.disabled = false;
  });
}

document.documentElement.dataset.app = ""; // keys and forms answer from here on
