import { z } from "zod";

/** The tiers, lowest to highest (INTERFACE 2.3). The position, counted from 1, is forgeScaleNum. */
export const forgeTiers = ["RAW", "CAST", "FORGED", "TEMPERED", "DAMASCUS", "MITHRIL", "ADAMANTINE"] as const;

export const ForgeTier = z.enum(forgeTiers);
export type ForgeTier = z.infer<typeof ForgeTier>;

/** The number of a tier, from 1 for RAW to 7 for ADAMANTINE. */
export function forgeScaleNumber(tier: ForgeTier): number {
  return forgeTiers.indexOf(tier) + 1;
}
