import { compareView } from "./compare-view.js";

// Rating a case by keyboard, mouse or touch. The form works without this; here come the compare view, the keys, and that
// every answer is kept the moment it is given.

const TYPED_MS = 400; // how long a pause in typing is
const AGAIN_MS = 2000; // until what the app did not answer is sent again
const BEACON = 60_000; // characters; browsers send at most 64 KiB while a page closes

const looks = document.querySelector("[data-looks]");
const form = document.querySelector("[data-rate]");
const said = document.querySelector("[data-said]");
const view = looks && looked(looks);

/** The images under the shared view, in place of the plain ones. Of a vote the two candidates are in it, side by side,
 * and what they were made from stays as it is beside them. */
function looked(place) {
  const isVote = place.querySelectorAll(".candidate").length === 2;
  const images = [...place.querySelectorAll("img")].map((image) => ({ role: image.alt, src: image.getAttribute("src") }));
  const others = isVote ? [...place.querySelectorAll("figure:not(.candidate)")] : [];
  const pair = isVote ? [images.length - 2, images.length - 1] : undefined;
  const made = compareView(images, { mode: innerWidth < 700 && !isVote ? "slider" : "side", pair });
  made.element.querySelector('[data-mode="side"]')?.removeAttribute("aria-keyshortcuts"); // n is for No here
  place.replaceChildren(...others, made.element);
  place.classList.add("live");
  return made;
}

const inText = (element) => element.matches?.("textarea, select, input:not([type=radio], [type=checkbox])") ?? false;

function look(key) {
  const mode = { s: "slider", b: "blink", d: "difference" }[key];
  if (!mode || !view || view.images.length < 2) return false;
  if (mode === "blink" && view.now === "blink") view.toggle();
  else view.mode(mode);
  return true;
}

const plainKey = (event) => !(event.ctrlKey || event.metaKey || event.altKey) && !document.querySelector("dialog[open]");

/** A page without the form: what the judge said, or that all is done. */
function showing() {
  document.documentElement.dataset.ready = "";
  document.addEventListener("keydown", (event) => {
    if (!plainKey(event) || inText(event.target)) return;
    if (event.key === "Enter" && !event.target.closest("a, button, summary")) document.querySelector("[data-next]")?.click();
    else if (!look(event.key)) return;
    event.preventDefault();
  });
}

function rating() {
  const questions = new Questions(form);
  const saver = new Saver(form, questions);
  listenToKeys(questions, saver);
  warnAboveCeilings();
  listenToAnswers(saver);
  guardUnsaved(saver);
  questions.focusFirst();
  document.documentElement.dataset.ready = "";
}

const intoView = (element) => element.scrollIntoView({ block: "nearest", behavior: "instant" });

/** The questions of the form, and which of them has the focus. */
class Questions {
  constructor(form) {
    this.all = [...form.querySelectorAll("[data-ask]")];
    this.save = form.querySelector("button[type=submit]");
    this.now = null;
    form.addEventListener("focusin", (event) => this.mark(event.target.closest("[data-ask]")));
  }

  mark(question) {
    this.now?.classList.remove("now");
    this.now = question;
    this.now?.classList.add("now");
  }

  choices(question) {
    return [...question.querySelectorAll("input[type=radio]")];
  }

  unanswered() {
    return this.all.filter((question) => !("optional" in question.dataset) && !this.choices(question).some((choice) => choice.checked));
  }

  /** Focuses the answer to a question, or its first choice. */
  focus(question) {
    const choices = this.choices(question);
    (choices.find((choice) => choice.checked) ?? choices[0]).focus({ preventScroll: true });
  }

  /** Goes to a question; without one, to the button that saves. */
  go(question) {
    if (question) this.focus(question);
    else this.save.focus({ preventScroll: true });
    intoView(question ?? this.save);
  }

  move(by) {
    const at = this.now ? this.all.indexOf(this.now) + by : by > 0 ? 0 : this.all.length - 1;
    if (at >= 0) this.go(this.all[at]);
  }

  /** Answers the question that has the focus by a key, and goes to the next one. Returns whether the key is an answer. */
  pick(key) {
    const found = this.now && this.choices(this.now).find((choice) => choice.dataset.pick === key);
    if (!found) return false;
    found.checked = true;
    found.dispatchEvent(new Event("change", { bubbles: true }));
    this.go(this.all[this.all.indexOf(this.now) + 1]);
    return true;
  }

