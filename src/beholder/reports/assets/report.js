import { add, counted, h, isTyping, named, number, text } from "./dom.js";
import { themeToggle } from "./theme.js";
import { MODES, compareView, rememberMode, rememberedMode } from "./compare-view.js";
import { failedWords, headline, imageName, labelledPlaces, pairImages, scaleBar, shownImages, shownScore, showSentence, stateName, tone, verdictView, winnerWords } from "./verdict-view.js";

// The cases of a report: a gallery that is drawn as one scrolls, and a case in full. Where one is stands in the address
// after the #, so that links, the back button and a bookmark work from disk.

const PAGE = 48;
const MOST_PRINTED = 100;
const MOST_CHOICES = 200;

const read = (id) => JSON.parse(document.getElementById(id)?.textContent ?? "null");
const find = (name) => document.querySelector(`[data-${name}]`);
const data = read("index");
const everything = data.case.map((_, at) => at);

// What the page holds, read when it is needed

const blocks = new Map();
function block(id) {
  if (!blocks.has(id)) {
    if (blocks.size > 24) blocks.delete(blocks.keys().next().value);
    blocks.set(id, read(id));
  }
  return blocks.get(id);
}

// A large run has the details of some verdicts only; of the others there is what the list shows.
const places = data.kept ? new Map(data.kept.map((at, place) => [at, place])) : null;
const leftOut = (at) => places !== null && !places.has(at);

function verdictAt(at) {
  if (leftOut(at)) {
    const scored = Object.entries(data.criteria).filter(([, scores]) => scores[at] !== null && scores[at] !== undefined);
    return {
      measured: data.measured[at]?.[0], case: data.case[at], rubric: data.rubrics[data.rubric[at]], outcome: data.state[at], score: data.score[at], grade: data.grade[at], passed: data.passed[at],
      criteria: Object.fromEntries(scored.map(([key, scores]) => [key, { score: scores[at], scale: data.scales[key] }])),
      flags: data.flagged[at].map((flag) => ({ flag: data.flags[flag] })),
    };
  }
  const place = places?.get(at) ?? at;
  const verdict = block(`details-${Math.floor(place / data.block)}`)[place % data.block];
  for (const criterion of Object.values(verdict.criteria ?? {})) {
    for (const one of criterion.assertions ?? []) if (typeof one.question === "number") one.question = data.questions[one.question];
  }
  return verdict;
}

const missing = new Set(data.missing);
function picture(at) {
  if (missing.has(at)) return null;
  let low = 0, high = data.starts.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (data.starts[middle] <= at) low = middle;
    else high = middle - 1;
  }
  const picture = block(`pictures-${low}`)[at - data.starts[low]];
  return `data:image/${picture.startsWith("/9j/") ? "jpeg" : "webp"};base64,${picture}`; // as base64 begins
}

const texts = new Map();
function searchable(at) {
  if (!texts.has(at)) {
    const { measurements, images, brief_digest, ...told } = verdictAt(at);
    texts.set(at, JSON.stringify(Object.values(told)).toLowerCase());
  }
  return texts.get(at);
}

// State, and the address

const groupNames = Object.keys(data.groups);
const value = (name, at) => data.values[data.groups[name]?.[at]];
const isPair = (at) => data.preferences.includes(data.rubrics[data.rubric[at]]);
const onlyPairs = data.rubrics.length > 0 && data.rubrics.every((name) => data.preferences.includes(name));
const modelsOf = (at) => ({ model_first: value("model_first", at), model_second: value("model_second", at) });
// The score of a pair is that of its first candidate: neither end of the list is the worse one.
const DEFAULTS = { q: "", outcome: "", grade: "", flag: "", rubric: "", criterion: "", most: "", sort: onlyPairs ? "run" : "worst", case: "" };
let state = { ...DEFAULTS };

function parsed() {
  const found = { ...DEFAULTS };
  const hash = location.hash.slice(1);
  if (hash.includes("=")) {
    for (const [key, value] of new URLSearchParams(hash)) if (key in DEFAULTS || key.startsWith("group.")) found[key] = value;
  }
  return found;
}

