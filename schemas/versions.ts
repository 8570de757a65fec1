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
