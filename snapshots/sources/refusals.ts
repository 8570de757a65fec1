import { type Refusal, SourceRefusal } from "./sources.ts";

/** How many places are named for one rule. */
export const placesPerRule = 20;

/** Gathers refusals, the first places of each rule only, and counts all of them. */
export class RefusalList {
  readonly #byRule = new Map<string, Refusal[]>();
  readonly #totals = new Map<string, number>();

  add(refusal: Refusal): void {
    this.addAll(refusal.rule, [refusal], 1);
  }

  /** Takes places that break one rule; `total` is the number of all that do, named or not. */
  addAll(rule: string, places: readonly Refusal[], total: number): void {
    const known = this.#byRule.get(rule) ?? [];
    this.#byRule.set(rule, [...known, ...places.slice(0, placesPerRule - known.length)]);
    this.#totals.set(rule, (this.#totals.get(rule) ?? 0) + total);
  }

  /** Runs `work`; what it refuses is kept here, and it counts as undefined then. */
  async gather<T>(work: () => Promise<T>): Promise<T | undefined> {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof SourceRefusal)) throw error;
      for (const [rule, places] of Map.groupBy(error.counted, (refusal) => refusal.rule)) {
        const named = places.map(({ total: _, ...refusal }) => refusal);
        this.addAll(rule, named, places[0]!.total);
      }
      return undefined;
    }
  }

  throwIfAny(): void {
    if (this.#byRule.size > 0) throw new SourceRefusal([...this.#byRule.values()].flat(), this.#totals);
  }
}