function address(wanted) {
  const set = Object.entries(wanted).filter(([key, value]) => value !== "" && value !== undefined && value !== DEFAULTS[key]);
  return set.length ? `#${new URLSearchParams(set)}` : location.pathname + location.search;
}

function go(changes, replace = false) {
  const wanted = { ...state, ...changes };
  history[replace ? "replaceState" : "pushState"](null, "", address(wanted));
  show(wanted);
}

function show(wanted) {
  const filtered = JSON.stringify({ ...wanted, case: "" }) !== JSON.stringify({ ...state, case: "" });
  const opened = wanted.case !== state.case;
  state = wanted;
  if (filtered || !shown) refresh();
  if (opened || (filtered && state.case !== "")) openCase();
}

// Which cases, in which order

let shown = null;

function passes(at) {
  if (state.outcome && data.state[at] !== state.outcome) return false;
  if (state.grade && data.grade[at] !== state.grade) return false;
  if (state.flag && !data.flagged[at].some((flag) => data.flags[flag] === state.flag) && !(state.flag === "corrected" && data.corrected[at])) return false;
  if (state.rubric && data.rubrics[data.rubric[at]] !== state.rubric) return false;
  if (state.criterion && state.most !== "") {
    const score = data.criteria[state.criterion]?.[at];
    if (score === null || score === undefined || score > Number(state.most)) return false;
  }
  for (const name of groupNames) {
    const wanted = state[`group.${name}`];
    if (wanted && data.values[data.groups[name][at]] !== wanted) return false;
  }
  if (!state.q) return true;
  const words = state.q.toLowerCase().split(/\s+/).filter(Boolean);
  return words.every((word) => data.case[at].toLowerCase().includes(word) || searchable(at).includes(word));
}

/** The highest score that a verdict can have; of two that are not known, neither is before the other. */
function possible(at) {
  return data.score[at] ?? data.measured[at]?.[2] ?? 2;
}

function ordered(list, sort = state.sort) {
  const by = {
    worst: (a, b) => data.score[a] - data.score[b],
    bound: (a, b) => possible(a) - possible(b),
    no: (a, b) => data.no[b] - data.no[a],
    best: (a, b) => data.score[b] - data.score[a],
    name: (a, b) => data.case[a].localeCompare(data.case[b], "en", { numeric: true }),
    run: () => 0,
    flags: (a, b) => data.flagged[b].length + data.corrected[b] - data.flagged[a].length - data.corrected[a],
  }[sort] ?? ((a, b) => {
    const scores = data.criteria[sort.replace(/^by\./, "")] ?? [];
    return (scores[a] ?? Infinity) - (scores[b] ?? Infinity);
  });
  return list.slice().sort((a, b) => by(a, b) || a - b);
}

/** What has no score comes first, by outcome; then the others. */
function chosen() {
  const list = everything.filter(passes);
  const scored = list.filter((at) => data.score[at] !== null);
  const lacking = new Map();
  for (const at of list) if (data.score[at] === null) (lacking.get(data.state[at]) ?? lacking.set(data.state[at], []).get(data.state[at])).push(at);
  const last = (name) => (name === "unmeasured" ? 1 : 0);
  const outcomes = [...lacking].sort(([a], [b]) => last(a) - last(b) || a.localeCompare(b));
  const sections = [];
  if (outcomes.length) {
    const told = outcomes.map(([name, found]) => `${found.length.toLocaleString("en")} ${stateName(name)}`).join(", ");
    sections.push({ name: onlyPairs ? "Without a vote" : "Without a score", told, list: outcomes.flatMap(([, found]) => ordered(found, state.sort === "worst" ? "bound" : state.sort)) });
  }
  const ends = onlyPairs ? { worst: "second better first", best: "first better first" } : { worst: "worst first", best: "best first" };
  const order = { ...ends, name: "by name", run: "in the order of the run", flags: "most flags first", no: "most No first", bound: "lowest possible score first" };
  const by = order[state.sort] ?? `lowest ${title(state.sort.replace(/^by\./, ""))} first`;
  if (scored.length) sections.push({ name: `${onlyPairs ? "With a vote" : "Scored"}, ${by}`, told: scored.length.toLocaleString("en"), list: ordered(scored) });
  return sections;
}

