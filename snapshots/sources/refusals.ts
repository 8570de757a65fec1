import { type Refusal, SourceRefusal } from "./sources.ts";

/** How many places are named for one rule. */
export const placesPerRule = 20;

/** Gathers refusals, the first places of each rule only. */
export class RefusalList {
  readonly #byRule = new Map<string, Refusal[]>();

  add(refusal: Refusal): void {
    const places = this.#byRule.get(refusal.rule);
    if (!places) this.#byRule.set(refusal.rule, [refusal]);
    else if (places.length < placesPerRule) places.push(refusal);
  }

  /** Runs `work`; what it refuses is kept here, and it counts as undefined then. */
  async gather<T>(work: () => Promise<T>): Promise<T | undefined> {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof SourceRefusal)) throw error;
      for (const refusal of error.refusals) this.add(refusal);
      return undefined;
    }
  }

  throwIfAny(): void {
    if (this.#byRule.size > 0) throw new SourceRefusal([...this.#byRule.values()].flat());
  }
}
