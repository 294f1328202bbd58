import { compareView, rememberMode, rememberedMode } from "./compare-view.js";
import { isTyping } from "./dom.js";
import { labelledPlaces, showSentence, verdictView } from "./verdict-view.js";

// A case: its images to compare, and its verdict in full. The way of comparing is kept from case to case.

const read = (id) => JSON.parse(document.getElementById(id).textContent);
const images = read("images");
const said = document.querySelector("[data-said]");
const [verdict, titles] = [read("verdict"), read("titles")];
const stage = document.querySelector("[data-stage]");
let view = null;
const shown = verdictView(verdict, { titles, flagTitles: read("flag-titles"), onplace: stage ? (at) => { view.select(at); showSentence(shown, at); } : undefined });
said.replaceChildren(shown);

if (stage) {
  view = compareView(images, { mode: rememberedMode(), onmode: rememberMode, places: labelledPlaces(verdict, titles), onplace: (at) => showSentence(shown, at) });
  stage.replaceChildren(view.element);
  const several = images.length > 1;
  const keys = {
    s: () => several && view.mode("slider"),
    b: () => several && (view.now === "blink" ? view.toggle() : view.mode("blink")),
    d: () => several && view.mode("difference"),
    n: () => several && view.mode("side"),
    e: () => view.places.length && view.mode("evidence"),
    "+": () => view.zoomTo(view.zoom.scale * 1.5),
    "=": () => view.zoomTo(view.zoom.scale * 1.5),
    "-": () => view.zoomTo(view.zoom.scale / 1.5),
    0: () => view.fit(),
    1: () => view.oneToOne(),
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
