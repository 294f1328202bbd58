// The fields of a quota are for a quota; the name that was used last is there again.

const KEY = "beholder-rater";
const form = document.querySelector("[data-begin]");
const quota = document.querySelector("[data-quota]");
const name = form.elements.rater;

function show() {
  if (quota) quota.hidden = form.elements.order.value !== "quota";
}
form.addEventListener("change", show);
form.addEventListener("submit", () => {
  try {
    localStorage.setItem(KEY, name.value);
  } catch {}
});
try {
  if (!name.value) name.value = localStorage.getItem(KEY) ?? "";
} catch {}
show();
