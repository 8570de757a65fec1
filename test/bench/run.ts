import type { Data } from "./data.ts";
import type { Endings } from "./endings.ts";
import type { Programs } from "./programs.ts";

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
  ends: Endings;
  say(line: string): void;
}

/** Two things that are measured in turn, so that whatever else the machine does meets both. */
export async function inTurn<Name extends string>(
  rounds: number,
  sides: Record<Name, () => Promise<number>>,
  { warmUp = true } = {},
): Promise<Record<Name, number[]>> {
  const names = Object.keys(sides) as Name[];
  const figures = Object.fromEntries(names.map((name) => [name, []])) as unknown as Record<Name, number[]>;
  for (let round = warmUp ? -1 : 0; round < rounds; round += 1) {
    for (const name of names) {
      const figure = await sides[name]();
      if (round >= 0) figures[name].push(figure);
    }
  }
  return figures;
}
