import type { ScoreHistory } from "../../../../schemas/envelopes.ts";
import type { ProtocolScore } from "../../../../schemas/records.ts";
import { grouped, minutes } from "../model/words.ts";
import { Grid, Picture, ticksFor, tierBands } from "./picture.tsx";

type Point = ScoreHistory["points"][number];

interface CurveProps {
  /** At least one, oldest first. */
  points: readonly Point[];
  /** Of all protocols. */
  scores: readonly Pick<ProtocolScore, "bri" | "forgeScale">[];
  /** Read out by screen readers. */
  name: string;
}

/**
 * The BRI over time, before the range of each tier's scores and the lines where tiers begin. Words say which part of 0
 * to 1,000 the axis shows and which tiers begin there.
 */
export function Curve({ points, scores, name }: CurveProps) {
  const values = points.map(({ bri }) => bri);
  // For the highest score alone the axis would go beyond it.
  const ticks = ticksFor(Math.min(999, ...values), Math.max(...values));
  const [low = 0, high = 1] = [ticks[0], ticks.at(-1)];
  const bands = tierBands([...scores, ...points]);
  const begin = bands?.flatMap(({ name: tier, from }, index) => {
    const below = bands[index - 1]?.to;
    if (below === undefined || below >= high || from <= low) return [];
    return from === below + 1
      ? `${tier} begins at ${grouped(from)}`
      : `${tier} begins between ${below + 1} and ${grouped(from)}`;
  });
  const borders = begin?.length === 0 ? "no tier begins there" : begin?.join(", and ");
  const y = (value: number) =>
    height - margin.bottom - ((value - low) / (high - low)) * (height - margin.top - margin.bottom);
  const times = points.map(({ updatedAt }) => Date.parse(updatedAt));
  const first = Math.floor(Math.min(...times) / day) * day;
  const last = Math.max(Math.ceil(Math.max(...times) / day) * day, first + day);
  const texts = points.map(({ updatedAt, bri }) => `${minutes(updatedAt)}: ${bri}`);
  return (
    <>
      <Picture height={height} label={name} texts={texts}>
        {({ width, here }) => {
          const end = width - margin.right;
          const x = (time: number) => margin.left + ((time - first) / (last - first)) * (end - margin.left);
          const marks = points.map(({ bri, forgeScaleNum }, index) => ({
            number: forgeScaleNum,
            x: x(times[index] ?? first),
            y: y(bri),
          }));
          return (
            <>
              {bands?.map(({ name: tier, number, from, to }, index) => {
                if (from > high || to < low) return null;
                const [top, floor] = [y(Math.min(to, high)), y(Math.max(from, low))];
                const next = bands[index + 1];
                return (
                  <g key={tier} class={`tier-${number}`}>
                    <rect
                      class="band"
                      x={margin.left}
                      y={top}
                      width={end - margin.left}
                      height={Math.max(2, floor - top)}
                    />
                    {index > 0 && from > low && <path class="border" d={`M${margin.left} ${floor}H${end}`} />}
                    {(!next || floor - y(next.from) > 12) && (
                      <text x={end - 4} y={floor - 4} text-anchor="end">
                        {tier}
                      </text>
                    )}
                  </g>
                );
              })}
              <text x={0} y={12} text-anchor="start">
                BRI
              </text>
              <Grid ticks={ticks} y={y} from={margin.left} to={end} spell={String} />
              {daysFor(first, last, end - margin.left).map((time) => (
                <text key={time} x={x(time)} y={height - 10} text-anchor="middle">
                  {new Date(time).toISOString().slice(5, 10)}
                </text>
              ))}
              <polyline
                class="line"
                points={marks.map((mark) => `${mark.x.toFixed(1)},${mark.y.toFixed(1)}`).join(" ")}
              />
              {marks.map((mark, index) => (
                <circle
                  key={index}
                  class={`point tier-${mark.number}${index === here ? " here" : ""}`}
                  cx={mark.x}
                  cy={mark.y}
                  r={3.5}
                >
                  <title>{texts[index]}</title>
                </circle>
              ))}
            </>
          );
        }}
      </Picture>
      <p class="quiet bounds">
        The axis shows {low} to {grouped(high)} of 0 to 1,000.
        {borders !== undefined && ` As far as the scores of all protocols tell, ${borders}.`}
      </p>
    </>
  );
}

const day = 86_400_000;
const height = 220;
const margin = { top: 28, right: 16, bottom: 30, left: 44 };

/** The days that have a label: as many as there is room for. */
function daysFor(first: number, last: number, room: number): number[] {
  const days = Math.round((last - first) / day);
  const every = Math.max(1, Math.ceil((days * 56) / room));
  return Array.from({ length: Math.floor(days / every) + 1 }, (_, index) => first + index * every * day);
}
