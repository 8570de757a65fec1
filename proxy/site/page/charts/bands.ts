import type { ForgeTier } from "../../../../schemas/scales.ts";
import { tiers } from "../model/words.ts";

/** The range of the scores that have a tier. */
export interface Band {
  name: ForgeTier;
  /** From 1 to 7. */
  number: number;
  from: number;
  to: number;
}

/**
 * The bands of the tiers, lowest first, from the scores that have them: the service publishes tiers, not their borders.
 * A score between two bands may be of either tier. Undefined when scores of one tier lie among those of another, as
 * after a change of the formula.
 */
export function tierBands(
  scores: readonly { bri: number; forgeScale: string }[],
): readonly Band[] | undefined {
  const bands = tiers.flatMap((name, index) => {
    const own = scores.filter(({ forgeScale }) => forgeScale === name).map(({ bri }) => bri);
    return own.length > 0 ? [{ name, number: index + 1, from: Math.min(...own), to: Math.max(...own) }] : [];
  });
  return bands.every(({ from }, index) => from > (bands[index - 1]?.to ?? -1)) ? bands : undefined;
}
