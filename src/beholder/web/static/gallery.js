import { isTyping } from "./dom.js";

// Cards by keyboard; on a small screen the filters are folded until somebody wants them.

document.addEventListener("keydown", (event) => {
  const cards = [...document.querySelectorAll("[data-cards] a")];
  if (isTyping(event) || !["j", "k"].includes(event.key) || !cards.length) return;
  const now = cards.indexOf(document.activeElement);
  cards[Math.min(cards.length - 1, Math.max(0, now + (event.key === "j" ? 1 : -1)))].focus();
});

const fold = document.querySelector(".filter-fold");
if (fold && matchMedia("(max-width: 900px)").matches && !fold.querySelector(".field.set")) fold.open = false;
