import { chart, drawn, grid, label, ticksFor } from "./chart.js";
import { html, svg } from "./dom.js";
import { grouped, minutes, tiers } from "./words.js";

/**
 * @import { ScoreHistory } from "../../../../schemas/envelopes.ts"
 * @import { ProtocolScore } from "../../../../schemas/records.ts"
 */

/** @typedef {ScoreHistory["points"][number]} Point */

/**
 * Where a tier begins as far as scores tell: above `below` and not above `from`.
 * @typedef {{ name: string, below: number, from: number }} Border
 */

/**
 * The BRI over time, and in words which part of 0 to 1,000 the axis shows and which tiers begin there.
 * @param {readonly Point[]} points at least one, oldest first
 * @param {readonly Pick<ProtocolScore, "bri" | "forgeScale">[]} scores of all protocols
 * @param {string} name description for screen readers
 * @param {AbortSignal} signal
 */
export function curve(points, scores, name, signal) {
  const values = points.map(({ bri }) => bri);
  // Of the highest score alone the axis would go beyond it.
  const ticks = ticksFor(Math.min(999, ...values), Math.max(...values));
  const [low, high] = endsOf(ticks);
  const all = bordersOf([...scores, ...points]);
  const borders = all?.filter(({ below, from }) => below < high && from > low);
  const begin = borders?.map(({ name: tier, below, from }) =>
    from === below + 1
      ? `${tier} begins at ${grouped(from)}`
      : `${tier} begins between ${below + 1} and ${grouped(from)}`,
  );
  const told = begin?.length === 0 ? "no tier begins there" : begin?.join(", and ");
  return [
    drawn((width) => lineChart(points, ticks, borders ?? [], width, name), signal),
    html(
      "p",
      { class: "quiet bounds" },
      `The axis shows ${low} to ${grouped(high)} of 0 to 1,000.`,
      told !== undefined && ` As far as the scores of all protocols tell, ${told}.`,
    ),
  ];
}

/** @param {readonly number[]} ticks
 * @returns {[low: number, high: number]} */
const endsOf = (ticks) => [ticks[0] ?? 0, ticks.at(-1) ?? 1];

/**
 * Where tiers begin, from the scores that have them: the service publishes tiers, not their borders. Undefined when
 * scores of one tier lie among those of another, as after a change of the formula.
 * @param {readonly { bri: number, forgeScale: string }[]} scores
 * @returns {Border[] | undefined}
 */
function bordersOf(scores) {
  /** @type {Border[]} */
  const borders = [];
  let below = -1;
  for (const name of tiers) {
    const own = scores.filter(({ forgeScale }) => forgeScale === name).map(({ bri }) => bri);
    if (own.length === 0) continue;
    const from = Math.min(...own);
    if (from <= below) return undefined;
    if (below >= 0) borders.push({ name, below, from });
    below = Math.max(...own);
  }
  return borders;
}

const day = 86_400_000;

/**
 * @param {readonly Point[]} points
 * @param {readonly number[]} ticks
 * @param {readonly Border[]} borders
 * @param {number} width
 * @param {string} name
 */
function lineChart(points, ticks, borders, width, name) {
  const height = 220;
  const margin = { top: 28, right: 16, bottom: 30, left: 44 };
  const [low, high] = endsOf(ticks);
  const times = points.map(({ updatedAt }) => Date.parse(updatedAt));
  const first = Math.floor(Math.min(...times) / day) * day;
  const last = Math.max(Math.ceil(Math.max(...times) / day) * day, first + day);
  const room = width - margin.left - margin.right;
  const x = (/** @type {number} */ time) => margin.left + ((time - first) / (last - first)) * room;
  const y = (/** @type {number} */ value) =>
    height - margin.bottom - ((value - low) / (high - low)) * (height - margin.top - margin.bottom);
  const marks = points.map(({ updatedAt, bri, forgeScaleNum }) => ({
    at: updatedAt,
    value: bri,
    number: forgeScaleNum,
    x: x(Date.parse(updatedAt)),
    y: y(bri),
  }));
  const days = Math.round((last - first) / day);
  const every = Math.max(1, Math.ceil((days * 56) / room));
  const labels = Array.from(
    { length: Math.floor(days / every) + 1 },
    (_, index) => first + index * every * day,
  );
  return chart(width, height, name, [
    label("BRI", 0, 12, "start"),
    ...grid(ticks, y, margin.left, width - margin.right, String),
    ...labels.map((time) => label(new Date(time).toISOString().slice(5, 10), x(time), height - 10, "middle")),
    ...borders
      .filter(({ from }) => from <= high)
      .flatMap(({ name: tier, from }) => [
        svg("path", { class: "border", d: `M${margin.left} ${y(from)}H${width - margin.right}` }),
        label(tier, width - margin.right, y(from) - 4, "end"),
      ]),
    svg("polyline", {
      class: "line",
      points: marks.map((mark) => `${mark.x.toFixed(1)},${mark.y.toFixed(1)}`).join(" "),
    }),
    ...marks.map((mark) =>
      svg(
        "circle",
        { class: `point tier-${mark.number}`, cx: mark.x, cy: mark.y, r: 3.5 },
        svg("title", {}, `${minutes(mark.at)}: ${mark.value}`),
      ),
    ),
  ]);
}