const title = (key) => data.titles[key] ?? named(key);

// The toolbar

function toolbar() {
  const count = (values) => {
    const found = new Map();
    for (const value of values) if (value !== null && value !== undefined) found.set(value, (found.get(value) ?? 0) + 1);
    return found;
  };
  const select = (key, label, choices, all = "All") =>
    h("label", { class: "field" }, h("span", {}, label),
      h("select", { "data-key": key, onchange: (event) => go({ [key]: event.target.value }, true) },
        all !== null && h("option", { value: "" }, all),
        choices.map(([value, name]) => h("option", { value }, name))));
  const withCounts = (values, name = (value) => value) => [...count(values)].sort(([, a], [, b]) => b - a)
    .map(([value, many]) => [value, `${name(value)} (${many.toLocaleString("en")})`]);
  const grades = withCounts(data.grade);
  const flags = withCounts(data.flagged.flat(), (flag) => data.flag_titles[data.flags[flag]]).map(([flag, told]) => [data.flags[flag], told]);
  const corrected = data.corrected.filter(Boolean).length;
  if (corrected) flags.push(["corrected", `corrected by code (${corrected.toLocaleString("en")})`]);
  const criteria = Object.keys(data.criteria);
  const groups = groupNames.map((name) => [name, withCounts(data.groups[name], (value) => data.values[value])
    .map(([value, told]) => [data.values[value], told])]).filter(([, choices]) => choices.length > 1 && choices.length <= MOST_CHOICES);
  const search = h("input", {
    type: "search", "data-key": "q", placeholder: "Names, evidence, reasons…", "aria-keyshortcuts": "/", autocomplete: "off", spellcheck: "false",
    oninput: () => { clearTimeout(search.waiting); search.waiting = setTimeout(() => go({ q: search.value }, true), 160); },
  });
  const most = h("input", { type: "number", "data-key": "most", step: "any", inputmode: "decimal", "aria-label": "At most", placeholder: "at most", oninput: () => go({ most: most.value }, true) });
  const sorts = onlyPairs
    ? [["run", "Order of the run"], ["worst", "Second better first"], ["best", "First better first"], ["flags", "Most flags first"], ["name", "By name"]]
    : [["worst", "Worst first"], ["best", "Best first"], ["flags", "Most flags first"], ["no", "Most No first"], ["bound", "Lowest possible score first"], ["name", "By name"], ["run", "Order of the run"],
       ...criteria.map((key) => [`by.${key}`, `Lowest ${title(key)} first`])];
  add(find("toolbar"), [
    h("div", { class: "bar" },
      h("label", { class: "field search" }, h("span", {}, "Search"), search),
      select("sort", "Order", sorts, null),
      h("button", { type: "button", class: "more", "aria-expanded": "false", onclick: (event) => {
        const open = find("toolbar").classList.toggle("open");
        event.currentTarget.setAttribute("aria-expanded", String(open));
      } }, "Filters"),
      h("button", { type: "button", class: "print", onclick: printed }, "Print"),
    ),
    h("div", { class: "filters" },
      select("outcome", "Outcome", withCounts(data.state, stateName)),
      grades.length > 0 && select("grade", "Grade", grades),
      flags.length > 0 && select("flag", "Flag", flags),
      data.rubrics.length > 1 && select("rubric", "Rubric", withCounts(data.rubric, (at) => data.rubrics[at]).map(([at, told]) => [data.rubrics[at], told])),
      groups.map(([name, choices]) => select(`group.${name}`, named(name), choices)),
      criteria.length > 0 && h("div", { class: "pair" }, select("criterion", "Criterion", criteria.map((key) => [key, title(key)]), "Any"), most),
      h("button", { type: "button", class: "quiet clear", hidden: true, onclick: () => go({ ...DEFAULTS, ...Object.fromEntries(groupNames.map((name) => [`group.${name}`, ""])) }, true) }, "Clear"),
    ),
  ]);
}

