import { svg } from "./dom.js";
import { minutes } from "./words.js";

/**
 * A bar of length `value / max`. Screen readers skip it, so show the number as text beside it.
 * @param {number} value
 * @param {number} max
 */
export function bar(value, max) {
  return svg(
    "svg",
    { class: "bar", viewBox: "0 0 100 1", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect", { class: "track", width: 100, height: 1 }),
    svg("rect", { class: "value", width: (100 * value) / max, height: 1 }),
  );
}

const height = 270;
const margin = { top: 34, right: 30, bottom: 34, left: 52 };
const day = 86_400_000;

/**
 * A line chart over time, with axes. It is drawn for a width in CSS pixels, so that its text is not scaled.
 * @param {readonly { at: string, value: number }[]} points at least one, oldest first
 * @param {number} width
 * @param {string} name description for screen readers
 */
export function lineChart(points, width, name) {
  const values = points.map(({ value }) => value);
  const ticks = ticksFor(Math.min(...values), Math.max(...values));
  const low = ticks[0] ?? 0;
  const high = ticks.at(-1) ?? 1;
  const times = points.map(({ at }) => Date.parse(at));
  const first = Math.floor(Math.min(...times) / day) * day;
  const last = Math.max(Math.ceil(Math.max(...times) / day) * day, first + day);
  const x = (/** @type {number} */ time) =>
    margin.left + ((time - first) / (last - first)) * (width - margin.left - margin.right);
  const y = (/** @type {number} */ value) =>
    height - margin.bottom - ((value - low) / (high - low)) * (height - margin.top - margin.bottom);
  const places = points.map(({ at, value }) => ({ at, value, x: x(Date.parse(at)), y: y(value) }));
  const line = places.map((place) => `${place.x.toFixed(1)},${place.y.toFixed(1)}`);
  const floor = height - margin.bottom;
  const area = [`${places[0]?.x},${floor}`, ...line, `${places.at(-1)?.x},${floor}`];
  return svg(
    "svg",
    { class: "chart", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": name },
    ticks.flatMap((value) => [
      svg("line", { class: "grid", x1: margin.left, x2: width - margin.right, y1: y(value), y2: y(value) }),
      svg("text", { x: margin.left - 10, y: y(value) + 4, "text-anchor": "end" }, value),
    ]),
    daysBetween(first, last, width).map((time) =>
      svg(
        "text",
        { x: x(time), y: height - 12, "text-anchor": "middle" },
        new Date(time).toISOString().slice(5, 10),
      ),
    ),
    svg("text", { x: margin.left - 10, y: 18, "text-anchor": "end" }, "BRI"),
    svg("polygon", { class: "area", points: area.join(" ") }),
    svg("polyline", { class: "line", points: line.join(" ") }),
    places.map((place) =>
      svg(
        "circle",
        { class: "point", cx: place.x, cy: place.y, r: 4 },
        svg("title", {}, `${minutes(place.at)}: ${place.value}`),
      ),
    ),
  );
}

/**
 * Ascending round numbers that enclose two values, for an axis.
 * @param {number} min
 * @param {number} max
 */
export function ticksFor(min, max) {
  const rough = Math.max((max - min) / 4, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5, 10].find((factor) => factor * power >= rough) ?? 10);
  const first = Math.floor(min / step) * step;
  const last = Math.max(Math.ceil(max / step) * step, first + step);
  return Array.from({ length: Math.round((last - first) / step) + 1 }, (_, place) => first + place * step);
}

/**
 * The days to label, as many as fit; epoch milliseconds of midnight UTC.
 * @param {number} first
 * @param {number} last
 * @param {number} width
 */
function daysBetween(first, last, width) {
  const days = Math.round((last - first) / day);
  const every = Math.max(1, Math.ceil((days * 56) / (width - margin.left - margin.right)));
  return Array.from({ length: Math.floor(days / every) + 1 }, (_, place) => first + place * every * day);
}
