// Elements without markup: whatever comes from a model, a case or a file only ever becomes a text node.

/** `h("a", {class: "x", href: "#", onclick: f}, "text", child, …)`; children that are null or false are left out. */
export function h(name, attributes, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  add(element, children);
  return element;
}

export function add(element, children) {
  for (const child of [children].flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

/** A text from elsewhere, kept from reordering what stands around it. */
export function text(value) {
  return h("bdi", {}, value);
}

/** `unchanged_regions` as people read it. */
export function named(key) {
  const words = String(key).replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** A number for people: at most `places` decimals, none where there are none. */
export function number(value, places = 2) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return String(value);
  return String(Number(value.toFixed(places)));
}

/** A number by which a verdict has failed or has its grade: not rounded up to a percent that it does not reach. `percents`
    is how many percents 1 is: 100 for a score from 0 to 1, 1 for a percentage. */
export function decided(value, places, percents) {
  const limit = Math.ceil(Number((value * percents).toPrecision(15))) / percents;
  for (let most = places; most < 16; most += 1) {
    const shown = value.toFixed(most);
    if ((Number(shown) >= limit) === (value >= limit)) return shown;
  }
  return String(value);
}

export function counted(count, one, many = one + "s") {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}

/** Whether a key press is for a field and not for the page. */
export function isTyping(event) {
  const at = event.target;
  return (
    event.ctrlKey || event.metaKey || event.altKey ||
    (at instanceof Element && at.matches("input, select, textarea, [contenteditable]"))
  );
}
