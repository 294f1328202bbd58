// Two pictures one over the other, with a slider: by mouse, touch or the arrow keys. Without script they are side by side.

for (const pair of document.querySelectorAll("[data-before-now]")) {
  const slider = document.createElement("input");
  slider.type = "range";
  slider.value = "50";
  slider.setAttribute("aria-label", `Where before and now meet, ${pair.dataset.beforeNow}`);
  const show = () => {
    pair.style.setProperty("--split", `${slider.value}%`);
    slider.setAttribute("aria-valuetext", `${slider.value} % before, the rest now`);
  };
  slider.addEventListener("input", show);
  show();
  pair.append(slider);
  pair.classList.add("slides");
}
