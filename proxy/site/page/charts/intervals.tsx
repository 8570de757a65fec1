import type { Estimate } from "../model/statistics.ts";
import { compact, grouped, percent, percents } from "../model/words.ts";
import { Grid, Picture, ticksFor } from "./picture.tsx";

interface IntervalsProps {
  /** The names of the groups. */
  names: readonly string[];
  /** One series of estimates, or two, which are drawn side by side in forms of their own. */
  all: readonly (readonly Estimate[])[];
  /** Of all groups together. */
  mean?: number;
  /** Read out by screen readers. */
  label: string;
}

/** How a series is drawn, by its place: the class of its marks, their symbol in text, and their shape in a legend. */
export const forms = [
  { name: "first", symbol: "●", shape: "dot" },
  { name: "second", symbol: "◆", shape: "diamond" },
] as const;
/** The distance of lines of text. */
const [above, below] = [14, 17];

/** So few markets allow hardly any conclusion. */
const isFew = ({ n }: Estimate) => n < 30;

function ticksOf(estimates: readonly Estimate[], mean = 0) {
  // Groups of a few markets have intervals that would press all others to the floor, so their intervals may go beyond
  // the top. So may the dots of groups too small for a conclusion.
  const sure = estimates.filter(({ n }) => n >= 100);
  const top = Math.max(
    ...[0.01, mean],
    ...(sure.length > 0 ? sure : estimates).map(({ high }) => high),
    ...estimates.filter((estimate) => !isFew(estimate)).map(({ share }) => share),
  );
  return ticksFor(0, top * 1000).map((value) => value / 1000);
}

/**
 * The estimates of all series, and in words what of each lies above the axis: its share, and the end of its interval.
 */
function dotsOf(names: readonly string[], all: readonly (readonly Estimate[])[], ceiling: number) {
  return all.flatMap((estimates, series) =>
    estimates.flatMap((estimate, group) => {
      if (estimate.n === 0) return [];
      const [own, low, high] = percents(estimate);
      const title = `${names[group]}: ${own} (${low} to ${high}), n = ${grouped(estimate.n)}`;
      const share = estimate.share > ceiling ? own : undefined;
      const end = estimate.high > ceiling && high !== share ? high : undefined;
      return [{ series, group, estimate, title, share, end, leaves: estimate.high > ceiling }];
    }),
  );
}

/**
 * Shares of several groups as dots, each with its interval. What is above the axis has an arrow, and its number in a
 * row over the picture: each series has a row for upper ends of intervals, and one for shares.
 */
export function Intervals({ names, all, mean, label }: IntervalsProps) {
  const areTwo = all.length > 1;
  const ticks = ticksOf(
    all.flat().filter(({ n }) => n > 0),
    mean,
  );
  const ceiling = ticks.at(-1) ?? 1;
  const dots = dotsOf(names, all, ceiling);
  const rows = all.flatMap((_, series) =>
    (["end", "share"] as const)
      .filter((what) => dots.some((dot) => dot.series === series && dot[what]))
      .map((what) => ({ series, what })),
  );
  const rowOf = (series: number, what: "end" | "share") =>
    26 + above * rows.findIndex((row) => row.series === series && row.what === what);
  const margin = { top: 28 + above * rows.length, right: 8, bottom: 29 + below * all.length, left: 44 };
  const height = 176 + margin.top + margin.bottom;
  const y = (share: number) => margin.top + 176 * (1 - Math.min(share, ceiling) / ceiling);
  const numbered = (series: number) => height - 9 - below * (all.length - 1 - series);
  return (
    <Picture height={height} label={label} texts={dots.map(({ title }) => title)}>
      {({ width, here }) => {
        const { top, left: start } = margin;
        const slot = (width - margin.right - start) / names.length;
        const x = (group: number) => start + slot * (group + 0.5);
        return (
          <>
            <text x={0} y={12} text-anchor="start">
              Disputed
            </text>
            <Grid ticks={ticks} y={y} from={start} to={width - margin.right} spell={percent} />
            {mean !== undefined && <path class="mean" d={`M${start} ${y(mean)}H${width - margin.right}`} />}
            {rows.map(({ series, what }) => (
              <text key={`${series} ${what}`} x={start - 8} y={rowOf(series, what)} text-anchor="end">
                {areTwo
                  ? `${what === "end" ? "to " : ""}${forms[series]?.symbol}`
                  : what === "end"
                    ? "up to"
                    : "share"}
              </text>
            ))}
            {all.map((_, series) => (
              <text key={series} x={start - 8} y={numbered(series)} text-anchor="end">
                {areTwo ? `n ${forms[series]?.symbol}` : "n"}
              </text>
            ))}
            {names.map((name, group) =>
              // Where the names would touch, only every other group is named.
              slot < 30 && group % 2 === 1 ? null : (
                <g key={name}>
                  <text x={x(group)} y={numbered(0) - below} text-anchor="middle">
                    {slot > 80 ? name : name.slice(0, 4)}
                  </text>
                  {all.map((estimates, series) => (
                    <text key={series} x={x(group)} y={numbered(series)} text-anchor="middle">
                      {compact(estimates[group]?.n ?? 0)}
                    </text>
                  ))}
                </g>
              ),
            )}
            {dots.map((dot, index) => {
              const at = x(dot.group) + (areTwo ? [-5, 5] : [0, 0])[dot.series]!;
              const few = isFew(dot.estimate) ? " few" : "";
              const [share, low, high] = [y(dot.estimate.share), y(dot.estimate.low), y(dot.estimate.high)];
              const isAbove = dot.share !== undefined;
              // An arrow where the interval leaves the axis, and a cap where it ends.
              const end = !dot.leaves
                ? `M${at - 4} ${high}h8`
                : isAbove
                  ? ""
                  : `M${at - 4} ${top - 7}l4 -4l4 4`;
              return (
                <g key={index} class={`${forms[dot.series]?.name}${few}${index === here ? " here" : ""}`}>
                  <path d={`M${at} ${low}V${dot.leaves && !isAbove ? top - 11 : high}`} />
                  <path class="cap" d={`M${at - 4} ${low}h8${end}`} />
                  {isAbove ? (
                    <path class="mark beyond" d={`M${at} ${top - 12}l5 8h-10z`} />
                  ) : dot.series === 0 ? (
                    <circle class="mark" cx={at} cy={share} r={4} />
                  ) : (
                    <path class="mark" d={`M${at} ${share - 5}l5 5l-5 5l-5 -5z`} />
                  )}
                  {(["share", "end"] as const).map((what) => {
                    const number = dot[what];
                    return (
                      number && (
                        <text key={what} x={at} y={rowOf(dot.series, what)} text-anchor="middle">
                          {slot > 36 ? number : number.replace(" %", "")}
                        </text>
                      )
                    );
                  })}
                  <title>{dot.title}</title>
                </g>
              );
            })}
          </>
        );
      }}
    </Picture>
  );
}