function reflect() {
  for (const field of document.querySelectorAll("[data-key]")) {
    const value = state[field.dataset.key] ?? "";
    if (field !== document.activeElement || field.tagName === "SELECT") field.value = value;
    field.closest(".field")?.classList.toggle("set", value !== "" && value !== DEFAULTS[field.dataset.key]);
  }
  const active = Object.entries(state).filter(([key, value]) => value && !["case", "sort"].includes(key) && value !== DEFAULTS[key]).length;
  document.querySelector(".clear").hidden = !active;
  document.querySelector(".more").textContent = active ? `Filters (${active})` : "Filters";
}

// The gallery

const images = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    images.unobserve(entry.target);
    const source = picture(Number(entry.target.dataset.picture));
    if (source) entry.target.src = source;
  }
}, { rootMargin: "400px" });

for (const image of document.querySelectorAll("#against [data-picture]")) images.observe(image);

function shots(at) {
  const numbers = data.pictured[at].filter((one) => !missing.has(one));
  if (!numbers.length) return h("div", { class: "shots empty" }, h("span", {}, leftOut(at) ? "not in this file" : data.pictured[at].length ? "no picture kept" : "no image"));
  const shot = (one) => {
    const image = h("img", { alt: "", "data-picture": one, decoding: "async" });
    images.observe(image);
    return image;
  };
  if (isPair(at)) {
    const drawn = pairImages(shownImages(verdictAt(at)), modelsOf(at)).filter((image) => numbers.includes(image.picture));
    return h("div", { class: `shots named of-${drawn.length}` }, drawn.map((image) => h("figure", {}, shot(image.picture),
      h("figcaption", {}, text(image.name), image.role === value("winner", at) && " ✓"))));
  }
  const drawn = numbers.length > 2 ? [numbers[0], numbers.at(-1)] : numbers;
  return h("div", { class: `shots of-${drawn.length}` }, drawn.map(shot));
}

function card(at) {
  const score = data.score[at];
  const marks = [];
  if (data.flagged[at].some((flag) => data.flags[flag] === "pixels_disagree")) marks.push(h("span", { class: "tag audit" }, "pixels disagree"));
  if (data.corrected[at]) marks.push(h("span", { class: "tag" }, `${data.corrected[at]} corrected`));
  const known = (key) => (data.criteria[key][at] !== null && data.criteria[key][at] !== undefined) || data.ranges[key]?.[at];
  const bars = isPair(at) ? [] : Object.keys(data.criteria).filter(known).map((key) => bar(title(key), data.criteria[key][at], data.scales[key], data.ranges[key]?.[at]));
  const [told, low, high] = data.measured[at] ?? [];
  if (score === null && typeof low === "number" && (low > 0 || high < 1)) bars.unshift(bar("Score", null, [0, 1], [low, high], (end) => end.toFixed(2)));
  return h("li", { class: "card" }, h("a", { href: address({ ...state, case: String(at) }), "data-at": at, onclick: (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    go({ case: String(at) });
  } },
    shots(at),
    h("div", { class: "under" },
      h("p", { class: "name" }, text(data.case[at]), data.rubrics.length > 1 && h("span", { class: "muted small" }, " ", text(data.rubrics[data.rubric[at]]))),
      data.captions[data.caption[at]] && h("p", { class: "card-caption" }, text(data.captions[data.caption[at]])),
      h("p", { class: "score" },
        score === null
          ? h("span", { class: "tag lack" }, stateName(data.state[at]))
          : isPair(at) ? h("span", { class: "tag" }, text(winnerWords(value("winner", at), modelsOf(at))))
          : [data.grade[at] && h("span", { class: `grade ${tone(score)}` }, text(data.grade[at])), h("span", { class: "number" }, shownScore(score, data.grade[at], data.passed[at])),
             data.passed[at] === false && h("span", { class: "tag bad" }, failedWords((data.gated[at] ?? []).map((gate) => data.gates[gate])))],
        marks),
      score === null && told && h("p", { class: "small" }, told),
      bars.length > 0 && h("dl", { class: "bars" }, bars),
    )));
}

