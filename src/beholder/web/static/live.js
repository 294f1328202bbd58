// Parts of a page that still change are asked for again every few seconds and, where they have become others, put in their
// own place: counts, outcomes, charts, cost, cards. What is folded out stays so, as does the focus; while somebody fills in
// a field of a part it stays as it is. A part says after how many seconds; once none does so any more, the page is done.

const parts = () => [...document.querySelectorAll("[data-live]")];
const seconds = () => Math.max(...parts().map((one) => Number(one.dataset.live)), 0);
let seen = parts().map((one) => one.innerHTML); // as they came: folding out changes what is there

function put(old, now) {
  const folds = [...old.querySelectorAll("details")].map((one) => one.open);
  now.querySelectorAll("details").forEach((one, at) => { one.open = folds[at] ?? one.open; });
  for (const one of now.querySelectorAll("[data-scripted]")) one.hidden = false;
  const leads = (link) => link.getAttribute("href")?.replace(/&place=\d+/, ""); // a card may be at another place now
  const at = old.contains(document.activeElement) ? leads(document.activeElement) : null;
  // Pictures that are there stay, so that they do not blink.
  const pictures = new Map([...old.querySelectorAll("img")].map((one) => [one.outerHTML, one]));
  for (const one of now.querySelectorAll("img")) {
    const same = pictures.get(one.outerHTML);
    if (same) one.replaceWith(same);
    pictures.delete(one.outerHTML);
  }
  old.dataset.live = now.dataset.live;
  old.replaceChildren(...now.childNodes);
  if (at) [...old.querySelectorAll("a")].find((one) => leads(one) === at)?.focus({ preventScroll: true });
}

async function look() {
  const answer = document.hidden ? null : await fetch(location.href);
  if (answer?.ok) {
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const now = [...page.querySelectorAll("[data-live]")];
    if (!now.length) return location.reload();
    parts().forEach((old, at) => {
      const busy = old.contains(document.activeElement) && document.activeElement.matches("input, select, textarea");
      if (!now[at] || busy || now[at].innerHTML === seen[at]) return;
      seen[at] = now[at].innerHTML;
      put(old, now[at]);
    });
    if (!Math.max(...now.map((one) => Number(one.dataset.live)))) return;
  }
  next();
}

const next = () => setTimeout(() => look().catch(next), 1000 * (seconds() || 2));
if (parts().length) next();
