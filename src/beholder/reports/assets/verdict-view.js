import { add, counted, decided, h, named, number, text } from "./dom.js";

// A verdict in full, from the JSON that `Verdict.to_dict` makes (values that are empty may be left out).

const MARKS = {
  yes: { mark: "✓", word: "Yes", order: 2 },
  no: { mark: "✗", word: "No", order: 0 },
  not_applicable: { mark: "–", word: "Not applicable", order: 3 },
  abstained: { mark: "?", word: "Not measured", order: 1 },
};

const CANDIDATES = ["first", "second"];
const WINNERS = { first: "First is better", second: "Second is better", tie: "Tie", both_bad: "Both bad" };

/** Good, middling or bad by its place on the scale, as a class; a number always stands beside it. */
export function tone(share) {
  return share === null || share === undefined ? "none" : share >= 0.7 ? "good" : share >= 0.5 ? "fair" : "bad";
}

export function stateName(state) {
  return state.replaceAll("_", " ");
}

/** A score for people, with the digits that its grade or its failing needs. */
export function shownScore(score, grade, passed) {
  return grade || passed === false ? decided(score, 2, 100) : score.toFixed(2);
}

/** The score of a verdict in a line: grade, percentage or score, passed. */
export function headline(verdict) {
  const line = h("p", { class: "headline" });
  if (verdict.score === undefined || verdict.score === null) {
    add(line, [h("span", { class: "tag lack" }, stateName(verdict.outcome)), verdict.measured && h("span", {}, " ", verdict.measured)]);
    return line;
  }
  if (verdict.preference?.winner) {
    const model = verdict.groups?.[`model_${verdict.preference.winner}`];
    add(line, [h("span", { class: "big" }, WINNERS[verdict.preference.winner]), " ", model && h("strong", {}, text(model)), " ",
      typeof verdict.preference.strength === "number" && h("span", { class: "muted number" }, `strength ${number(verdict.preference.strength)} of 3`),
      verdict.preference.flipped && h("span", { class: "tag" }, "follows the order")]);
    return line;
  }
  if (verdict.grade) add(line, [h("span", { class: `grade ${tone(verdict.score)}` }, text(verdict.grade)), " "]);
  if (verdict.percentage !== undefined) {
    add(line, [h("span", { class: "big number" }, `${verdict.grade || verdict.passed === false ? decided(verdict.percentage, 1, 1) : verdict.percentage.toFixed(1)} %`), " ",
      h("span", { class: "muted number" }, `${number(verdict.total)} of ${number(verdict.max_total)}`)]);
  } else {
    add(line, [h("span", { class: "big number" }, shownScore(verdict.score, verdict.grade, verdict.passed)), " ",
      h("span", { class: "muted" }, "of 1")]);
  }
  if (verdict.passed !== undefined) {
    add(line, [" ", h("span", { class: `tag ${verdict.passed ? "good" : "bad"}` }, verdict.passed ? "✓ passed" : failedWords(verdict.gates))]);
  }
  if (verdict.partial) add(line, [" ", h("span", { class: "tag" }, "partial")]);
  return line;
}

/** That a verdict failed, and by which gate if its score did not decide it. */
export function failedWords(gates) {
  return gates?.length ? `✗ failed by ${gates.map((key) => named(key).toLowerCase()).join(", ")}` : "✗ failed";
}

/** The images to show beside a verdict, whether or not a judge was sent them. */
export function shownImages(verdict) {
  return verdict.images?.length ? verdict.images : verdict.pictures ?? [];
}

