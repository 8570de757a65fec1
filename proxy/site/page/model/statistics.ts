import type { ScoreFacet } from "../../../../schemas/envelopes.ts";
import { grouped, percent, signed } from "./words.ts";

/** A share with its 95 % interval. `n` is the size of the group. */
export type Estimate = ReturnType<typeof wilson>;

/** The quantile of the normal distribution for a 95 % interval. */
const z = 1.959964;

/**
 * The share of `hits` among `n`, with its 95 % interval after Wilson, which holds for small shares and small numbers
 * too.
 */
export function wilson(hits: number, n: number) {
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

type Buckets = ScoreFacet["buckets"];

const total = (buckets: Buckets, count: "count" | "disputed") =>
  buckets.reduce((sum, bucket) => sum + bucket[count], 0);

/** The share of disputed markets in all buckets together. */
export const whole = (buckets: Buckets) => wilson(total(buckets, "disputed"), total(buckets, "count"));

/** `2.7 % (135 of 5,000)`. */
export const shareWords = ({ share, n }: Estimate) =>
  n > 0 ? `${percent(share)} (${grouped(Math.round(share * n))} of ${grouped(n)})` : "none (0 of 0)";

/** The difference of two shares in words, and whether it is above 0 (1), below (−1), or may be either (0). */
export function differenceWords(first: Estimate, second: Estimate) {
  const { value, low, high } = difference(first, second);
  const sign = low > 0 ? 1 : high < 0 ? -1 : 0;
  const [spelled, from, to] = points([value, low, high]);
  const words =
    `The difference is ${spelled} percentage points, with a 95 % interval from ${from} to ${to}, which ` +
    `${sign === 0 ? "includes" : "excludes"} 0.`;
  return { sign, words };
}

/** Formats shares as percentage points, with enough digits to keep their ends apart and off 0. */
function points(shares: readonly number[]): string[] {
  const spelled = (digits: number) => shares.map((share) => signed(Number((100 * share).toFixed(digits))));
  const tells = (texts: readonly string[]) =>
    new Set(texts.slice(1)).size > 1 && texts.every((text, index) => text !== "0" || shares[index] === 0);
  return spelled([1, 2, 3].find((digits) => tells(spelled(digits))) ?? 4);
}

/**
 * With fewer disputed or undisputed markets there is no test for a trend: it treats their number as a normal variable.
 */
const fewest = 10;

/** Compares the half of the markets with lower scores with the other half, and looks for a trend over all buckets. */
export function verdictOn(buckets: Buckets): string {
  const n = total(buckets, "count");
  let cut = 0;
  for (let below = 0; cut < buckets.length - 1; cut += 1) {
    const next = below + (buckets[cut]?.count ?? 0);
    if (next > n - below) break;
    below = next;
  }
  const [low, high] = [whole(buckets.slice(0, cut)), whole(buckets.slice(cut))];
  if (low.n === 0 || high.n === 0)
    return "There are too few markets here to compare low scores with high ones.";
  const border = buckets[cut]?.from;
  const { sign, words } = differenceWords(low, high);
  const says =
    sign > 0
      ? "Here a higher score goes with fewer disputes."
      : sign < 0
        ? "Here a higher score goes with more disputes."
        : "Between these halves there is no clear difference.";
  return (
    `Below ${border}, ${shareWords(low)} of the markets were disputed; from ${border} on, ${shareWords(high)}. ` +
    `${words} ${says} ${trendOver(buckets)}`
  );
}

function trendOver(buckets: Buckets): string {
  const hits = total(buckets, "disputed");
  if (Math.min(hits, total(buckets, "count") - hits) < fewest)
    return "For a trend there are too few disputes.";
  const { z, p } = trend(buckets.map(({ count, disputed }) => ({ hits: disputed, n: count })));
  const spelled = p < 0.001 ? "p < 0.001" : `p = ${Number(p.toPrecision(2))}`;
  return p < 0.05
    ? `Over all steps the share ${z < 0 ? "falls" : "rises"} as the score rises (${spelled}).`
    : `Over all steps there is no clear trend (${spelled}).`;
}
