import type { ScoreListEntry } from "../../../../schemas/records.ts";

/** A share with its 95 % interval. `n` is the size of the group. */
export interface Estimate {
  share: number;
  low: number;
  high: number;
  n: number;
}

/** The quantile of the normal distribution for a 95 % interval. */
const z = 1.959964;

/**
 * The share of `hits` among `n`, with its 95 % interval after Wilson, which holds for small shares and small numbers
 * too.
 */
export function wilson(hits: number, n: number): Estimate {
  if (n === 0) return { share: 0, low: 0, high: 1, n };
  const share = hits / n;
  const scale = 1 + z ** 2 / n;
  const middle = (share + z ** 2 / (2 * n)) / scale;
  const half = (z * Math.sqrt((share * (1 - share)) / n + z ** 2 / (4 * n ** 2))) / scale;
  return { share, low: Math.max(0, middle - half), high: Math.min(1, middle + half), n };
}

/**
 * How much larger the first of two independent shares is, from −1 to 1, with its 95 % interval after Newcombe (1998,
 * method 10). Two intervals may overlap although this one excludes 0.
 */
export function difference(first: Estimate, second: Estimate) {
  const value = first.share - second.share;
  return {
    value,
    low: value - Math.hypot(first.share - first.low, second.high - second.share),
    high: value + Math.hypot(first.high - first.share, second.share - second.low),
  };
}

/**
 * Whether the share of `hits` among `n` rises or falls from group to group: the test after Cochran and Armitage, for
 * groups at equal distances. `z` is above 0 where the share rises; `p` is two-sided.
 */
export function trend(groups: readonly { hits: number; n: number }[]) {
  const sum = (of: (group: { hits: number; n: number }, index: number) => number) =>
    groups.reduce((total, group, index) => total + of(group, index), 0);
  const n = sum((group) => group.n);
  const share = sum(({ hits }) => hits) / n;
  const middle = sum((group, index) => group.n * index) / n;
  const spread = sum((group, index) => group.n * (index - middle) ** 2);
  const variance = share * (1 - share) * spread;
  if (!(variance > 0)) return { z: 0, p: 1 };
  const score = sum(({ hits }, index) => hits * (index - middle)) / Math.sqrt(variance);
  return { z: score, p: twoSided(Math.abs(score)) };
}

/**
 * How likely a normal variable lies further than this from its mean, in either direction (Numerical Recipes, erfcc),
 * with a relative error below 1.2e-7.
 * @param deviations at least 0
 */
function twoSided(deviations: number) {
  const x = deviations / Math.SQRT2;
  const t = 1 / (1 + x / 2);
  const series = [
    -1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806, 0.27886807, -1.13520398, 1.48851587,
    -0.82215223, 0.17087277,
  ].reduceRight((sum, coefficient) => coefficient + t * sum, 0);
  return t * Math.exp(series - x ** 2);
}

export const compareAddress = (slugs: readonly string[]) => `#/compare/${slugs.join()}`;

/** The address that compares a protocol with the one nearest by BRI, of its own category if there is another. */
export function peerAddress(entry: ScoreListEntry, scores: readonly ScoreListEntry[]): string {
  const others = scores.filter(({ slug }) => slug !== entry.slug);
  const kin = others.filter(({ category }) => category === entry.category);
  const distance = ({ bri }: ScoreListEntry) => Math.abs(bri - entry.bri);
  const peer = (kin.length > 0 ? kin : others).toSorted((a, b) => distance(a) - distance(b))[0];
  return compareAddress(peer ? [entry.slug, peer.slug] : [entry.slug]);
}

/** The time of the newest run of any protocol; an empty text when there is none. */
export const newestRun = (scores: readonly ScoreListEntry[]) =>
  scores.reduce((last, { updatedAt }) => (updatedAt > last ? updatedAt : last), "");

/** The biggest move first. */
export const moversOf = <T extends { delta: number }>(all: readonly T[]): T[] =>
  all.filter(({ delta }) => delta !== 0).toSorted((a, b) => Math.abs(b.delta) - Math.abs(a.delta));