/** A line that says what its bar is about, and the number. */
function bar(name, score, scale, range, shown = number) {
  const drawn = scaleBar(score, scale, range);
  drawn.setAttribute("aria-hidden", "true");
  const open = range && range[0] <= scale[0] && range[1] >= scale[1];
  const told = score !== null && score !== undefined ? number(score) : open ? "not measured" : range.map((end) => shown(end)).join("–");
  return h("div", {}, h("dt", {}, text(name)), h("dd", {}, drawn, h("span", { class: "number" }, told)));
}

let growing = null;
function refresh() {
  growing?.disconnect();
  shown = chosen();
  reflect();
  const list = shown.flatMap((section) => section.list);
  find("count").textContent = list.length === everything.length
    ? counted(list.length, data.rubrics.length > 1 ? "verdict" : "case")
    : `${list.length.toLocaleString("en")} of ${counted(everything.length, data.rubrics.length > 1 ? "verdict" : "case")}`;
  const gallery = find("gallery");
  gallery.replaceChildren();
  if (!list.length) {
    add(gallery, h("p", { class: "notice" }, everything.length ? "No case fits these filters." : "This run has no verdicts yet."));
    return;
  }
  for (const section of shown) {
    const cards = h("ul", { class: "cards" });
    const more = h("button", { type: "button", class: "grow controls" });
    let drawn = 0;
    const grow = () => {
      add(cards, section.list.slice(drawn, drawn + PAGE).map(card));
      drawn = Math.min(section.list.length, drawn + PAGE);
      more.hidden = drawn === section.list.length;
      more.textContent = `Show more (${(section.list.length - drawn).toLocaleString("en")})`;
    };
    more.addEventListener("click", grow);
    grow();
    add(gallery, h("section", { class: "cards-of" },
      h("h3", {}, section.name, " ", h("span", { class: "muted number" }, section.told)), cards, more));
  }
  growing = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting && !entry.target.hidden) entry.target.click();
  }, { rootMargin: "600px" });
  // Only the last part grows by itself: what comes before it must stay within reach.
  for (const more of [...gallery.querySelectorAll(".grow")].slice(-1)) growing.observe(more);
}

// A case in full

const dialog = find("case");
let view = null;
let before = null;
let lastCase = null;
let searching = false; // a case is closed for the search, which the keys go to then

