// The marks of a chart are links. They are one stop of the Tab key; the arrow keys go from mark to mark.

const centre = (mark) => {
  const box = (mark.querySelector(".point, .dot, .bar, .slice") ?? mark).getBoundingClientRect();
  return { x: box.x + box.width / 2, y: box.y + box.height / 2 };
};

const WAYS = { ArrowLeft: ["x", -1], ArrowRight: ["x", 1], ArrowUp: ["y", -1], ArrowDown: ["y", 1] };

for (const chart of document.querySelectorAll("svg[data-marks]")) {
  const marks = [...chart.querySelectorAll("a")];
  const stop = (mark) => marks.forEach((one) => one.setAttribute("tabindex", one === mark ? "0" : "-1"));
  if (!marks.length) continue;
  stop(marks[0]);
  // Not one listener on the chart: Chromium makes an svg that listens for focus a stop of the Tab key itself.
  for (const mark of marks) mark.addEventListener("focus", () => stop(mark));
  chart.addEventListener("keydown", (event) => {
    const way = WAYS[event.key], mark = event.target.closest("a");
    if (!way || !mark || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    const [axis, sign] = way;
    const across = axis === "x" ? "y" : "x";
    const from = centre(mark);
    let nearest = null, least = Infinity;
    for (const mark of marks) {
      const at = centre(mark);
      const along = sign * (at[axis] - from[axis]);
      if (along < 0.5) continue;
      const far = along + 2 * Math.abs(at[across] - from[across]);
      if (far < least) [nearest, least] = [mark, far];
    }
    nearest?.focus();
  });
}
