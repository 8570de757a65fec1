import { firstWhere } from "../format/first-where.ts";

/** Ascending times in epoch milliseconds: the low 32 bits of each, and the ordinals at which the high bits change. */
export interface TimeColumn {
  low: Uint32Array;
  /** [first ordinal, high bits], ascending; the first is at ordinal 0. */
  epochs: [number, number][];
}

const lowRange = 2 ** 32;

/** Builds a column from ascending epoch milliseconds. */
export function buildTimeColumn(times: readonly number[]): TimeColumn {
  const epochs: [number, number][] = [];
  times.forEach((time, ordinal) => {
    const high = Math.floor(time / lowRange);
    if (epochs.at(-1)?.[1] !== high) epochs.push([ordinal, high]);
  });
  return { low: Uint32Array.from(times, (time) => time % lowRange), epochs };
}

/** The time of an ordinal in epoch milliseconds. */
export function timeAt({ low, epochs }: TimeColumn, ordinal: number): number {
  const epoch = epochs.findLast(([first]) => first <= ordinal);
  return (epoch?.[1] ?? 0) * lowRange + low[ordinal]!;
}

/** The first ordinal whose time is at or after `time`, or the column's length when there is none. */
export function lowerBound(column: TimeColumn, time: number): number {
  const to = column.low.length;
  // Most segments lie on one side of a time, which their ends tell.
  if (to > 0 && timeAt(column, to - 1) < time) return to;
  if (to > 0 && timeAt(column, 0) >= time) return 0;
  return firstWhere(0, to, (ordinal) => timeAt(column, ordinal) >= time);
}
