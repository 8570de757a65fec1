import { useEffect, useRef, useState } from "preact/hooks";
import type { ScoreListEntry } from "../../../../schemas/records.ts";
import type { ForgeTier } from "../../../../schemas/versions.ts";
import { compact, counted, grouped, numberOf, tiers } from "../model/words.ts";
import { type Band, Grid, Picture, ticksFor, tierBands } from "./picture.tsx";

interface Piece {
  value: number;
  /** For its colour. */
  class?: string;
  title: string;
  onClick?: () => void;
}

interface ColumnsProps {
  /** Side by side, each a pile of pieces from the bottom up. */
  columns: readonly (readonly Piece[])[];
  /** Read out by screen readers. */
  label: string;
  /** Values of the horizontal axis: `at` counts columns from the left edge. */
  axis: readonly { at: number; text: string }[];
  /** Behind the columns, between places as on the axis. */
  bands?: readonly Band[];
  /** Below the middle of the axis: what it measures. */
  unit: string;
  /** CSS pixels. */
  height?: number;
  /** Whether a column is chosen; all are if left out. */
  hot?: (column: number) => boolean;
  /** Draws heights on a logarithmic scale, for piles of one piece. */
  log?: boolean;
  brushing?: Brushing;
}

const margin = { top: 10, right: 10, bottom: 32, left: 38 };

const heightOf = (pile: readonly Piece[]) => pile.reduce((sum, { value }) => sum + value, 0);

/** A histogram: columns with an axis of values at the left and below. */
export function Columns(props: ColumnsProps) {
  const { columns, label, axis, bands = [], unit, height = 132, hot, log = false, brushing } = props;
  const highest = Math.max(1, ...columns.map(heightOf));
  // A value of 1 must be visible, so a logarithmic scale begins below it.
  const rise = (value: number) => (log ? Math.log1p(value) / Math.log1p(highest) : value / highest);
  const room = height - margin.top - margin.bottom;
  const floor = height - margin.bottom;
  const ticks = log
    ? Array.from({ length: Math.floor(Math.log10(highest)) + 1 }, (_, power) => 10 ** power)
    : ticksFor(0, highest).filter((tick) => tick > 0 && tick <= highest && Number.isInteger(tick));
  const columnAt = (event: PointerEvent) => {
    const picture = (event.currentTarget as Element).getBoundingClientRect();
    const share = (event.clientX - picture.left - margin.left) / (picture.width - margin.left - margin.right);
    return Math.max(0, Math.min(columns.length - 1, Math.floor(share * columns.length)));
  };
  const { run, handlers } = useBrush(columnAt, brushing);
  const isHot = (index: number) => (run ? index >= run[0] && index <= run[1] : (hot?.(index) ?? true));
  // Where there is no brush, only columns with something in them are worth a stop.
  const stops = [...columns.keys()].filter((index) => brushing || columns[index]?.length);
  const texts = stops.map((index) => columns[index]?.map(({ title }) => title).join("; ") ?? "");
  return (
    <Picture
      height={height}
      label={label}
      texts={texts}
      class={brushing ? "columns-chart brush" : "columns-chart"}
      {...handlers}
    >
      {({ width, here }) => {
        const slot = (width - margin.left - margin.right) / Math.max(1, columns.length);
        const y = (value: number) => floor - room * rise(value);
        return (
          <>
            {bands.map(({ name, number, from, to }) => (
              <rect
                key={name}
                class={`band tier-${number}`}
                x={margin.left + slot * from}
                y={margin.top}
                width={Math.max(2, slot * (to - from))}
                height={room}
              />
            ))}
            <Grid
              ticks={spread(ticks, y)}
              y={y}
              from={margin.left}
              to={width - margin.right}
              spell={compact}
            />
            {columns.map((pile, index) => {
              const x = margin.left + slot * index;
              let top = floor;
              return (
                <g
                  key={index}
                  class={`${isHot(index) ? "hot" : "cold"}${stops[here] === index ? " here" : ""}`}
                >
                  {/* The whole height takes the pointer, however low the column is. */}
                  <rect class="space" x={x} y={margin.top} width={slot} height={room} />
                  {pile.map(({ value, class: name = "", title, ...clicked }) => {
                    // Any value above 0 stays visible.
                    const size = value === 0 ? 0 : Math.max(1.5, room * rise(value));
                    top -= size;
                    return (
                      <rect
                        key={title}
                        class={`column ${name}`}
                        x={x + slot * 0.08}
                        y={top}
                        width={slot * 0.84}
                        height={size}
                        {...clicked}
                      >
                        <title>{title}</title>
                      </rect>
                    );
                  })}
                </g>
              );
            })}
            <path class="floor" d={`M${margin.left} ${floor}H${width - margin.right}`} />
            {axis.map(({ at, text }) => (
              <text
                key={at}
                x={margin.left + slot * at}
                y={floor + 14}
                text-anchor={at === 0 ? "start" : at === columns.length ? "end" : "middle"}
              >
                {text}
              </text>
            ))}
            <text x={(margin.left + width - margin.right) / 2} y={height - 4} text-anchor="middle">
              {unit}
            </text>
          </>
        );
      }}
    </Picture>
  );
}