/** A bar for where on its scale a score lies; without one, for the range that it lies in. */
export function scaleBar(score, scale, range = null) {
  const place = (value) => (value - scale[0]) / (scale[1] - scale[0] || 1);
  const share = score === null || score === undefined ? null : place(score);
  const filled = h("span", { class: "filled" });
  if (share === null && range && (range[0] > scale[0] || range[1] < scale[1])) {
    filled.style.left = `${100 * place(range[0])}%`;
    filled.style.width = `${100 * Math.max(0.03, place(range[1]) - place(range[0]))}%`;
    return h("span", { class: "scale range", role: "img", "aria-label": `between ${number(range[0])} and ${number(range[1])} on a scale from ${number(scale[0])} to ${number(scale[1])}` }, filled);
  }
  filled.style.width = `${100 * Math.max(0.02, share ?? 0)}%`;
  return h("span", {
    class: `scale ${tone(share)}`, role: "img",
    "aria-label": share === null ? "no score" : `${number(score)} on a scale from ${number(scale[0])} to ${number(scale[1])}`,
  }, share !== null && filled);
}

/** Everything a verdict says. `titles` are what people call criteria, `flagTitles` flags; their keys are the tooltips.
    A sentence of which the place is known says so when it is clicked: `onplace(at)`. */
export function verdictView(verdict, { titles = {}, flagTitles = {}, onplace } = {}) {
  placed = onplace ? new Set((verdict.places ?? []).map((place) => place.at)) : new Set();
  const names = { ...Object.fromEntries(Object.keys(verdict.criteria ?? {}).map((key) => [key, named(key)])), ...titles };
  const view = h("div", { class: "verdict" },
    headline(verdict),
    verdict.score_range && typeof verdict.score !== "number" && h("div", { class: "criterion-head wide-points" }, h("p", { class: "muted" }, "The score lies between"), scaleBar(null, [0, 1], verdict.score_range),
      h("p", { class: "points number" }, h("strong", {}, verdict.score_range.map((end) => end.toFixed(2)).join("–")))),
    verdict.lack && h("p", { class: "notice" }, text(verdict.lack)),
    verdict.calibrated && calibrated(verdict.calibrated, titles),
    fields(verdict),
    criteria(verdict, titles),
    findings(verdict),
    orderAnswers(verdict),
    verdict.assessment && !verdict.preference && part("Assessment", h("p", { class: "prose" }, text(verdict.assessment))),
    flags(verdict, names, flagTitles),
    corrections(verdict, names),
    verdict.jury && jury(verdict.jury, titles),
    measurements(verdict),
    sent(verdict),
  );
  view.addEventListener("click", (event) => {
    const finding = event.target.closest("mark[data-finding]")?.dataset.finding;
    if (finding) showFinding(view, finding);
    if (!onplace) return;
    const at = event.target.closest("[data-place]")?.dataset.place;
    if (at !== undefined && !getSelection().toString()) onplace(at);
  });
  view.addEventListener("keydown", (event) => {
    if ((event.key !== "Enter" && event.key !== " ") || !event.target.matches("mark[data-finding]")) return;
    event.preventDefault();
    showFinding(view, event.target.dataset.finding);
  });
  return view;
}

/** Brings out a finding, and scrolls to it. */
function showFinding(view, finding) {
  for (const one of view.querySelectorAll("li[data-finding]")) one.classList.toggle("now", one.dataset.finding === finding);
  view.querySelector("li[data-finding].now")?.scrollIntoView({ block: "nearest" });
}

let placed = new Set(); // what has a place in the verdict that is drawn

/** A sentence that shows its place, if it has one, when it is clicked; by keyboard with the button behind it. */
function located(at, element) {
  if (!placed.has(at)) return element;
  element.dataset.place = at;
  element.append(" ", h("button", { type: "button", class: "place-link", "aria-label": "Show the place on the image" }, "◎"));
  return element;
}

