import { firstWhere } from "../format/first-where.ts";
import { CorruptObjectError } from "../store/errors.ts";
import type { JsonValue } from "../store/json.ts";

/** Ascending epoch milliseconds: the low 32 bits of each, and the ordinals at which the high bits change. */
export interface TimeColumn {
  markets: number;
  /** Epoch milliseconds. */
  oldest: number;
  newest: number;
  readonly low: Uint32Array;
  /** [first ordinal, high bits], ascending; the first is at ordinal 0. */
  epochs: [number, number][];
}

const lowRange = 2 ** 32;
/** Published years have four digits. */
export const maxTime = Date.UTC(9999, 11, 31, 23, 59, 59, 999);
const maxHigh = Math.floor(maxTime / lowRange);

/** `times` are ascending epoch milliseconds. */
export function buildTimeColumn(times: readonly number[]): TimeColumn {
  const epochs: [number, number][] = [];
  times.forEach((time, ordinal) => {
    const high = Math.floor(time / lowRange);
    if (epochs.at(-1)?.[1] !== high) epochs.push([ordinal, high]);
  });
  return timeColumn({ low: Uint32Array.from(times, (time) => time % lowRange), epochs });
}

type Stored = Pick<TimeColumn, "low" | "epochs">;

function timeColumn({ low, epochs }: Stored): TimeColumn {
  const [oldest, newest] = [timeAt({ low, epochs }, 0), timeAt({ low, epochs }, low.length - 1)];
  return { markets: low.length, oldest, newest, low, epochs };
}

export function epochsIn(header: JsonValue, markets: number): TimeColumn["epochs"] {
  const member = header.member("epochs");
  const epochs = member.items(markets).map((epoch) => epoch.pair());
  const ascends = epochs.every(([first, high], index) => {
    const [firstBefore, highBefore] = epochs[index - 1] ?? [-1, -1];
    return first > firstBefore && first < markets && high > highBefore && high <= maxHigh;
  });
  if (epochs[0]?.[0] !== 0 || !ascends) member.refuse();
  return epochs;
}

/** `key` is the object's, for errors. Throws CorruptObjectError when the times do not ascend. */
export function timesFrom(key: string, stored: Stored): TimeColumn {
  const { low, epochs } = stored;
  for (const [index, [first]] of epochs.entries()) {
    const end = epochs[index + 1]?.[0] ?? low.length;
    for (let ordinal = first + 1; ordinal < end; ordinal += 1)
      if (low[ordinal]! < low[ordinal - 1]!)
        throw new CorruptObjectError(key, "its section times does not ascend");
  }
  return timeColumn(stored);
}

/** Epoch milliseconds. */
export function timeAt({ low, epochs }: Stored, ordinal: number): number {
  const epoch = firstWhere(1, epochs.length, (index) => epochs[index]![0] > ordinal) - 1;
  return (epochs[epoch]?.[1] ?? 0) * lowRange + low[ordinal]!;
}

/** The first ordinal at or after `time`, or the column's length when there is none. */
export function lowerBound(column: TimeColumn, time: number): number {
  // Most segments lie wholly on one side of a time.
  if (column.newest < time) return column.markets;
  if (column.oldest >= time) return 0;
  return firstWhere(0, column.markets, (ordinal) => timeAt(column, ordinal) >= time);
}
