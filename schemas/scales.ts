import { type FeedVersion, isIn, type Lifetime } from "./versions.ts";

/** The tiers, lowest to highest (INTERFACE 2.3). The position, counted from 1, is forgeScaleNum. */
export const forgeTiers = ["RAW", "CAST", "FORGED", "TEMPERED", "DAMASCUS", "MITHRIL", "ADAMANTINE"] as const;
export type ForgeTier = (typeof forgeTiers)[number];

/** Tiers that the first version of the feed did not have. */
const laterTiers: Partial<Record<ForgeTier, Lifetime>> = {};

export const tiersIn = (version: string) =>
  forgeTiers.filter((tier) => isIn(version, laterTiers[tier] ?? {}));

export function forgeScaleNumber(tier: ForgeTier): number {
  return forgeTiers.indexOf(tier) + 1;
}

export const numbersOfTiers = `1 for ${forgeTiers[0]} to ${forgeTiers.length} for ${forgeTiers.at(-1)}`;

/** Inclusive bounds of the numbers. Source checks, records, filters and indexes all read these. */
export const bounds = {
  bri: { min: 0, max: 1000 },
  confidence: { min: 0, max: 100 },
  delta: { min: -1000, max: 1000 },
  composite: { min: 300, max: 1000 },
  score: { min: 0, max: 100 },
  weight: { min: 0, max: 1 },
};

/**
 * Bounds that were narrower before a version of the feed, the oldest first. Bounds never get narrower: verify and sync
 * would take the indexes of wider ones for wrong.
 */
const earlierBounds: readonly ({ until: FeedVersion } & Partial<typeof bounds>)[] = [];

export function boundsIn(version: string): typeof bounds {
  const earlier = earlierBounds.filter(({ until }) => isIn(version, { until }));
  return Object.assign({}, bounds, ...earlier.reverse());
}
