import type { Data } from "./data.ts";
import type { Options } from "./options.ts";
import type { Programs } from "./programs.ts";

/** What every part of a run works with. */
export interface Bench {
  options: Options;
  programs: Programs;
  data: Data;
  /** What ends with the run or a part of it: servers. */
  ends: Endings;
  say(line: string): void;
}

/** What must happen at the end, whatever happened before; the last that was added comes first. */
export class Endings {
  readonly #endings: (() => Promise<void> | void)[] = [];

  add(end: () => Promise<void> | void): void {
    this.#endings.push(end);
  }

  /** Goes through all of it, also when some fails; throws the first failure at the end. */
  async run(): Promise<void> {
    const failures: unknown[] = [];
    for (let end = this.#endings.pop(); end; end = this.#endings.pop()) {
      try {
        await end();
      } catch (error) {
        failures.push(error);
      }
    }
    if (failures.length > 0) throw failures[0];
  }
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
