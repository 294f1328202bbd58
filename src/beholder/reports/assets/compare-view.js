import { h, named } from "./dom.js";

// Two images, looked at in four ways: a slider, blinking, the difference as a heatmap, side by side. Zoom and pan are
// locked between them. Everything works by mouse, touch and keyboard.

export const MODES = {
  slider: { name: "Slider", key: "s" },
  blink: { name: "Blink", key: "b" },
  difference: { name: "Difference", key: "d" },
  side: { name: "Side by side", key: "n" },
};

const BLINK_MS = 700;
const MOST_ZOOM = 8;
const VISIBLE = 12; // of 255: a difference that most people can see when the images blink
const NOISE = 5;
const HEAT = [[12, 12, 16], [72, 22, 104], [176, 52, 92], [244, 132, 36], [252, 232, 150]];

/**
 * `images` is a list of {role, src}; with more than two, which ones are compared can be chosen; with one
 * there is nothing to compare, only to zoom. The two candidates of a preference are compared first, else the first and
 * the last; `pair` has the numbers of two others. The result has `element`, `mode(name)`, `toggle()` and `destroy()`.
 */
export function compareView(images, { mode = "slider", onmode = () => {}, pair } = {}) {
  return new CompareView(images, mode, onmode, pair ?? comparedFirst(images));
}

function comparedFirst(images) {
  const candidates = ["first", "second"].map((role) => images.findIndex((image) => image.role.toLowerCase() === role));
  return candidates.includes(-1) ? [0, images.length - 1] : candidates;
}

class CompareView {
  constructor(images, mode, onmode, pair) {
    this.images = images;
    this.onmode = onmode;
    this.pair = images.length > 1 ? [...pair] : [0, 0];
    this.zoom = { scale: 1, x: 0, y: 0 };
    this.split = 50;
    this.second = false;
    this.pointers = new Map();
    this.calm = matchMedia("(prefers-reduced-motion: reduce)");
    this.build();
    this.load();
    this.mode(images.length > 1 ? mode : "single");
  }

  build() {
    this.first = h("img", { class: "cv-image", draggable: "false", alt: "" });
    this.last = h("img", { class: "cv-image", draggable: "false", alt: "" });
    this.canvas = h("canvas", { class: "cv-image cv-canvas", role: "img" });
    this.panes = [
      h("div", { class: "cv-pane cv-first" }, this.first),
      h("div", { class: "cv-pane cv-last" }, this.last),
      h("div", { class: "cv-pane cv-heat" }, this.canvas),
    ];
    this.tags = [h("span", { class: "cv-tag cv-tag-first" }), h("span", { class: "cv-tag cv-tag-last" })];
    this.handle = h("div", {
      class: "cv-handle", role: "slider", tabindex: "0", "aria-label": "Where the two images meet",
      "aria-valuemin": "0", "aria-valuemax": "100", onkeydown: (event) => this.slide(event),
    });
    this.stage = h("div", { class: "cv-stage" }, this.panes, this.handle, this.tags);
    this.note = h("p", { class: "cv-note", role: "status" });
    this.buttons = Object.entries(MODES).map(([name, { name: label, key }]) =>
      h("button", {
        type: "button", "data-mode": name, "aria-pressed": "false", "aria-keyshortcuts": key,
        onclick: () => (name === this.now && name === "blink" ? this.toggle() : this.mode(name)),
      }, label),
    );
    const zoomBy = (label, name, by) =>
      h("button", { type: "button", class: "square", "aria-label": name, onclick: () => this.zoomTo(this.zoom.scale * by) }, label);
    this.level = h("button", { type: "button", class: "cv-level number", "aria-label": "Fit", onclick: () => this.fit() }, "Fit");
    const several = this.images.length > 1;
    this.tools = h("div", { class: "cv-tools controls" },
      several && h("div", { class: "segmented", role: "group", "aria-label": "How to compare" }, this.buttons),
      this.images.length > 2 && this.pickers(),
      h("div", { class: "segmented cv-zoom", role: "group", "aria-label": "Zoom" },
        zoomBy("−", "Zoom out", 1 / 1.5), this.level, zoomBy("+", "Zoom in", 1.5)),
    );
    this.element = h("div", { class: "cv" }, this.stage, this.tools, this.note);
    this.listen();
  }

