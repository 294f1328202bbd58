import { h, named } from "./dom.js";

// Two images, looked at in five ways: a slider, blinking, the difference as a heatmap, side by side, and with the places
// marked that the verdict speaks of. Zoom and pan are locked between them. Everything works by mouse, touch and keyboard.

export const MODES = {
  slider: { name: "Slider", key: "s" },
  blink: { name: "Blink", key: "b" },
  difference: { name: "Difference", key: "d" },
  side: { name: "Side by side", key: "n" },
  evidence: { name: "Evidence", key: "e" },
};

const BLINK_MS = 700;
const MOST_ZOOM = 8;
const WIDEST = 4; // of the stage, as a multiple of its height: a longer image is a strip that is zoomed into
const CLEARLY_LARGER = 1.25; // times: by which two images one above the other must be larger than side by side
const VISIBLE = 5; // ΔE: a difference that most people can see when the images blink
const NOISE = 1.5; // ΔE
const FULL_HEAT = 50; // ΔE
const MAP_SIDE = 640; // px: on larger pictures ΔE is measured on a smaller copy
const HEAT = [[12, 12, 16], [72, 22, 104], [176, 52, 92], [244, 132, 36], [252, 232, 150]];

const MODE_KEY = "beholder-mode";

/** The way of looking that somebody chose last, on any page. A page from disk may not be allowed to remember it. */
export function rememberedMode() {
  try {
    return localStorage.getItem(MODE_KEY) ?? "slider";
  } catch {
    return "slider";
  }
}

export function rememberMode(name) {
  try {
    localStorage.setItem(MODE_KEY, name);
  } catch {}
}

/**
 * `images` is a list of {role, name, src, full}: `name`, if there is one, is who made it; `full`, if there is one, is the address of the same image in its own pixels.
 * With more than two, which ones are compared can be chosen; with one there is nothing to compare, only to zoom. The two
 * candidates of a preference are compared first, else the first and the last; `pair` has the numbers of two others.
 * `places` are {at, role, boxes, label}: boxes (left, top, right, bottom in shares) on the image of that role, without a
 * role on all of them; `onplace(at)` says that one was clicked. The result has `element`, `mode(name)`, `toggle()`,
 * `select(at)` and `destroy()`.
 */
export function compareView(images, { mode = "slider", onmode = () => {}, pair, places = [], onplace = () => {} } = {}) {
  return new CompareView(images, mode, onmode, pair ?? comparedFirst(images), places, onplace);
}

function comparedFirst(images) {
  const candidates = ["first", "second"].map((role) => images.findIndex((image) => image.role.toLowerCase() === role));
  return candidates.includes(-1) ? [0, images.length - 1] : candidates;
}

function shownName({ role, name }) {
  return name ? `${named(role)}: ${name}` : named(role);
}

class CompareView {
  constructor(images, mode, onmode, pair, places, onplace) {
    this.images = images;
    this.onmode = onmode;
    this.places = places;
    this.onplace = onplace;
    this.selected = null;
    this.pair = images.length > 1 ? [...pair] : [0, 0];
    this.zoom = { scale: 1, x: 0, y: 0 };
    this.shape = 4 / 3;
    this.split = 50;
    this.second = false;
    this.pointers = new Map();
    this.calm = matchMedia("(prefers-reduced-motion: reduce)");
    this.build();
    this.load();
    this.mode(this.modes.includes(mode) ? mode : this.modes[0], false);
    this.watch = new ResizeObserver(() => this.place());
    this.watch.observe(this.stage);
  }

  get modes() {
    const modes = this.images.length > 1 ? ["slider", "blink", "difference", "side"] : ["single"];
    return this.places.length ? [...modes, "evidence"] : modes;
  }

