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

/** The images under the shared view, in place of the plain ones. */
function looked(place) {
  const images = [...place.querySelectorAll("img")].map((image) => ({ role: image.alt, src: image.getAttribute("src") }));
  const made = compareView(images, { mode: innerWidth < 700 ? "slider" : "side" });
  made.element.querySelector('[data-mode="side"]')?.removeAttribute("aria-keyshortcuts"); // n is for No here
  place.replaceChildren(made.element);
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

document.querySelector("[data-next]")?.focus({ preventScroll: true });
if (!form) {
  document.documentElement.dataset.ready = "";
  document.addEventListener("keydown", (event) => {
    if (!plainKey(event) || inText(event.target)) return;
    if (event.key === "Enter" && !event.target.closest("a, button, summary")) document.querySelector("[data-next]")?.click();
    else if (!look(event.key)) return;
    event.preventDefault();
  });
} else {
  rating();
}

function rating() {
  const asks = [...form.querySelectorAll("[data-ask]")];
  const save = form.querySelector("button[type=submit]");
  const picks = (ask) => [...ask.querySelectorAll("input[type=radio]")];
  const answered = (ask) => picks(ask).some((pick) => pick.checked);
  let now = null;
  let warned = false;
  let saving = null; // until it is sent again
  let underWay = false;
  let unsaved = false; // it was to be saved, and the app did not

  function go(ask) {
    if (!ask) {
      save.focus({ preventScroll: true });
      save.scrollIntoView({ block: "nearest", behavior: "instant" });
      return;
    }
    const pick = picks(ask).find((one) => one.checked) ?? picks(ask)[0];
    pick.focus({ preventScroll: true });
    ask.scrollIntoView({ block: "nearest", behavior: "instant" });
  }

  form.addEventListener("focusin", (event) => {
    const ask = event.target.closest("[data-ask]");
    now?.classList.remove("now");
    now = ask;
    now?.classList.add("now");
  });

  function move(by) {
    const at = now ? asks.indexOf(now) + by : by > 0 ? 0 : asks.length - 1;
    if (at < 0) return;
    go(asks[at]);
  }

  function pick(key) {
    const found = now && picks(now).find((one) => one.dataset.pick === key);
    if (!found) return false;
    found.checked = true;
    found.dispatchEvent(new Event("change", { bubbles: true }));
    const next = asks[asks.indexOf(now) + 1];
    go(next);
    return true;
  }

  document.addEventListener("keydown", (event) => {
    if (document.querySelector("dialog[open]")) return;
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      form.requestSubmit(save);
      return;
    }
    if (!plainKey(event)) return;
    if (inText(event.target)) {
      if (event.key === "Escape") go(asks.find((ask) => !answered(ask)) ?? asks.at(-1));
      return;
    }
    if (!done(event)) return;
    event.preventDefault();
  });

  /** Whether the key did something here. */
  function done(event) {
    const { key, target } = event;
    if (key === "Enter") {
      if (target.closest("a, button:not([type=submit]), summary")) return false;
      form.requestSubmit(save);
    } else if (key === "ArrowDown" || key === "ArrowUp") {
      if (target.closest(".cv")) return false;
      move(key === "ArrowDown" ? 1 : -1);
    } else if (key === "c") {
      const comment = form.querySelector("[data-comment]");
      comment.focus({ preventScroll: true });
      comment.scrollIntoView({ block: "nearest", behavior: "instant" });
    } else if (key === "p") {
      document.querySelector("[data-pass]")?.click();
    } else if (key === "i") {
      const guide = now?.closest(".rate-part")?.querySelector("details");
      if (guide) guide.open = !guide.open;
    } else if (key === "?") {
      if (!target.matches("input")) return false; // the frame sees to it
      document.querySelector("[data-help]").click();
    } else {
      return pick(key.length === 1 ? key.toLowerCase() : key) || look(key);
    }
    return true;
  }

  // A score above what the failed assertions allow is lowered when it is saved: better to know before.
  function ceiling(part) {
    const note = part.querySelector("[data-ceiling-note]");
    if (!note) return;
    const ends = part.dataset.ceiling.split(",").map(Number);
    const failed = part.querySelectorAll('.assertion input[value="no"]:checked').length;
    const most = ends[Math.min(failed, ends.length - 1)];
    const score = Number(part.querySelector(".score input:checked")?.value);
    note.textContent = score > most ? `${failed} answered No: at most ${most} counts.` : "";
  }
  for (const part of form.querySelectorAll(".rate-part")) {
    ceiling(part);
    part.addEventListener("change", () => ceiling(part));
  }

  form.addEventListener("submit", (event) => {
    const open = asks.filter((ask) => !answered(ask));
    if (open.length && !warned) {
      event.preventDefault();
      warned = true;
      say(`${open.length} unanswered. Press Enter again to save without ${open.length === 1 ? "it" : "them"}.`, true);
      for (const ask of open) ask.classList.add("left-open");
      go(open[0]);
      return;
    }
    event.preventDefault();
    send();
  });

  /** Saves without leaving the page before it is saved: what the app does not answer is sent again until it does. */
  async function send() {
    clearTimeout(saving);
    saving = null;
    if (underWay) return;
    underWay = unsaved = true;
    drafts.stop();
    try {
      const answer = await fetch(form.action, { method: "POST", body: new URLSearchParams(new FormData(form)), headers: { Accept: "application/json" } });
      if (answer.status >= 500) throw new Error(answer.statusText);
      const told = answer.headers.get("Content-Type") === "application/json" ? await answer.json() : {};
      if (answer.ok) {
        unsaved = false;
        location.assign(told.next);
        return;
      }
      refuse(told.why ?? `The app refuses it (${answer.status}).`);
    } catch {
      saving = setTimeout(send, AGAIN_MS);
      say("Not saved: the app does not answer. It is tried again until it does; leave this page open.", true);
    }
    underWay = false;
    drafts.start();
  }

  function refuse(why) {
    const wrong = document.querySelector("[data-wrong]");
    wrong.textContent = why;
    wrong.hidden = false;
    wrong.scrollIntoView({ block: "nearest", behavior: "instant" });
    say("Not saved.", true);
  }

  // That something is kept is no news beside what is unanswered.
  const drafts = keeping(form, (words, loud) => { if (saving === null && (loud || !warned)) say(words, loud); });
  form.addEventListener("change", (event) => {
    event.target.closest("[data-ask]")?.classList.remove("left-open");
    warned = false;
    drafts.keep();
  });
  form.addEventListener("input", (event) => {
    if (inText(event.target)) drafts.soon();
  });
  if ("unsaved" in form.dataset) drafts.keep(); // sent back with a word on what is wrong
  document.querySelector("[data-leave]")?.addEventListener("click", () => drafts.stop());
  addEventListener("pagehide", () => drafts.flush());
  addEventListener("beforeunload", (event) => {
    if (unsaved || drafts.atRisk()) event.preventDefault();
  });
  addEventListener("pageshow", (event) => {
    if (event.persisted) location.reload(); // come back to by the back button: what is saved may be another thing now
  });

  // Focus without moving the page: the images come first. Who was here before goes on where they were.
  const first = asks.find((ask) => !answered(ask)) ?? asks[0];
  (picks(first).find((one) => one.checked) ?? picks(first)[0]).focus({ preventScroll: true });
  if (first !== asks[0]) first.scrollIntoView({ block: "nearest", behavior: "instant" });
  document.documentElement.dataset.ready = "";
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