  pickers() {
    return h("div", { class: "cv-pickers" }, [0, 1].map((side) =>
      h("select", {
        "aria-label": side ? "Second image" : "First image",
        onchange: (event) => { this.pair[side] = Number(event.target.value); this.load(); this.mode(this.now); },
      }, this.images.map((image, at) => h("option", { value: at, selected: at === this.pair[side] }, named(image.role)))),
    ));
  }

  load() {
    const [one, other] = this.pair.map((at) => this.images[at]);
    for (const [element, image, tag] of [[this.first, one, this.tags[0]], [this.last, other, this.tags[1]]]) {
      element.src = image.src;
      element.alt = named(image.role);
      tag.textContent = named(image.role);
    }
    this.drawn = null;
    const shape = () => {
      const { naturalWidth: width, naturalHeight: height } = this.first;
      if (width && height) this.element.style.setProperty("--cv-shape", `${width} / ${height}`);
    };
    this.first.decode().then(shape, () => {});
    shape();
  }

  mode(name) {
    clearInterval(this.timer);
    this.now = name;
    this.element.dataset.mode = name;
    for (const button of this.buttons) button.setAttribute("aria-pressed", String(button.dataset.mode === name));
    this.note.textContent = "";
    this.turn(false);
    this.slideTo(this.split);
    if (name === "blink") this.blink();
    if (name === "difference") this.difference();
    this.place();
    if (name !== "single") this.onmode(name);
  }

  // Blink

  blink() {
    if (this.calm.matches) {
      this.note.textContent = "Press b or space to change between the two; your system asks for less motion.";
      return;
    }
    this.timer = setInterval(() => this.turn(!this.second), BLINK_MS);
  }

  turn(second) {
    this.second = second;
    this.element.classList.toggle("cv-second", second);
  }

  /** The other image, by hand; what blinks by itself stops. */
  toggle() {
    clearInterval(this.timer);
    this.turn(!this.second);
  }

  // Slider

  slideTo(percent) {
    this.split = Math.min(100, Math.max(0, percent));
    this.stage.style.setProperty("--cv-split", `${this.split}%`);
    this.handle.setAttribute("aria-valuenow", String(Math.round(this.split)));
    const [one, other] = this.pair.map((at) => named(this.images[at].role));
    this.handle.setAttribute("aria-valuetext", `${Math.round(this.split)} % ${one}, the rest ${other}`);
  }

