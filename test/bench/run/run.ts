import type { Data } from "./data.ts";
import type { Programs } from "./machine.ts";
import type { Measurement } from "./measurement.ts";

/** What to measure, and how long. */
export interface Options {
  markets: number;
  rows: readonly number[];
  keep: string | undefined;
  json: string;
  profile: string | undefined;
  effort: Effort;
}

/** How long each part takes. */
export interface Effort {
  /** Measured rounds of each side. */
  rounds: number;
  /** One round under load. */
  seconds: number;
  /** Runs of publishing, each a process of its own. */
  runs: number;
  /** Different filters. */
  filters: number;
  /** Requests of each kind in a round of page 1 against the last page. */
  requests: number;
}

/** What every part of a run works with. */
export interface Bench {
  options: Options;
  programs: Programs;
  data: Data;
  /** What ends with the run or a part of it: servers. */
  ends: AsyncDisposableStack;
  /** Takes what a part has measured so far, in the place of what it took of that part before. */
  found(measurements: readonly Measurement[]): Promise<void>;
  /** Whether one of these rows is wanted. */
  wants(...rows: number[]): boolean;
  say(line: string): void;
}

/** A part of the run; it gives the rows of the table that it has, of those that are wanted. */
export interface Part {
  rows: readonly number[];
  measure(bench: Bench): Promise<Measurement[]>;
}

/**
 * Measures the wanted parts one after the other. `begin` is told what ends each of them. `keep` gets all that was
 * measured as soon as there is more, so that what fails later takes nothing of it.
 */
export async function measureAll(
  parts: readonly Part[],
  bench: Omit<Bench, "ends" | "found" | "wants">,
  { begin, keep }: { begin(ends: AsyncDisposableStack): void; keep(all: Measurement[]): Promise<void> },
): Promise<void> {
  const all = new Map<Part, readonly Measurement[]>();
  const wants = (...rows: number[]) => rows.some((row) => bench.options.rows.includes(row));
  for (const part of parts) {
    const rows = part.rows.filter((row) => wants(row));
    if (rows.length === 0) continue;
    const found = (measurements: readonly Measurement[]) => {
      all.set(part, measurements);
      return keep([...all.values()].flat());
    };
    const ends = new AsyncDisposableStack();
    begin(ends);
    try {
      bench.say(`measuring row ${rows.join(", ")}`);
      await found(await part.measure({ ...bench, ends, found, wants }));
    } finally {
      await ends.disposeAsync();
    }
  }
}

/** What some work gives, and how many seconds it takes. */
export async function timed<Result>(
  work: () => Promise<Result>,
): Promise<{ result: Result; seconds: number }> {
  const start = performance.now();
  const result = await work();
  return { result, seconds: (performance.now() - start) / 1000 };
}

/** Measures things by turns, so that whatever else the machine does meets all of them. The first round does not count. */
export async function inTurn<Name extends string, Figure>(
  rounds: number,
  sides: Record<Name, () => Promise<Figure>>,
): Promise<Record<Name, Figure[]>> {
  const names = Object.keys(sides) as Name[];
  const figures = Object.fromEntries(names.map((name): [Name, Figure[]] => [name, []]));
  for (let round = -1; round < rounds; round += 1) {
    for (const name of names) {
      const figure = await sides[name]();
      if (round >= 0) figures[name]!.push(figure);
    }
  }
  return figures as Record<Name, Figure[]>;
}
