// How far a run is that is still running, asked every few seconds; once it is done the page is drawn anew.

const EVERY_MS = 2000;

async function look(place) {
  const answer = await fetch(`/api/runs/${encodeURIComponent(place.dataset.live)}`);
  if (!answer.ok) return;
  const run = await answer.json();
  const told = (name, text) => { const at = place.querySelector(name); if (at && at.textContent !== text) at.textContent = text; };
  told("[data-done]", run.done.toLocaleString("en"));
  told("[data-state]", run.state);
  if (run.score !== null) told("[data-score]", run.score.toFixed(3));
  const bar = place.querySelector("[data-progress]");
  if (bar) bar.value = run.done;
  if (!run.running) location.reload();
}

const places = [...document.querySelectorAll("[data-live]")].filter((place) => place.dataset.live);
setInterval(() => { if (!document.hidden) for (const place of places) look(place).catch(() => {}); }, EVERY_MS);