  build() {
    this.first = h("img", { class: "cv-image", draggable: "false", alt: "" });
    this.last = h("img", { class: "cv-image", draggable: "false", alt: "" });
    this.canvas = h("canvas", { class: "cv-image cv-canvas", role: "img" });
    this.marks = [0, 1].map(() => h("div", { class: "cv-marks" }));
    this.panes = [
      h("div", { class: "cv-pane cv-first" }, this.first, this.marks[0]),
      h("div", { class: "cv-pane cv-last" }, this.last, this.marks[1]),
      h("div", { class: "cv-pane cv-heat" }, this.canvas),
    ];
    this.tags = [h("span", { class: "cv-tag cv-tag-first" }), h("span", { class: "cv-tag cv-tag-last" })];
    this.handle = h("div", {
      class: "cv-handle", role: "slider", tabindex: "0", "aria-label": "Where the two images meet",
      "aria-valuemin": "0", "aria-valuemax": "100", onkeydown: (event) => this.slide(event),
    });
    this.stage = h("div", { class: "cv-stage" }, this.panes, this.handle, this.tags);
    this.note = h("p", { class: "cv-note", role: "status" });
    this.buttons = Object.entries({ ...MODES, single: { name: "Image" } }).filter(([name]) => this.modes.includes(name)).map(([name, { name: label, key }]) =>
      h("button", {
        type: "button", "data-mode": name, "aria-pressed": "false", "aria-keyshortcuts": key,
        onclick: () => (name === this.now && name === "blink" ? this.toggle() : this.mode(name)),
      }, label),
    );
    const zoomBy = (label, name, by) =>
      h("button", { type: "button", class: "square", "aria-label": name, onclick: () => this.zoomTo(this.zoom.scale * by) }, label);
    this.level = h("button", { type: "button", class: "cv-level number", "aria-label": "Fit", onclick: () => this.fit() }, "Fit");
    this.exact = h("button", { type: "button", class: "cv-exact", "aria-label": "1:1, one pixel of the image for one of the screen", "aria-pressed": "false", "aria-keyshortcuts": "1", onclick: () => this.oneToOne() }, "1:1");
    this.opacity = h("input", { type: "range", min: "0", max: "100", value: "100", oninput: () => this.fade() });
    this.tools = h("div", { class: "cv-tools controls" },
      this.buttons.length > 1 && h("div", { class: "segmented", role: "group", "aria-label": "How to compare" }, this.buttons),
      this.images.length > 2 && this.pickers(),
      h("label", { class: "cv-opacity" }, h("span", {}, "Overlay"), this.opacity),
      h("div", { class: "segmented cv-zoom", role: "group", "aria-label": "Zoom" },
        zoomBy("−", "Zoom out", 1 / 1.5), this.level, this.exact, zoomBy("+", "Zoom in", 1.5)),
    );
    this.element = h("div", { class: "cv" }, this.tools, this.stage, this.note);
    this.fade();
    this.listen();
  }

  pickers() {
    return h("div", { class: "cv-pickers" }, [0, 1].map((side) =>
      h("select", {
        "aria-label": side ? "Second image" : "First image",
        onchange: (event) => { this.pair[side] = Number(event.target.value); this.load(); this.mode(this.now); },
      }, this.images.map((image, at) => h("option", { value: at, selected: at === this.pair[side] }, shownName(image)))),
    ));
  }

  load() {
    const [one, other] = this.pair.map((at) => this.images[at]);
    for (const [element, image, tag] of [[this.first, one, this.tags[0]], [this.last, other, this.tags[1]]]) {
      element.src = image.src;
      element.alt = shownName(image);
      tag.textContent = shownName(image);
    }
    this.drawn = null;
    this.mark();
    const shape = () => {
      const { naturalWidth: width, naturalHeight: height } = this.first;
      if (!width || !height) return;
      this.shape = Math.min(WIDEST, Math.max(1 / WIDEST, width / height));
      this.element.style.setProperty("--cv-shape", String(this.shape));
      this.place();
    };
    for (const image of [this.first, this.last]) image.decode().then(shape, () => {});
    shape();
  }

  /** Changes the way of looking; `chosen` says that a person did. */
  mode(name, chosen = true) {
    clearInterval(this.timer);
    this.now = name;
    this.element.dataset.mode = name;
    this.element.classList.toggle("cv-alone", this.images.length === 1);
    for (const button of this.buttons) button.setAttribute("aria-pressed", String(button.dataset.mode === name));
    this.note.textContent = "";
    this.turn(false);
    this.slideTo(this.split);
    if (name === "blink") this.blink();
    if (name === "difference") this.difference();
    this.place();
    if (name === "evidence") this.explain();
    if (chosen && name !== "single") this.onmode(name);
  }

