/**
 * Versions of the feed, the oldest first (INTERFACE 9). What is new in a version names it in `since`, and what is no
 * longer in it, in `until`.
 */
export const feedVersions = ["bri-pm-v1"] as const;
export type FeedVersion = (typeof feedVersions)[number];
export const feedVersion: FeedVersion = feedVersions.at(-1)!;

/** Which versions of the feed have something: all, unless it says otherwise. */
export interface Lifetime {
  since?: FeedVersion;
  until?: FeedVersion;
}

export const isKnownFeed = (version: string) => (feedVersions as readonly string[]).includes(version);

/** An unknown version is later than all known ones. */
export function isIn(version: string, { since = feedVersions[0], until }: Lifetime): boolean {
  const upTo = isKnownFeed(version) ? feedVersions.indexOf(version as FeedVersion) + 1 : undefined;
  const versions = feedVersions.slice(0, upTo);
  return versions.includes(since) && !versions.some((one) => one === until);
}

/** Version of the snapshot format, which snapshots/SPEC.md documents. */
export const formatVersion = 4;

/** The tiers, lowest to highest (INTERFACE 2.3). The position, counted from 1, is forgeScaleNum. */
export const forgeTiers = ["RAW", "CAST", "FORGED", "TEMPERED", "DAMASCUS", "MITHRIL", "ADAMANTINE"] as const;
export type ForgeTier = (typeof forgeTiers)[number];

/** Tiers that the first version of the feed did not have. */
const laterTiers: Partial<Record<ForgeTier, Lifetime>> = {};

export const tiersIn = (version: string) =>
  forgeTiers.filter((tier) => isIn(version, laterTiers[tier] ?? {}));

export const forgeScaleNumber = (tier: string) => forgeTiers.indexOf(tier as ForgeTier) + 1;

/** The step of the scale from 1 to 7 for a score that has no tier, by its share of the highest score. */
export const stepOf = (share: number) =>
  Math.min(forgeTiers.length, 1 + Math.floor(share * forgeTiers.length));

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