  /** Focuses the first unanswered question without moving the page, since the images come first; who was here before
   * goes on where they were. */
  focusFirst() {
    const first = this.unanswered()[0] ?? this.all[0];
    this.focus(first);
    if (first !== this.all[0]) intoView(first);
  }
}

/** Saves the form, and keeps drafts of it until then. */
class Saver {
  constructor(form, questions) {
    this.form = form;
    this.questions = questions;
    this.warned = false; // of what is unanswered
    this.timer = null; // until it is sent again
    this.underWay = false;
    this.unsaved = false; // it was to be saved, and the app did not
    // That something is kept is no news beside what is unanswered.
    this.drafts = keeping(form, (words, loud) => { if (this.timer === null && (loud || !this.warned)) say(words, loud); });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
  }

  request() {
    this.form.requestSubmit(this.questions.save);
  }

  submit() {
    const open = this.questions.unanswered();
    if (!open.length || this.warned) {
      this.send();
      return;
    }
    this.warned = true;
    say(`${open.length} unanswered. Press Enter again to save without ${open.length === 1 ? "it" : "them"}.`, true);
    for (const question of open) question.classList.add("left-open");
    this.questions.go(open[0]);
  }

  /** Saves without leaving the page before it is saved: what the app does not answer is sent again until it does. */
  async send() {
    clearTimeout(this.timer);
    this.timer = null;
    if (this.underWay) return;
    this.underWay = this.unsaved = true;
    this.drafts.stop();
    try {
      if (await this.post()) return;
    } catch {
      this.timer = setTimeout(() => this.send(), AGAIN_MS);
      say("Not saved: the app does not answer. It is tried again until it does; leave this page open.", true);
    }
    this.underWay = false;
    this.drafts.start();
  }

  /** Sends the form once. Returns whether it is saved; then the page goes. Throws if the app does not answer. */
  async post() {
    const body = new URLSearchParams(new FormData(this.form));
    const answer = await fetch(this.form.action, { method: "POST", body, headers: { Accept: "application/json" } });
    if (answer.status >= 500) throw new Error(answer.statusText);
    const told = answer.headers.get("Content-Type") === "application/json" ? await answer.json() : {};
    if (answer.ok) {
      this.unsaved = false;
      location.assign(told.next);
    } else {
      refuse(told.why ?? `The app refuses it (${answer.status}).`);
    }
    return answer.ok;
  }
}

function refuse(why) {
  const wrong = document.querySelector("[data-wrong]");
  wrong.textContent = why;
  wrong.hidden = false;
  intoView(wrong);
  say("Not saved.", true);
}

function listenToKeys(questions, saver) {
  document.addEventListener("keydown", (event) => {
    if (document.querySelector("dialog[open]")) return;
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      saver.request();
    } else if (!plainKey(event)) {
      return;
    } else if (inText(event.target)) {
      if (event.key === "Escape") questions.go(questions.unanswered()[0] ?? questions.all.at(-1));
    } else if (pressKey(event, questions, saver)) {
      event.preventDefault();
    }
  });
}

/** Does what a key stands for. Returns whether it stands for something here. */
function pressKey({ key, target }, questions, saver) {
  if (key === "Enter") {
    if (target.closest("a, button:not([type=submit]), summary")) return false;
    saver.request();
  } else if (key === "ArrowDown" || key === "ArrowUp") {
    if (target.closest(".cv")) return false;
    questions.move(key === "ArrowDown" ? 1 : -1);
  } else if (key === "c") {
    const comment = form.querySelector("[data-comment]");
    comment.focus({ preventScroll: true });
    intoView(comment);
  } else if (key === "p") {
    document.querySelector("[data-pass]")?.click();
  } else if (key === "i") {
    const guide = questions.now?.closest(".rate-part")?.querySelector("details");
    if (guide) guide.open = !guide.open;
  } else if (key === "?") {
    if (!target.matches("input")) return false; // the frame sees to it
    document.querySelector("[data-help]").click();
  } else {
    return questions.pick(key.length === 1 ? key.toLowerCase() : key) || look(key);
  }
  return true;
}

/** Says where a score is above what the failed assertions allow: it is lowered when it is saved. */
function warnAboveCeilings() {
  for (const part of form.querySelectorAll(".rate-part")) {
    noteCeiling(part);
    part.addEventListener("change", () => noteCeiling(part));
  }
}