function spread(ticks: readonly number[], y: (value: number) => number): number[] {
  const kept: number[] = [];
  for (const tick of ticks) {
    const last = kept.at(-1);
    if (last === undefined || y(last) - y(tick) >= 14) kept.push(tick);
  }
  return kept;
}

export type Run = readonly [first: number, last: number];

export interface Brushing {
  /** Called whenever the columns under the brush change. */
  moved: (run: Run) => void;
  /** Called at the end, without a run if the brush was cancelled. */
  ended: (run?: Run) => void;
}

/**
 * Lets the pointer choose a run of columns: by dragging, or one by a click. With the keyboard, Enter chooses the column
 * that the arrow keys are at, and with Shift they draw a run along. Escape gives up.
 * @param columnAt the column at a place of the pointer on the picture, from 0 on
 */
function useBrush(columnAt: (event: PointerEvent) => number, brushing: Brushing | undefined) {
  const [run, show] = useState<Run>();
  const drag = useRef<{ start: number; run: Run | undefined }>(undefined);
  const reach = (column: number) => {
    if (!drag.current) return;
    const { start, run: before } = drag.current;
    const next: Run = [Math.min(start, column), Math.max(start, column)];
    if (`${next}` === `${before}`) return;
    drag.current.run = next;
    show(next);
    brushing?.moved(next);
  };
  const stop = (isChosen: boolean) => {
    const { current } = drag;
    drag.current = undefined;
    show(undefined);
    if (current) brushing?.ended(isChosen ? current.run : undefined);
  };
  // Always there: Escape may come before what the brush has moved is drawn.
  useEffect(() => {
    const cancel = ({ key }: KeyboardEvent) => key === "Escape" && stop(false);
    addEventListener("keydown", cancel);
    return () => removeEventListener("keydown", cancel);
  });
  if (!brushing) return { run, handlers: {} };
  const start = (column: number) => {
    drag.current ??= { start: column, run: undefined };
    reach(column);
  };
  const handlers = {
    onPointerDown: (event: PointerEvent) => {
      if (event.target instanceof Element) event.target.setPointerCapture(event.pointerId);
      drag.current = undefined;
      start(columnAt(event));
    },
    onPointerMove: (event: PointerEvent) => reach(columnAt(event)),
    onPointerUp: () => stop(true),
    onPointerCancel: () => stop(false),
    onBlur: () => stop(false),
    onKey: ({ key, shiftKey }: KeyboardEvent, from: number, to: number) => {
      if (shiftKey && /^(Arrow|Home|End)/.test(key)) {
        start(from);
        reach(to);
      } else if (key === "Enter") {
        start(drag.current ? to : from);
        stop(true);
      } else if (key.startsWith("Arrow")) stop(false);
    },
  };
  return { run, handlers };
}

/**
 * Columns for a score from 0 to `max`: the values that each stands for, `from` and `to` among them, and their axis.
 * @param step how many values a column has; the last one has `max` too
 */
export function scaleOf(max: number, step: number) {
  const count = max / step;
  return {
    spans: Array.from({ length: count }, (_, index) => ({
      from: step * index,
      to: index === count - 1 ? max : step * (index + 1) - 1,
    })),
    axis: [0, 1, 2, 3, 4].map((quarter) => ({
      at: (quarter * count) / 4,
      text: grouped((quarter * max) / 4),
    })),
  };
}

const briStep = 25;
export const { spans: briSpans, axis: briAxis } = scaleOf(1000, briStep);

interface DistributionProps {
  scores: readonly ScoreListEntry[];
  /** The tiers that stand out; all if none. */
  chosen?: readonly ForgeTier[];
  onPick?: (tier: ForgeTier) => void;
}

/** How many protocols have which BRI, piled up by tier. */
export const distribution = ({ scores, chosen = [], onPick }: DistributionProps): Piece[][] =>
  briSpans.map(({ from, to }) => {
    const within = scores.filter(({ bri }) => bri >= from && bri <= to);
    return tiers.flatMap((tier) => {
      const value = within.filter(({ forgeScale }) => forgeScale === tier).length;
      const title = `${counted(value, "protocol")} of tier ${tier} with a BRI of ${from} to ${to}`;
      const faded = chosen.length > 0 && !chosen.includes(tier) ? " faded" : "";
      const name = `tier-${numberOf(tier)}${faded}`;
      return value === 0 ? [] : [{ value, class: name, title, onClick: () => onPick?.(tier) }];
    });
  });

export function Distribution(props: DistributionProps) {
  const { scores } = props;
  const numbers = tiers.map(
    (tier) => `${tier}: ${scores.filter(({ forgeScale }) => forgeScale === tier).length}`,
  );
  // As places on the axis.
  const bands = tierBands(scores)?.map(({ from, to, ...tier }) => ({
    ...tier,
    from: from / briStep,
    to: to / briStep,
  }));
  return (
    <Columns
      columns={distribution(props)}
      label={`How many protocols have which BRI, from 0 to 1,000. ${numbers.join(", ")}.`}
      axis={briAxis}
      bands={bands ?? []}
      unit="BRI"
    />
  );
}
