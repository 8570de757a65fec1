/** The tiers, lowest to highest (INTERFACE 2.3). The position, counted from 1, is forgeScaleNum. */
export const forgeTiers = ["RAW", "CAST", "FORGED", "TEMPERED", "DAMASCUS", "MITHRIL", "ADAMANTINE"] as const;
export type ForgeTier = (typeof forgeTiers)[number];

export function forgeScaleNumber(tier: ForgeTier): number {
  return forgeTiers.indexOf(tier) + 1;
}

/** Inclusive bounds of the numbers. Source checks, records, filters and indexes all read these. */
export const bounds = {
  bri: { min: 0, max: 1000 },
  confidence: { min: 0, max: 100 },
  delta: { min: -1000, max: 1000 },
  composite: { min: 300, max: 1000 },
  score: { min: 0, max: 100 },
  weight: { min: 0, max: 1 },
} as const;
