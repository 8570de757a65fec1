import { fill, html, svg } from "./dom.js";

/** @import { Child } from "./dom.js" */

/**
 * A picture that fills the width of its place: stretched, so that it needs no drawing anew.
 * @param {string} name of its class
 * @param {string} box
 * @param {Child[]} shapes
 */
const stretched = (name, box, shapes) =>
  svg("svg", { class: name, viewBox: box, preserveAspectRatio: "none", "aria-hidden": "true" }, ...shapes);

/**
 * A bar of length `value / max`. Screen readers skip it, so show the number as text beside it. `mark` is a second
 * value.
 * @param {number} value
 * @param {number} max
 * @param {number} [mark]
 */
export function bar(value, max, mark) {
  return stretched("bar", "0 0 100 1", [
    svg("rect", { class: "track", width: 100, height: 1 }),
    svg("rect", { class: "value", width: (100 * value) / max, height: 1 }),
    mark !== undefined && svg("path", { class: "mark", d: `M${(100 * mark) / max} 0V1` }),
  ]);
}

/**
 * Columns side by side, each a pile of `{ value, class }`. `label` is read out; the ends of the axis are text below.
 * @param {readonly { value: number, class?: string, title?: string }[][]} columns
 * @param {{ label: string, axis: readonly Child[], hot?: (column: number) => boolean, log?: boolean }} about `hot`: what
 * is chosen; `log`: heights on a logarithmic scale, with lines at the powers of ten, for piles of one
 */
export function columnChart(columns, { label, axis, hot, log }) {
  const height = (/** @type {readonly { value: number }[]} */ pile) =>
    pile.reduce((sum, { value }) => sum + value, 0);
  const highest = Math.max(1, ...columns.map(height));
  // Of 1 something is to be seen, so the scale begins below it.
  const rise = (/** @type {number} */ value) =>
    log ? Math.log1p(value) / Math.log1p(highest) : value / highest;
  const picture = svg("svg", {
    class: "columns-chart",
    viewBox: `0 0 ${Math.max(1, columns.length)} 100`,
    preserveAspectRatio: "none",
    role: "img",
    "aria-label": label,
  });
  const bars = columns.map((pile, index) => {
    let top = 100;
    return svg(
      "g",
      { class: hot && !hot(index) ? "cold" : "hot" },
      // The whole height takes the pointer, however low the column is.
      svg("rect", { class: "space", x: index, y: 0, width: 1, height: 100 }),
      ...pile.map(({ value, class: name, title }) => {
        // What is not nothing stays visible.
        const size = value === 0 ? 0 : Math.max(1.5, 100 * rise(value));
        top -= size;
        return svg(
          "rect",
          { class: name ?? "column", x: index + 0.08, y: top, width: 0.84, height: size },
          title !== undefined && svg("title", {}, title),
        );
      }),
    );
  });
  const lines = log
    ? Array.from({ length: Math.floor(Math.log10(highest)) }, (_, power) => 10 ** (power + 1))
    : [];
  const grid = lines.map((value) =>
    svg("path", { class: "grid", d: `M0 ${100 - 100 * rise(value)}H${columns.length}` }),
  );
  // Behind the columns in order, which a brush counts.
  fill(picture, ...bars, log && svg("g", {}, ...grid));
  return html(
    "div",
    { class: "columns-frame" },
    picture,
    walk(picture),
    html(
      "p",
      { class: "axis", "aria-hidden": "true" },
      axis.map((text) => html("span", {}, text)),
    ),
  );
}

/**
 * Lets arrow keys walk over the parts of a picture that have titles, as over the values of a slider: so they are read
 * out. Returns the text that shows the same.
 * @param {SVGElement} picture
 */