  slide(event) {
    const step = { ArrowLeft: -2, ArrowRight: 2, PageDown: -10, PageUp: 10, Home: -100, End: 100 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    this.slideTo(this.split + step);
  }

  // Difference

  async difference() {
    try {
      await Promise.all([this.first.decode(), this.last.decode()]);
    } catch {
      this.note.textContent = "One of the images cannot be shown, so there is no difference to draw.";
      return;
    }
    const { naturalWidth: width, naturalHeight: height } = this.first;
    const shape = (this.last.naturalWidth / this.last.naturalHeight) / (width / height);
    if (Math.abs(shape - 1) > 0.03) {
      this.canvas.width = this.canvas.height = 1;
      this.canvas.setAttribute("aria-label", "No heatmap");
      this.note.textContent = "The two images are of different shapes: pixel by pixel there is nothing to compare.";
      return;
    }
    const key = this.pair.join();
    if (this.drawn !== key) {
      this.found = heatmap(this.first, this.last, this.canvas);
      this.drawn = key;
    }
    const share = this.found.share < 0.0005 && this.found.share > 0 ? "under 0.1" : number1(100 * this.found.share);
    const told = `${share} % of the pixels differ visibly; the mean difference is ${number1(this.found.mean)} of 255.`;
    this.canvas.setAttribute("aria-label", `Heatmap of the differences. ${told}`);
    if (this.now === "difference") this.note.replaceChildren(
      h("span", { class: "cv-scale", "aria-hidden": "true" }), `same to very different. ${told} Measured on pictures of ${width} × ${height} pixels.`,
    );
  }

  // Zoom and pan

  fit() {
    this.zoom = { scale: 1, x: 0, y: 0 };
    this.place();
  }

  /** Zooms about a point of a pane (its middle, if none is given), in pixels from its corner. */
  zoomTo(scale, at) {
    const box = this.panes[0].getBoundingClientRect();
    const point = at ?? { x: box.width / 2, y: box.height / 2 };
    const wanted = Math.min(MOST_ZOOM, Math.max(1, scale));
    const by = wanted / this.zoom.scale;
    this.zoom = { scale: wanted, x: point.x - (point.x - this.zoom.x) * by, y: point.y - (point.y - this.zoom.y) * by };
    this.place();
  }

  pan(x, y) {
    this.zoom.x += x;
    this.zoom.y += y;
    this.place();
  }

  place() {
    const box = this.panes[0].getBoundingClientRect();
    const { scale } = this.zoom;
    const held = (value, size) => (size ? Math.min(0, Math.max(size * (1 - scale), value)) : 0);
    this.zoom.x = held(this.zoom.x, box.width);
    this.zoom.y = held(this.zoom.y, box.height);
    this.stage.style.setProperty("--cv-move", `translate(${this.zoom.x}px, ${this.zoom.y}px) scale(${scale})`);
    this.element.classList.toggle("cv-zoomed", scale > 1);
    this.level.textContent = scale > 1 ? `${number1(scale)}×` : "Fit";
  }

  listen() {
    this.stage.addEventListener("pointerdown", (event) => this.down(event));
    this.stage.addEventListener("pointermove", (event) => this.move(event));
    for (const end of ["pointerup", "pointercancel"]) this.stage.addEventListener(end, (event) => this.pointers.delete(event.pointerId));
    this.stage.addEventListener("dblclick", (event) => this.zoomTo(this.zoom.scale > 1 ? 1 : 3, this.within(event)));
    this.stage.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      this.zoomTo(this.zoom.scale * Math.exp(-event.deltaY / 200), this.within(event));
    }, { passive: false });
  }

  within(event) {
    const pane = event.target.closest?.(".cv-pane") ?? this.panes[0];
    const box = pane.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  down(event) {
    if (event.button) return;
    this.pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    this.stage.setPointerCapture(event.pointerId);
    const onHandle = event.target === this.handle;
    this.slides = this.now === "slider" && (onHandle || this.zoom.scale === 1);
    if (this.slides) {
      if (onHandle) this.handle.focus({ preventScroll: true });
      this.slideTo(this.percent(event));
    }
  }

  move(event) {
    const before = this.pointers.get(event.pointerId);
    if (!before) return;
    const now = { x: event.clientX, y: event.clientY };
    if (this.pointers.size === 2) {
      const [, other] = [...this.pointers].find(([id]) => id !== event.pointerId);
      const spread = (point) => Math.hypot(point.x - other.x, point.y - other.y) || 1;
      const box = this.panes[0].getBoundingClientRect();
      this.zoomTo(this.zoom.scale * spread(now) / spread(before), { x: (now.x + other.x) / 2 - box.left, y: (now.y + other.y) / 2 - box.top });
    } else if (this.slides) {
      this.slideTo(this.percent(event));
    } else if (this.zoom.scale > 1) {
      this.pan(now.x - before.x, now.y - before.y);
    }
    this.pointers.set(event.pointerId, now);
  }

  percent(event) {
    const box = this.stage.getBoundingClientRect();
    return (100 * (event.clientX - box.left)) / box.width;
  }

  destroy() {
    clearInterval(this.timer);
    this.element.remove();
  }
}

function number1(value) {
  return String(Number(value.toFixed(1)));
}

/** Draws how much two images differ, the second brought to the size of the first; the mean and how many pixels do. */
function heatmap(first, last, canvas) {
  const { naturalWidth: width, naturalHeight: height } = first;
  const [one, other] = [first, last].map((image) => {
    const plain = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
    plain.drawImage(image, 0, 0, width, height);
    return plain.getImageData(0, 0, width, height).data;
  });
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d");
  const drawn = context.createImageData(width, height);
  let sum = 0, visible = 0;
  for (let at = 0; at < one.length; at += 4) {
    const differs = Math.max(
      Math.abs(one[at] - other[at]), Math.abs(one[at + 1] - other[at + 1]), Math.abs(one[at + 2] - other[at + 2]),
    );
    sum += differs;
    if (differs > VISIBLE) visible += 1;
    // Small differences matter: the scale is a square root, and full at half of what is possible. What is smaller than
    // the noise that coding the pictures left is nothing.
    const heat = Math.min(1, Math.sqrt(Math.max(0, differs - NOISE) / 128)) * (HEAT.length - 1);
    const low = Math.min(HEAT.length - 2, Math.floor(heat));
    for (let channel = 0; channel < 3; channel += 1) {
      drawn.data[at + channel] = HEAT[low][channel] + (HEAT[low + 1][channel] - HEAT[low][channel]) * (heat - low);
    }
    drawn.data[at + 3] = 255;
  }
  context.putImageData(drawn, 0, 0);
  return { mean: sum / (width * height), share: visible / (width * height) };
}
