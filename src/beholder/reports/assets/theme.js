import { h } from "./dom.js";

// Light or dark as the system says, until somebody says otherwise. A page from disk may not be allowed to remember it.

const THEMES = ["auto", "light", "dark"];
const THEME_KEY = "beholder-theme";

export function themeToggle(button) {
  const show = (theme) => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    button.replaceChildren(h("span", { class: "theme-mark", "aria-hidden": "true" }), `Theme: ${theme}`);
    button.dataset.now = theme;
  };
  let theme = "auto";
  try {
    const kept = localStorage.getItem(THEME_KEY);
    if (THEMES.includes(kept)) theme = kept;
  } catch {}
  show(theme);
  button.addEventListener("click", () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    show(theme);
    try {
      localStorage.setItem(THEME_KEY, theme);
    } catch {}
  });
}