function walk(picture) {
  const said = html("p", { class: "said", "aria-hidden": "true" });
  /** @type {Map<Element, string[]>} */
  const parts = new Map();
  for (const title of picture.querySelectorAll("title")) {
    const part = title.closest("g") ?? title.parentElement;
    if (part) parts.set(part, [...(parts.get(part) ?? []), title.textContent]);
  }
  const texts = [...parts.values()].map((lines) => lines.join("; "));
  if (texts.length === 0) return said;
  for (const [name, value] of Object.entries({
    role: "slider",
    tabindex: 0,
    "aria-valuemin": 1,
    "aria-valuemax": texts.length,
  }))
    picture.setAttribute(name, `${value}`);
  const go = (/** @type {number} */ place) => {
    const index = Math.max(0, Math.min(texts.length - 1, place));
    picture.setAttribute("aria-valuenow", `${index + 1}`);
    picture.setAttribute("aria-valuetext", texts[index] ?? "");
    for (const [number, part] of [...parts.keys()].entries()) part.classList.toggle("here", number === index);
    fill(said, texts[index]);
  };
  go(0);
  picture.addEventListener("keydown", (event) => {
    const at = Number(picture.getAttribute("aria-valuenow")) - 1;
    const places = {
      ArrowRight: at + 1,
      ArrowUp: at + 1,
      ArrowLeft: at - 1,
      ArrowDown: at - 1,
      Home: 0,
      End: Infinity,
    };
    const next = places[/** @type {keyof typeof places} */ (event.key)];
    if (next === undefined) return;
    event.preventDefault();
    go(next);
  });
  return said;
}

/**
 * Lets the pointer choose a run of columns: by dragging, or one by a click. With the keyboard, Enter chooses the column
 * that the arrow keys are at, and with Shift they draw a run along. `moved` hears of every change on the way,
 * `ended` of the end, with the run if one was chosen. Until then the frame must stay where it is.
 * @param {HTMLElement} frame of a columnChart
 * @param {number} count
 * @param {(first: number, last: number) => void} moved
 * @param {(run?: readonly [first: number, last: number]) => void} ended
 */
export function brush(frame, count, moved, ended) {
  const picture = frame.querySelector("svg");
  if (!picture) return;
  /** @type {number | undefined} */
  let start;
  let end = 0;
  const columnAt = (/** @type {PointerEvent} */ { clientX }) => {
    const { left, width } = picture.getBoundingClientRect();
    return Math.max(0, Math.min(count - 1, Math.floor(((clientX - left) / width) * count)));
  };
  const run = (/** @type {number} */ from) =>
    /** @type {const} */ ([Math.min(from, end), Math.max(from, end)]);
  let told = "";
  let before = 0;
  const move = (/** @type {PointerEvent} */ event) => {
    if (start !== undefined) reach(columnAt(event));
  };
  const reach = (/** @type {number} */ column) => {
    if (start === undefined) return;
    end = column;
    const [first, last] = run(start);
    if (told === `${run(start)}`) return;
    told = `${run(start)}`;
    // It may measure the page, which takes longer after a change.
    moved(first, last);
    for (const [index, group] of [...picture.children].entries()) {
      group.classList.toggle("hot", index >= first && index <= last);
      group.classList.toggle("cold", index < first || index > last);
    }
  };
  picture.classList.add("brush");
  picture.addEventListener("pointerdown", (event) => {
    start = columnAt(event);
    told = "";
    picture.setPointerCapture(event.pointerId);
    addEventListener("keydown", cancel);
    move(event);
  });
  picture.addEventListener("pointermove", move);
  picture.addEventListener("keydown", (event) => {
    const at = Number(picture.getAttribute("aria-valuenow")) - 1;
    // The arrow keys have gone there before.
    if (event.shiftKey && /^(Arrow|Home|End)/.test(event.key)) {
      start ??= before;
      reach(at);
    } else if (event.key === "Enter") {
      if (start === undefined) [start, end] = [at, at];
      stop(true);
    } else if (event.key === "Escape" || event.key.startsWith("Arrow")) stop(false);
    before = at;
  });
  picture.addEventListener("blur", () => stop(false));
  const stop = (/** @type {boolean} */ chosen) => {
    if (start !== undefined) ended(chosen ? run(start) : undefined);
    start = undefined;
    removeEventListener("keydown", cancel);
  };
  const cancel = (/** @type {KeyboardEvent} */ { key }) => {
    if (key === "Escape") stop(false);
  };
  picture.addEventListener("pointerup", () => stop(true));
  picture.addEventListener("pointercancel", () => stop(false));
}

/**
 * @param {string} text
 * @param {number} x
 * @param {number} y
 * @param {"start" | "middle" | "end"} anchor
 */
export const label = (text, x, y, anchor) => svg("text", { x, y, "text-anchor": anchor }, text);