function openCase() {
  view?.destroy();
  view = null;
  const at = state.case === "" ? NaN : Number(state.case);
  if (!(at in data.case)) {
    if (dialog.open) dialog.close();
    return;
  }
  lastCase = at;
  const list = shown.flatMap((section) => section.list);
  const place = list.indexOf(at);
  const step = (by) => (place < 0 ? null : list[place + by]);
  const verdict = verdictAt(at);
  const all = shownImages(verdict);
  const pictures = all.filter((image) => image.picture !== undefined && !missing.has(image.picture))
    .map((image) => ({ role: imageName(image, all), name: verdict.groups?.[`model_${image.role}`], src: picture(image.picture) }));
  const sides = isPair(at) ? pairImages(all, verdict.groups).filter((image) => image.picture !== undefined && !missing.has(image.picture)) : [];
  const said = verdictView(verdict, { titles: data.titles, flagTitles: data.flag_titles, onplace: pictures.length ? (at) => { view.select(at); showSentence(said, at); } : undefined });
  if (pictures.length) view = compareView(pictures, { mode: rememberedMode(), onmode: rememberMode, places: labelledPlaces(verdict, data.titles), onplace: (at) => showSentence(said, at) });
  const others = data.rubrics.length > 1 ? everything.filter((one) => one !== at && data.case[one] === data.case[at]) : [];
  const move = (label, by, key) => h("button", {
    type: "button", class: "quiet", disabled: step(by) === null || step(by) === undefined, "aria-keyshortcuts": key, onclick: () => walk(by),
  }, label);
  dialog.replaceChildren(
    h("div", { class: "case-bar" },
      h("div", { class: "case-title" },
        h("h2", { id: "case-title", tabindex: "-1" }, text(data.case[at])),
        h("p", { class: "muted small" }, text(data.rubrics[data.rubric[at]]), place >= 0 && h("span", { class: "number" }, ` · ${(place + 1).toLocaleString("en")} of ${list.length.toLocaleString("en")}`))),
      h("div", { class: "case-moves controls" }, move("← Previous", -1, "k"), move("Next →", 1, "j"),
        h("button", { type: "button", class: "quiet", onclick: () => go({ case: "" }) }, "Close")),
    ),
    h("div", { class: `case-body ${pictures.length ? "" : "plain"}` },
      pictures.length > 0 && h("div", { class: "case-stage" }, view.element,
        sides.length > 2 && h("div", { class: "sides" }, sides.map((image) => h("figure", {}, h("img", { src: picture(image.picture), alt: "" }),
          h("figcaption", { class: "muted small" }, text(image.name), image.role === verdict.preference?.winner && " ✓ better")))),
        all.length > pictures.length && h("p", { class: "muted small" }, "Of an image that is not shown the ledger keeps no picture.")),
      h("div", { class: "case-said" },
        leftOut(at) && h("p", { class: "notice" }, "Reasons and pictures of this case are not in this file, so that it stays small. The ledger has them: beholder view."),
        !pictures.length && all.length > 0 && h("p", { class: "notice" }, "The ledger keeps no pictures of this case."),
        said,
        others.length > 0 && h("section", { class: "part" }, h("h3", {}, "The same case by other rubrics"), h("ul", { class: "found" }, others.map((one) =>
          h("li", {}, h("a", { href: address({ ...state, case: String(one) }) }, text(data.rubrics[data.rubric[one]])), " ",
            h("span", { class: "number" }, data.score[one] === null ? stateName(data.state[one]) : data.score[one].toFixed(2)))))),
      ),
    ),
  );
  if (!dialog.open) {
    before = document.activeElement;
    dialog.showModal();
  }
  view?.place();
  dialog.querySelector(".case-said").scrollTop = 0;
  dialog.scrollTop = 0;
  dialog.querySelector("h2").focus({ preventScroll: true });
}

function walk(by) {
  const list = shown.flatMap((section) => section.list);
  const place = list.indexOf(Number(state.case));
  const next = list[state.case === "" ? (by > 0 ? 0 : -1) : place + by];
  if (next !== undefined && (place >= 0 || state.case === "")) go({ case: String(next) }, state.case !== "");
}

/** To the search, from wherever one is. */
function search() {
  searching = dialog.open;
  if (dialog.open) dialog.close();
  find("toolbar").firstElementChild.scrollIntoView({ block: "start", behavior: "instant" });
  document.querySelector('[data-key="q"]').focus({ preventScroll: true });
}

dialog.addEventListener("close", () => {
  view?.destroy();
  view = null;
  if (state.case !== "") go({ case: "" });
  if (searching) {
    searching = false;
    return;
  }
  (document.querySelector(`a[data-at="${lastCase}"]`) ?? before)?.focus?.();
});

// Keys

const KEYS = [["j, k", "next and previous case"], ["s, b, d, n, e", "slider, blink, difference, side by side, evidence"], ["space", "the other image, while blinking"],
  ["← →", "move the slider"], ["+, −, 0, 1", "zoom in, out, fit, 1:1"], ["/", "search"], ["Esc", "back to all cases"], ["?", "this help"]];