  // Evidence

  /** Puts the marks over both images: the large ones first, so that small ones on top of them can be clicked. Of several
      places in one box each click chooses the next. */
  mark() {
    const area = ([left, top, right, bottom]) => (right - left) * (bottom - top);
    this.pair.forEach((number, side) => {
      const role = this.images[number].role;
      const marks = new Map();
      for (const place of this.places) {
        if (place.role && named(place.role) !== named(role)) continue;
        for (const box of place.boxes) {
          const key = box.join();
          if (!marks.has(key)) marks.set(key, { box, lying: [] });
          marks.get(key).lying.push(place);
        }
      }
      const drawn = [...marks.values()].sort((a, b) => area(b.box) - area(a.box));
      this.marks[side].replaceChildren(...(side && this.images.length === 1 ? [] : drawn).map(({ box, lying }) => {
        const [left, top, right, bottom] = box;
        const label = [...new Set(lying.map((place) => place.label))].join(" ");
        const mark = h("button", { type: "button", class: "cv-place", "aria-label": label, title: label, onclick: () => {
          const { at } = lying[(lying.findIndex((place) => place.at === this.selected) + 1) % lying.length];
          this.select(at);
          this.onplace(at);
        } });
        mark.dataset.at = JSON.stringify(lying.map((place) => place.at));
        Object.assign(mark.style, { left: `${100 * left}%`, top: `${100 * top}%`, width: `${100 * (right - left)}%`, height: `${100 * (bottom - top)}%` });
        return mark;
      }));
    });
    this.select(this.selected, false);
  }

  /** Brings one place out, by what it belongs to; null: all alike. */
  select(at, show = true) {
    this.selected = at;
    for (const mark of this.stage.querySelectorAll(".cv-place")) mark.classList.toggle("now", JSON.parse(mark.dataset.at).includes(at));
    this.element.classList.toggle("cv-chosen", at !== null);
    if (show && at !== null && this.now !== "evidence") this.mode("evidence");
    else if (this.now === "evidence") this.explain();
  }

  explain() {
    const chosen = this.places.find((place) => place.at === this.selected);
    this.note.textContent = chosen ? chosen.label : "Choose a place to read about it, or a sentence with a mark to see its place.";
  }

  /** How much of what lies over the photograph is seen. */
  fade() {
    this.stage.style.setProperty("--cv-opacity", String(this.opacity.value / 100));
    this.opacity.setAttribute("aria-valuetext", `${this.opacity.value} %`);
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
    const [one, other] = this.pair.map((at) => shownName(this.images[at]));
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
    const told = `${share} % of the pixels differ visibly (by more than ΔE ${VISIBLE}); the mean difference is ΔE ${number1(this.found.mean)}.`;
    this.canvas.setAttribute("aria-label", `Heatmap of the differences. ${told}`);
    if (this.now === "difference") this.note.replaceChildren(
      h("span", { class: "cv-scale", "aria-hidden": "true" }), `same to ΔE ${FULL_HEAT}. ${told} Measured on pictures of ${this.found.width} × ${this.found.height} pixels.`,
    );
  }

  // Zoom and pan

  fit() {
    this.zoom = { scale: 1, x: 0, y: 0 };
    this.place();
  }

  /** Where an image lies in its pane without zoom: {left, top, width, height}. */
  resting(image, box) {
    const { naturalWidth, naturalHeight } = image;
    if (!naturalWidth || !naturalHeight) return { left: 0, top: 0, width: box.width, height: box.height };
    const scale = Math.min(box.width / naturalWidth, box.height / naturalHeight);
    const [width, height] = [naturalWidth * scale, naturalHeight * scale];
    return { left: (box.width - width) / 2, top: (box.height - height) / 2, width, height };
  }

  /** The zoom at which a pixel of the image is one of the screen. */
  exactScale() {
    const { width } = this.resting(this.first, this.panes[0].getBoundingClientRect());
    return width ? this.first.naturalWidth / width / devicePixelRatio : 1;
  }

