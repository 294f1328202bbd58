// A page whose numbers still change is asked for again every few seconds and, where it has become another, put in its
// own place: counts, outcomes, charts, cost. What is folded out stays so. Once nothing changes any more it is loaded anew.

const place = () => document.querySelector("[data-live]");
const everyMs = 1000 * Number(place()?.dataset.live);
let seen = place()?.innerHTML; // as it came: folding out changes what is there

function put(now) {
  const old = place();
  const folds = [...old.querySelectorAll("details")].map((one) => one.open);
  now.querySelectorAll("details").forEach((one, at) => { one.open = folds[at] ?? one.open; });
  const at = old.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  old.replaceChildren(...now.childNodes);
  if (at) old.querySelector(`[href="${CSS.escape(at)}"]`)?.focus({ preventScroll: true });
}

async function look() {
  const answer = document.hidden ? null : await fetch(location.href);
  if (answer?.ok) {
    const now = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("[data-live]");
    if (!now) return location.reload();
    if (now.innerHTML !== seen) {
      seen = now.innerHTML;
      put(now);
    }
  }
  next();
}

const next = () => setTimeout(() => look().catch(next), everyMs);
if (place()) next();
