import type { ScoreFacet } from "../../../../schemas/envelopes.ts";
import { difference, type Estimate, trend, wilson } from "./statistics.ts";
import { grouped, percent, signed } from "./words.ts";

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