/** Brings out the sentence about a place, and scrolls to it. */
export function showSentence(view, at) {
  for (const one of view.querySelectorAll("[data-place]")) one.classList.toggle("now", one.dataset.place === at);
  const found = view.querySelector("[data-place].now");
  for (let fold = found?.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  found?.scrollIntoView({ block: "nearest" });
}

/** The places of a verdict for the compare view, each with the sentence about it. */
export function labelledPlaces(verdict, titles = {}) {
  const asserted = Object.values(verdict.criteria ?? {}).flatMap((one) => one.assertions ?? []);
  const said = (at) => {
    const measured = verdict.measurements?.[at];
    if (measured) return measured.sentence || at;
    const assertion = asserted.find((one) => one.id === at);
    if (assertion) return `${at} ${MARKS[assertion.answer].word}: ${assertion.evidence || assertion.question || ""}`;
    const flag = (verdict.flags ?? []).find((one) => one.at === at);
    if (flag) return flag.why;
    const [, key, number] = at.match(/^(.*)\.(\d+)$/) ?? [null, at, null];
    const finding = number && verdict.findings?.[key]?.[number - 1];
    const criterion = verdict.criteria?.[key];
    const name = titles[key] ?? named(key);
    return finding || (criterion?.reason ? `${name}: ${criterion.reason}` : name);
  };
  return (verdict.places ?? []).map((place) => ({ ...place, label: said(place.at) }));
}

/** What each call behind a preference said; a reason is in the letters that the judge saw. */
function orderAnswers(verdict) {
  const answers = verdict.preference?.answers ?? [];
  if (!answers.length) return null;
  return part("Answers", h("ul", { class: "found" }, answers.map((one) => {
    const letters = one.order === "swapped" ? "A is second" : "A is first";
    const who = verdict.jury ? `${one.judge} #${one.sample + 1}, ` : "";
    const said = one.choice ? WINNERS[one.choice].toLowerCase() : `${stateName(one.outcome)}: ${one.detail ?? ""}`;
    return h("li", {}, h("strong", {}, text(said)), typeof one.strength === "number" && ` (strength ${one.strength})`, " ",
      h("span", { class: "muted small" }, text(`${who}${one.order} order, ${letters}`)),
      one.reason && h("p", { class: "evidence" }, text(one.reason)));
  })));
}

function part(title, ...children) {
  return h("section", { class: "part" }, h("h3", {}, title), children);
}

function fold(title, ...children) {
  return h("details", { class: "part fold" }, h("summary", {}, title), children);
}

function fields(verdict) {
  const rows = Object.entries(verdict.fields ?? {});
  if (!rows.length) return null;
  const marks = textMarks(verdict);
  const missing = marks.expected_output?.map((one) => one.phrase) ?? [];
  return h("dl", { class: "fields" }, rows.map(([name, value]) =>
    h("div", {}, h("dt", {}, text(named(name))), [value].flat().map((one) => h("dd", {}, one === "" ? h("span", { class: "muted" }, "nothing at all") : markedText(one, marks[name] ?? []))),
      name === "output" && markLegend(marks.output ?? []),
      name === "output" && missing.length > 0 && h("dd", { class: "missing small" }, h("span", { class: "muted" }, "Not said: "), missing.map((phrase, at) => [at > 0 && ", ", text(phrase)])))));
}

const MARKED = { unsupported: "not in the expected description", contradicted: "against the expected description" };

/** What to mark in the texts of a case, by field: the words of the response that its findings name, and in the expected
    description what is missing. A finding of a model is looked for by what it quotes. */
function textMarks(verdict) {
  const found = verdict.findings ?? {};
  const quoted = (item) => [...item.matchAll(/[“"‘]([^”"’]{2,80})[”"’]/g)].map((match) => match[1]);
  const output = (found.hallucinations ?? []).flatMap((item, at) => {
    const kind = Object.keys(MARKED).find((name) => item.startsWith(`${MARKED[name]}: `));
    const rest = kind ? item.slice(MARKED[kind].length + 2) : item;
    const phrases = kind === "unsupported" ? [rest] : kind === "contradicted" ? quoted(rest).slice(0, 1) : quoted(rest);
    return phrases.map((phrase) => ({ phrase, kind: kind ?? "unsupported", why: item, finding: `hallucinations.${at + 1}` }));
  });
  const missing = (found.missing_elements ?? []).filter((item) => !item.startsWith("… and ")).map((item, at) => ({ phrase: item, kind: "missing", why: "missing in the response", finding: `missing_elements.${at + 1}` }));
  return { output, expected_output: missing };
}

/** A text with marks on what is found of `marks` in it: all words of a phrase in a row, or else its last one. */
function markedText(value, marks) {
  const spans = [];
  for (const mark of marks) {
    const words = mark.phrase.match(/[\p{L}\p{N}]+/gu) ?? [];
    for (const wanted of [words, words.slice(-1)]) {
      if (!wanted.length) break;
      const matches = [...value.matchAll(new RegExp(`(?<![\\p{L}\\p{N}])${wanted.join("[^\\p{L}\\p{N}]{1,3}")}(?![\\p{L}\\p{N}])`, "giu"))];
      spans.push(...matches.map((match) => ({ start: match.index, end: match.index + match[0].length, mark })));
      if (matches.length) break;
    }
  }
  if (!spans.length) return text(value);
  spans.sort((a, b) => a.start - b.start || b.end - a.end);
  const whole = h("bdi", {});
  let at = 0;
  for (const { start, end, mark } of spans) {
    if (start < at) continue; // within another
    add(whole, [value.slice(at, start), h("mark", { class: `said-${mark.kind}`, title: mark.why, role: "button", tabindex: "0", "data-finding": mark.finding }, value.slice(start, end))]);
    at = end;
  }
  return add(whole, value.slice(at));
}

function markLegend(marks) {
  const kinds = Object.keys(MARKED).filter((kind) => marks.some((one) => one.kind === kind));
  return kinds.length > 0 && h("dd", { class: "small muted" }, "Marked: ", kinds.map((kind, at) => [at > 0 && "; ", h("mark", { class: `said-${kind}` }, MARKED[kind])]));
}

function criteria(verdict, titles) {
  const entries = Object.entries(verdict.criteria ?? {});
  if (!entries.length) return null;
  return h("div", { class: "criteria" }, entries.map(([key, one]) => criterion(key, titles[key] ?? named(key), one, verdict)));
}

function criterion(key, name, one, verdict) {
  const range = one.score === undefined && one.score_range;
  const points = range ? `${number(range[0])}–${number(range[1])}` : typeof one.score === "number" ? String(Number(shownScore(one.score, verdict.grade, verdict.passed))) : number(one.score);
  const asked = (one.assertions ?? []).slice().sort((a, b) => MARKS[a.answer].order - MARKS[b.answer].order);
  const wrong = asked.filter((assertion) => assertion.answer === "no" || assertion.answer === "not_applicable");
  const rest = asked.filter((assertion) => !wrong.includes(assertion));
  const reported = one.reported !== undefined && one.reported !== one.score;
  return h("section", { class: "criterion" },
    h("div", { class: "criterion-head" },
      h("h3", { title: key }, text(name)),
      scaleBar(one.score, one.scale, one.score_range),
      verdict.preference
        ? h("p", { class: "points" }, h("strong", {}, one.choice ? WINNERS[one.choice] : "not decided"), CANDIDATES.includes(one.choice) && h("span", { class: "muted number" }, ` ${points}`))
        : h("p", { class: "points number" }, h("strong", {}, points), h("span", { class: "muted" }, ` / ${number(one.scale[1])}`)),
    ),
    reported && h("p", { class: "small muted" }, `The judge said ${number(one.reported)}.`),
    one.reason && located(key, h("p", { class: "prose" }, text(one.reason))),
    wrong.length > 0 && assertions(wrong),
    rest.length > 0 && fold(summed(rest), assertions(rest)),
  );
}

function summed(list) {
  const count = (answer) => list.filter((one) => one.answer === answer).length;
  const told = [[count("yes"), "answered Yes"], [count("abstained"), "not measured"]];
  return told.filter(([many]) => many).map(([many, word]) => `${many} ${word}`).join(", ");
}

function assertions(list) {
  return h("ul", { class: "assertions" }, list.map((one) => {
    const { mark, word } = MARKS[one.answer];
    return h("li", { class: `answer-${one.answer}` },
      h("span", { class: "mark", role: "img", "aria-label": word }, mark),
      h("div", {},
        h("p", {}, h("span", { class: "id" }, text(one.id)), " ", text(one.question ?? ""),
          one.confidence !== undefined && h("span", { class: "muted small" }, ` confidence ${number(one.confidence)}`)),
        (one.evidence || placed.has(one.id)) && located(one.id, h("p", { class: "evidence" }, text(one.evidence ?? ""))),
      ));
  }));
}

function findings(verdict) {
  const kinds = Object.entries(verdict.findings ?? {}).filter(([, items]) => items.length);
  return kinds.map(([key, items]) =>
    part(named(key), h("ul", { class: "found" }, items.map((item, at) => located(`${key}.${at + 1}`, located(key, h("li", { "data-finding": `${key}.${at + 1}` }, text(item))))))));
}

/** What a flag or a correction is about, criteria by their titles: `accuracy.score`, `A1, A2`, `juror 2: clarity`. */
function aboutPart(at, names) {
  const told = at.split(", ").map((part) => {
    const [, juror, place] = part.match(/^(juror \d+: )?(.*)$/s);
    const [key, ...rest] = place.split(".");
    const name = Object.hasOwn(names, key) ? [names[key], ...rest.filter((one) => one !== "score")].join(", ") : place;
    return (juror ?? "") + name.replaceAll("_", " ");
  });
  return h("span", { class: "muted", title: at }, text(told.join(", ")));
}

function flags(verdict, names, flagTitles) {
  const list = verdict.flags ?? [];
  if (!list.length) return null;
  return part("Flags", h("ul", { class: "flags" }, list.map((one) =>
    located(one.at, h("li", {}, h("span", { class: `tag ${one.flag === "pixels_disagree" ? "audit" : ""}`, title: one.flag }, text(flagTitles[one.flag] ?? one.flag.replaceAll("_", " "))), " ",
      one.at && [aboutPart(one.at, names), one.why ? ": " : ""],
      one.why && text(one.why))))));
}

function corrections(verdict, names) {
  const list = verdict.corrections ?? [];
  if (!list.length) return null;
  const said = (value) => (value === null || value === undefined ? "nothing" : typeof value === "number" ? number(value) : typeof value === "string" ? value : JSON.stringify(value));
  return part("Corrected by code", h("ul", { class: "corrections" }, list.map((one) =>
    h("li", {}, aboutPart(one.at, names), " ",
      h("s", { class: "number" }, text(said(one.said))), " → ", h("strong", { class: "number" }, text(said(one.stands))), " ",
      h("span", { class: "small muted" }, text(one.why))))));
}

function calibrated(values, titles) {
  const told = ({ value, low, high, scale, raw, why }) => {
    if (value === null || value === undefined) return [h("span", { class: "muted" }, text(why ?? "not defined"))];
    const between = low === null || low === undefined ? "" : ` (${number(low)} to ${number(high)})`;
    return [h("strong", {}, number(value)), `${between} on ${number(scale[0])} to ${number(scale[1])}; the judge's own number is ${number(raw)}`];
  };
  return part("Calibrated: what people would say", h("dl", { class: "sent" }, Object.entries(values).map(([key, one]) =>
    h("div", {}, h("dt", { title: key }, text(titles[key] ?? named(key))), h("dd", { class: "number" }, told(one))))));
}

function jury(one, titles) {
  const spread = Object.entries(one.spread ?? {}).filter(([key]) => key !== "score").map(([key, value]) => `${titles[key] ?? named(key)} ${number(value)}`);
  return part("Jury",
    h("p", {}, `${one.answered} answered, ${one.failed} without a score.`, spread.length > 0 && ` Spread (highest less lowest): ${spread.join(", ")}.`),
    h("ul", { class: "jurors" }, (one.jurors ?? []).map((juror) =>
      h("li", {}, text(juror.judge), h("span", { class: "muted" }, ` #${juror.sample + 1} `),
        h("span", { class: "number" }, juror.score === null || juror.score === undefined ? stateName(juror.outcome) : juror.score.toFixed(2))))));
}

function measurements(verdict) {
  const rows = Object.entries(verdict.measurements ?? {});
  if (!rows.length) return null;
  return fold(counted(rows.length, "measurement"), h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Measurements" }, h("table", { class: "measured" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "What"), h("th", { scope: "col", class: "right" }, "Value"), h("th", { scope: "col" }, "In words"))),
    h("tbody", {}, rows.map(([name, one]) => {
      const plain = typeof one === "object" && one !== null ? one : { value: one };
      const unit = plain.unit && plain.unit !== "share" ? ` ${plain.unit}` : "";
      return h("tr", {}, h("th", { scope: "row" }, text(name)),
        h("td", { class: "number right" }, text(`${number(plain.value ?? null, 3)}${unit}`)), located(name, h("td", {}, text(plain.sentence ?? ""))));
    })))));
}

function sent(verdict) {
  const usage = verdict.usage ?? {};
  const tokens = ["input_tokens", "output_tokens", "cached_tokens"].filter((name) => usage[name]).map((name) => `${usage[name].toLocaleString("en")} ${name.split("_")[0]}`);
  const rows = [
    ["Judge", verdict.judge], ["Model, as returned", verdict.model], ["Setting", verdict.setting], ["Style", verdict.style],
    ...(verdict.images ?? []).map((image) => [imageName(image, verdict.images), imageTold(image)]),
    ["Tokens", tokens.join(", ")],
    ["Cost", verdict.cost_usd === undefined ? (verdict.attempts ? "unknown" : "") : verdict.cost_usd ? `$${verdict.cost_usd.toFixed(4)}` : "nothing"],
    ["Latency", verdict.latency_s === undefined ? "" : `${number(verdict.latency_s, 1)} s`],
    ["Attempts", verdict.attempts > 1 ? verdict.attempts : ""],
    ["From the ledger", verdict.reused ? "yes: cached, no call in this run" : ""],
    ["Brief digest", verdict.brief_digest],
    ...Object.entries(verdict.groups ?? {}).map(([name, value]) => [`Group ${name}`, value]),
  ];
  return fold("What was sent", h("dl", { class: "sent" }, rows.filter(([, value]) => value !== undefined && value !== null && value !== "").map(([name, value]) =>
    h("div", {}, h("dt", {}, text(name)), h("dd", { class: /igest/.test(name) ? "digest" : null }, text(value))))));
}

/** The role of one of `images` as people read it, with a number where several have it. */
export function imageName(image, images) {
  const same = images.filter((one) => one.role === image.role);
  return same.length > 1 ? `${named(image.role)} ${same.indexOf(image) + 1}` : named(image.role);
}

/** The images of a pair as they are looked at: what both were made from, if there is something, and the two candidates.
    Each has the `name` of who made it, if that is known. */
export function pairImages(images, groups = {}) {
  const drawn = [...images.filter((image) => !CANDIDATES.includes(image.role)).slice(0, 1), ...images.filter((image) => CANDIDATES.includes(image.role))];
  return drawn.map((image) => ({ ...image, name: groups[`model_${image.role}`] || named(image.role) }));
}

/** Who won a pair, by the name of the model if that is known. */
export function winnerWords(winner, groups = {}) {
  const model = groups[`model_${winner}`];
  return model ? `${model} is better` : WINNERS[winner].toLowerCase();
}

function imageTold(image) {
  const from = image.scaled ? `, scaled from ${image.source_width} × ${image.source_height}` : "";
  return `${image.width} × ${image.height}${from}, ${Math.round(image.bytes / 1000).toLocaleString("en")} kB ${image.media_type}, ${image.digest}`;
}