  /** Shows the images in their own pixels, in full size where that is to be had. */
  async oneToOne() {
    await Promise.all([this.first, this.last].map(async (element, side) => {
      const { full } = this.images[this.pair[side]];
      if (!full || element.getAttribute("src") === full) return;
      const larger = new Image();
      larger.src = full;
      try {
        await larger.decode();
        element.src = full;
        await element.decode();
      } catch {} // the file is gone: what is there stays
    }));
    this.zoomTo(this.exactScale());
  }

  /** Zooms about a point of a pane (its middle, if none is given), in pixels from its corner. */
  zoomTo(scale, at) {
    const box = this.panes[0].getBoundingClientRect();
    const point = at ?? { x: box.width / 2, y: box.height / 2 };
    const most = Math.max(MOST_ZOOM, 4 * this.exactScale());
    const wanted = Math.min(most, Math.max(Math.min(1, this.exactScale()), scale));
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
    this.stack();
    const box = this.panes[0].getBoundingClientRect();
    const { scale } = this.zoom;
    const resting = [this.first, this.last].map((image) => this.resting(image, box));
    // Only what is larger than the pane can be moved, and not out of it.
    const held = (value, size, start, length) => {
      if (!size || length * scale <= size) return (size * (1 - scale)) / 2;
      return Math.min(-start * scale, Math.max(size - (start + length) * scale, value));
    };
    const [wide, high] = [resting.map((one) => one.width), resting.map((one) => one.height)];
    this.zoom.x = held(this.zoom.x, box.width, Math.min(...resting.map((one) => one.left)), Math.max(...wide));
    this.zoom.y = held(this.zoom.y, box.height, Math.min(...resting.map((one) => one.top)), Math.max(...high));
    this.stage.style.setProperty("--cv-move", scale === 1 ? "none" : `translate(${this.zoom.x}px, ${this.zoom.y}px) scale(${scale})`);
    this.marks.forEach((marks, side) => {
      const { left, top, width, height } = resting[side];
      Object.assign(marks.style, { left: `${this.zoom.x + left * scale}px`, top: `${this.zoom.y + top * scale}px`, width: `${width * scale}px`, height: `${height * scale}px` });
    });
    this.element.classList.toggle("cv-zoomed", scale > 1);
    this.level.textContent = scale === 1 ? "Fit" : `${number1(scale)}×`;
    this.exact.setAttribute("aria-pressed", String(scale !== 1 && Math.abs(scale / this.exactScale() - 1) < 0.01));
  }

  /** Two wide images lie one above the other where that makes them larger. */
  stack() {
    const { width } = this.stage.getBoundingClientRect();
    const tall = parseFloat(getComputedStyle(this.tools).maxHeight) || 0.7 * innerHeight; // the height that pictures may have
    const beside = Math.min(width / 2, tall * this.shape);
    this.element.classList.toggle("cv-stacked", width > 0 && Math.min(width, (tall / 2) * this.shape) > CLEARLY_LARGER * beside);
  }

  listen() {
    this.stage.addEventListener("pointerdown", (event) => this.down(event));
    this.stage.addEventListener("pointermove", (event) => this.move(event));
    for (const end of ["pointerup", "pointercancel"]) this.stage.addEventListener(end, (event) => this.pointers.delete(event.pointerId));
    this.stage.addEventListener("dblclick", (event) => this.zoomTo(this.zoom.scale > 1 ? 1 : Math.max(3, this.filling()), this.within(event)));
    this.stage.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      this.zoomTo(this.zoom.scale * Math.exp(-event.deltaY / 200), this.within(event));
    }, { passive: false });
  }

  /** The zoom at which the image leaves nothing of the stage empty. */
  filling() {
    const box = this.panes[0].getBoundingClientRect();
    const { width, height } = this.resting(this.first, box);
    return Math.max(box.width / (width || 1), box.height / (height || 1));
  }

  within(event) {
    const pane = event.target.closest?.(".cv-pane") ?? this.panes[0];
    const box = pane.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  down(event) {
    if (event.button || event.target.closest(".cv-place")) return;
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
    this.watch.disconnect();
    this.element.remove();
  }
}

function number1(value) {
  return String(Number(value.toFixed(1)));
}

/** Draws the color difference (CIEDE2000) of two images, the second brought to the size of the first; the mean, the share
    of the pixels that differ visibly, and the size at which it was measured. */
