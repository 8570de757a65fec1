import { counted, tiers } from "./words.js";

/** @import { ScoreListEntry } from "../../../../schemas/records.ts" */

/** Columns of the distribution: each of 25 points of BRI, piled up by tier.
 * @param {readonly ScoreListEntry[]} scores */
export function distribution(scores) {
  return Array.from({ length: 40 }, (_, index) => {
    const within = scores.filter(({ bri }) => Math.min(39, Math.floor(bri / 25)) === index);
    return tiers.flatMap((name, number) => {
      const value = within.filter(({ forgeScale }) => forgeScale === name).length;
      const title =
        `${counted(value, "protocol")} of tier ${name} with a BRI of ${25 * index} to ` +
        `${index === 39 ? 1000 : 25 * index + 24}`;
      return value === 0 ? [] : [{ value, class: `column tier-${number + 1}`, title }];
    });
  });
}
