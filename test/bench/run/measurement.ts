/** One line of the table, with all its rounds. */
export interface Measurement {
  row: number;
  work: string;
  unit: string;
  ours: readonly number[];
  /** What ours is compared with; left out: nothing. */
  peer?: { name: string; rounds: readonly number[] };
  goal?: Goal;
  /** What a reader must know to judge it. */
  note?: string;
}

/** `ratio` is ours / peer, `difference` ours - peer, `value` ours alone. */
export interface Goal {
  of: "ratio" | "difference" | "value";
  at: "least" | "most";
  limit: number;
}

/** A line: ours, round by round, and what a reader must know to judge it. */
export const line = (
  row: number,
  work: string,
  unit: string,
  ours: readonly number[],
  more: Pick<Measurement, "peer" | "goal" | "note"> = {},
): Measurement => ({ row, work, unit, ours, ...more });

/** What a line is compared with. */
export const against = (name: string, rounds: readonly number[]) => ({ peer: { name, rounds } });

export const atMost = (limit: number, of: Goal["of"] = "value") =>
  ({ goal: { of, at: "most", limit } }) as const;
export const atLeast = (limit: number) => ({ goal: { of: "ratio", at: "least", limit } }) as const;

/** A measurement in one number a side. */
export interface Summary {
  ours: number;
  peer: number | undefined;
  ratio: number | undefined;
  /** Undefined without a goal. */
  met: boolean | undefined;
}

export function summarise({ ours: rounds, peer: other, goal }: Measurement): Summary {
  const ours = median(rounds);
  const peer = other && median(other.rounds);
  const ratio = peer === undefined ? undefined : ours / peer;
  const judged = { value: ours, ratio, difference: peer === undefined ? undefined : ours - peer };
  return { ours, peer, ratio, met: goal && meets(judged[goal.of], goal) };
}

/** What cannot be told is not met. */
function meets(figure: number | undefined, { at, limit }: Goal): boolean {
  if (figure === undefined || !Number.isFinite(figure)) return false;
  return at === "least" ? figure >= limit : figure <= limit;
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  if (sorted.length === 0) throw new RangeError("there is no median of nothing");
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

/** The least value that at least the share of all values does not exceed. */
export function quantile(values: readonly number[], share: number): number {
  if (values.length === 0) throw new RangeError("there is no quantile of nothing");
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)]!;
}