function heatmap(first, last, canvas) {
  const by = Math.min(1, MAP_SIDE / Math.max(first.naturalWidth, first.naturalHeight));
  const [width, height] = [first.naturalWidth, first.naturalHeight].map((side) => Math.max(1, Math.round(side * by)));
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
    const same = one[at] === other[at] && one[at + 1] === other[at + 1] && one[at + 2] === other[at + 2];
    const differs = same ? 0 : deltaE(lab(one, at), lab(other, at));
    sum += differs;
    if (differs > VISIBLE) visible += 1;
    // Small differences matter: the scale is a square root. What is smaller than the noise that coding the pictures
    // left is nothing.
    const heat = Math.min(1, Math.sqrt(Math.max(0, differs - NOISE) / (FULL_HEAT - NOISE))) * (HEAT.length - 1);
    const low = Math.min(HEAT.length - 2, Math.floor(heat));
    for (let channel = 0; channel < 3; channel += 1) {
      drawn.data[at + channel] = HEAT[low][channel] + (HEAT[low + 1][channel] - HEAT[low][channel]) * (heat - low);
    }
    drawn.data[at + 3] = 255;
  }
  context.putImageData(drawn, 0, 0);
  return { mean: sum / (width * height), share: visible / (width * height), width, height };
}

const LINEAR = Float64Array.from({ length: 256 }, (_, level) => {
  const value = level / 255;
  return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
});

/** CIELAB (D65) of a pixel in sRGB. */
function lab(data, at) {
  const [red, green, blue] = [LINEAR[data[at]], LINEAR[data[at + 1]], LINEAR[data[at + 2]]];
  const f = (value) => (value > 216 / 24389 ? Math.cbrt(value) : (24389 / 27 * value + 16) / 116);
  const x = f((0.4124564 * red + 0.3575761 * green + 0.1804375 * blue) / 0.95047);
  const y = f(0.2126729 * red + 0.7151522 * green + 0.072175 * blue);
  const z = f((0.0193339 * red + 0.119192 * green + 0.9503041 * blue) / 1.08883);
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}

/** CIEDE2000 of two colors in CIELAB, as the instruments measure it. */
export function deltaE([l1, a1, b1], [l2, a2, b2]) {
  const chroma = (Math.hypot(a1, b1) + Math.hypot(a2, b2)) / 2;
  const g = 1.5 - 0.5 * Math.sqrt(chroma ** 7 / (chroma ** 7 + 25 ** 7));
  const [c1, c2] = [Math.hypot(a1 * g, b1), Math.hypot(a2 * g, b2)];
  const [h1, h2] = [[b1, a1 * g], [b2, a2 * g]].map(([b, a]) => (a || b ? (Math.atan2(b, a) + 2 * Math.PI) % (2 * Math.PI) : 0));
  const colored = c1 * c2 > 0;
  let turn = colored ? h2 - h1 : 0;
  if (Math.abs(turn) > Math.PI) turn -= Math.sign(turn) * 2 * Math.PI;
  let hue = h1 + h2;
  if (colored) hue = (Math.abs(h1 - h2) > Math.PI ? hue + (hue < 2 * Math.PI ? 2 : -2) * Math.PI : hue) / 2;
  const [lightness, c] = [(l1 + l2) / 2, (c1 + c2) / 2];
  const t = 1 - 0.17 * Math.cos(hue - Math.PI / 6) + 0.24 * Math.cos(2 * hue) + 0.32 * Math.cos(3 * hue + Math.PI / 30) - 0.2 * Math.cos(4 * hue - 63 * Math.PI / 180);
  const off = (lightness - 50) ** 2;
  const dl = (l2 - l1) / (1 + 0.015 * off / Math.sqrt(20 + off));
  const dc = (c2 - c1) / (1 + 0.045 * c);
  const dh = 2 * Math.sqrt(c1 * c2) * Math.sin(turn / 2) / (1 + 0.015 * c * t);
  const rotation = -2 * Math.sqrt(c ** 7 / (c ** 7 + 25 ** 7)) * Math.sin(Math.PI / 3 * Math.exp(-(((hue * 180 / Math.PI - 275) / 25) ** 2)));
  return Math.sqrt(dl * dl + dc * dc + dh * dh + rotation * dc * dh);
}
