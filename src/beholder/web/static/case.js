import { compareView } from "./compare-view.js";
import { isTyping } from "./dom.js";
import { verdictView } from "./verdict-view.js";

// A case: its images to compare, and its verdict in full. The way of comparing is kept from case to case.

const MODE_KEY = "beholder-mode";
const read = (id) => JSON.parse(document.getElementById(id).textContent);
const images = read("images");
const said = document.querySelector("[data-said]");
said.replaceChildren(verdictView(read("verdict"), { titles: read("titles"), flagTitles: read("flag-titles") }));

const stage = document.querySelector("[data-stage]");
if (stage) {
  const mode = sessionStorage.getItem(MODE_KEY) ?? "slider";
  const view = compareView(images, { mode, onmode: (name) => sessionStorage.setItem(MODE_KEY, name) });
  stage.replaceChildren(view.element);
  const several = images.length > 1;
  const keys = {
    s: () => several && view.mode("slider"),
    b: () => several && (view.now === "blink" ? view.toggle() : view.mode("blink")),
    d: () => several && view.mode("difference"),
    n: () => several && view.mode("side"),
    "+": () => view.zoomTo(view.zoom.scale * 1.5),
    "=": () => view.zoomTo(view.zoom.scale * 1.5),
    "-": () => view.zoomTo(view.zoom.scale / 1.5),
    0: () => view.fit(),
  };
  document.addEventListener("keydown", (event) => {
    if (isTyping(event) || document.querySelector("dialog[open]")) return;
    if (event.key === " " && view.now === "blink" && !event.target.closest("button, summary, a")) {
      view.toggle();
      event.preventDefault();
    } else keys[event.key]?.();
  });
}
document.documentElement.dataset.ready = "";