const help = find("help-dialog");
add(help, [h("h2", { id: "help-title" }, "Keys"),
  h("dl", { class: "keys" }, KEYS.map(([keys, what]) => h("div", {}, h("dt", {}, keys.split(", ").map((key, at) => [at ? " " : "", h("kbd", {}, key)])), h("dd", {}, what)))),
  h("p", { class: "muted small" }, "Double-click, pinch, or ctrl and the wheel zoom into the images, both at once; drag to move."),
  h("button", { type: "button", onclick: () => help.close() }, "Close")]);

document.addEventListener("keydown", (event) => {
  if (isTyping(event)) {
    if (event.key === "Escape" && event.target.matches?.("input")) event.target.blur();
    return;
  }
  const mode = Object.keys(MODES).find((name) => MODES[name].key === event.key);
  const actions = {
    j: () => walk(1),
    k: () => walk(-1),
    "/": search,
    "?": () => help.open || help.showModal(),
    "+": () => view?.zoomTo(view.zoom.scale * 1.5),
    "-": () => view?.zoomTo(view.zoom.scale / 1.5),
    0: () => view?.fit(),
    1: () => view?.oneToOne(),
    " ": () => view?.now === "blink" && view.toggle(),
    ArrowLeft: () => view?.now === "slider" && view.slideTo(view.split - 2),
    ArrowRight: () => view?.now === "slider" && view.slideTo(view.split + 2),
  };
  const busy = event.key === " " && (view?.now !== "blink" || event.target.matches?.("button, summary, a"));
  if (busy || help.open) return;
  if (mode && view?.modes.includes(mode)) {
    event.preventDefault();
    if (mode === "blink" && view.now === "blink") view.toggle();
    else view.mode(mode);
  } else if (actions[event.key]) {
    event.preventDefault();
    actions[event.key]();
  }
});

// On paper

function paper() {
  for (const image of document.querySelectorAll("#against [data-picture]")) image.src = picture(Number(image.dataset.picture)) ?? "";
  const list = shown.flatMap((section) => section.list);
  const some = list.slice(0, MOST_PRINTED);
  find("print").replaceChildren(
    list.length > some.length ? h("p", {}, `The first ${some.length} of ${list.length.toLocaleString("en")} cases; filter the page to print others.`) : "",
    ...some.map((at) => {
      const verdict = verdictAt(at);
      const all = shownImages(verdict);
      const pictures = all.filter((image) => image.picture !== undefined && !missing.has(image.picture));
      return h("article", { class: "paper" }, h("h3", {}, text(data.case[at])),
        pictures.length > 0 && h("div", { class: "paper-shots" }, pictures.map((image) => h("figure", {}, h("img", { src: picture(image.picture), alt: imageName(image, all) }), h("figcaption", {}, text(imageName(image, all)))))),
        verdictView({ ...verdict, measurements: {} }, { titles: data.titles, flagTitles: data.flag_titles }));
    }));
}

async function printed() {
  paper();
  await Promise.allSettled([...document.querySelectorAll("#against img, [data-print] img")].map((image) => image.decode()));
  window.print();
}

window.addEventListener("beforeprint", () => { if (!find("print").childElementCount) paper(); });
window.addEventListener("afterprint", () => find("print").replaceChildren());

// Off we go

themeToggle(find("theme-toggle"));
find("help").addEventListener("click", () => help.showModal());
window.addEventListener("hashchange", () => { if (location.hash.includes("=") || !location.hash) arrive(); });
window.addEventListener("popstate", () => { if (location.hash.includes("=") || !location.hash) arrive(); });

function arrive() {
  const wanted = parsed();
  const moved = JSON.stringify(wanted) !== JSON.stringify(state);
  show(wanted);
  if (moved && wanted.case === "" && location.hash.includes("=")) document.getElementById("cases").scrollIntoView();
}

toolbar();
shown = null;
show(parsed());
document.documentElement.dataset.ready = "";