function noteCeiling(part) {
  const note = part.querySelector("[data-ceiling-note]");
  if (!note) return;
  const ends = part.dataset.ceiling.split(",").map(Number);
  const failed = part.querySelectorAll('.assertion input[value="no"]:checked').length;
  const most = ends[Math.min(failed, ends.length - 1)];
  const score = Number(part.querySelector(".score input:checked")?.value);
  note.textContent = score > most ? `${failed} answered No: at most ${most} counts.` : "";
}

/** Keeps every answer the moment it is given. */
function listenToAnswers(saver) {
  form.addEventListener("change", (event) => {
    event.target.closest("[data-ask]")?.classList.remove("left-open");
    saver.warned = false;
    saver.drafts.keep();
  });
  form.addEventListener("input", (event) => {
    if (inText(event.target)) saver.drafts.soon();
  });
  if ("unsaved" in form.dataset) saver.drafts.keep(); // sent back with a word on what is wrong
}

/** Lets the page go only if nothing is lost by it. */
function guardUnsaved(saver) {
  document.querySelector("[data-leave]")?.addEventListener("click", () => saver.drafts.stop());
  addEventListener("pagehide", () => saver.drafts.flush());
  addEventListener("beforeunload", (event) => {
    if (saver.unsaved || saver.drafts.atRisk()) event.preventDefault();
  });
  addEventListener("pageshow", (event) => {
    if (event.persisted) location.reload(); // come back to by the back button: what is saved may be another thing now
  });
}

function say(words, loud = false) {
  said.textContent = words;
  said.classList.toggle("loud", loud);
}

/** Sends what is answered so far as soon as it is; what comes while one is under way goes with the next. Of a rating that
 * was saved before nothing is sent until it is saved again. */
function keeping(form, tell) {
  const where = form.dataset.draft;
  const page = Math.random().toString(36).slice(2); // with the turn, by which the app knows an older one that comes late
  let turn = 0;
  let timer = null;
  let underWay = false;
  let changes = 0;
  let kept = 0; // how many of the changes the app has
  let failing = false; // the app did not answer the last time
  let refused = false; // only saving keeps anything by now, or nothing does
  let stopped = false;

  const body = () => new URLSearchParams(new FormData(form));
  const tooLong = () => body().toString().length > BEACON;
  const address = () => `${where}?turn=${page}.${++turn}`;

  async function send() {
    clearTimeout(timer);
    timer = null;
    if (stopped || !where || underWay || kept === changes) return;
    const upTo = changes;
    underWay = true;
    try {
      const answer = await fetch(address(), { method: "POST", body: body() });
      if (answer.status >= 500) throw new Error(answer.statusText);
      const said = answer.headers.get("Content-Type") === "application/json" ? await answer.json() : {};
      const found = answer.ok && said.kept;
      kept = upTo;
      failing = false;
      refused = !found;
      if (stopped) {} // it is being saved, which says more
      else if (found) tell("Kept. What is unanswered counts as N/A.");
      else if (answer.ok) tell("This case was rated in another window; saving changes that rating.", true);
      else tell(`Not kept: ${said.why ?? `the app refuses it (${answer.status}).`}`, true);
    } catch {
      failing = true;
      if (!stopped) {
        tell("Not kept: the app does not answer. Leave this page open until it does.", true);
        timer = setTimeout(send, AGAIN_MS);
      }
    }
    underWay = false;
    if (timer === null) send();
  }
  return {
    keep: () => { changes += 1; send(); },
    soon: () => { changes += 1; clearTimeout(timer); timer = setTimeout(send, TYPED_MS); },
    // The page goes: whatever the app may not have must go now, without waiting for its turn.
    flush: () => { if (!stopped && where && kept !== changes) navigator.sendBeacon(address(), body()); },
    // Whether something is lost if the page goes: a beacon may be too long, or find nobody who takes it.
    atRisk: () => !stopped && changes > 0 && (!where || refused || (kept !== changes && (failing || tooLong()))),
    stop: () => { clearTimeout(timer); timer = null; stopped = true; },
    start: () => { stopped = false; send(); },
  };
}

document.querySelector("[data-next]")?.focus({ preventScroll: true });
if (form) rating();
else showing();
