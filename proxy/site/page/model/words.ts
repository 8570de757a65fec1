import { minutes } from "../../../../schemas/names.ts";

export { ago, minutes, spoken } from "../../../../schemas/names.ts";
export { forgeScaleNumber as numberOf, forgeTiers as tiers, stepOf } from "../../../../schemas/versions.ts";

const numbers = new Intl.NumberFormat("en-US");
const short = new Intl.NumberFormat("en-US", { notation: "compact", maximumSignificantDigits: 3 });

/** 12,345 */
export const grouped = (value: number) => numbers.format(value);

/** 12.3K */
export const compact = (value: number) => short.format(value);

/** 2.77 MB */
export const size = (bytes: number) =>
  bytes < 1e6
    ? `${numbers.format(Math.ceil(bytes / 1000))} kB`
    : `${Number((bytes / 1e6).toPrecision(3))} MB`;

/**
 * Formats a share of 0 to 1: 2.6 %
 * @param digits behind the point
 */
export const percent = (share: number, digits: number = share < 0.1 ? 1 : 0) =>
  `${Number((100 * share).toFixed(digits))} %`;

/** Formats a share and the ends of its interval, with enough digits to tell the ends apart: 2.61 %, 2.58 %, 2.65 % */
export function percents({ share, low, high }: { share: number; low: number; high: number }) {
  const all = [share, low, high];
  const spelled = all.map((each) => percent(each));
  if (spelled[1] !== spelled[2]) return spelled;
  const digits = [1, 2].find((each) => percent(low, each) !== percent(high, each)) ?? 3;
  return all.map((each) => percent(each, digits));
}

/** `1 market`, `2 markets`. */
export const counted = (count: number, one: string, many: string = `${one}s`) =>
  `${grouped(count)} ${count === 1 ? one : many}`;

/** +5, −3, 0 */
export const signed = (value: number) => (value > 0 ? `+${value}` : value < 0 ? `−${-value}` : "0");

/** An id of a snapshot in few characters, or a time or day. */
export const nameOfState = (asOf: string) =>
  /^[0-9a-f]{64}$/.test(asOf)
    ? `snapshot ${asOf.slice(0, 12)}`
    : /^\d{4}-\d\d-\d\dT\d\d:\d\d.*Z$/.test(asOf)
      ? minutes(asOf)
      : asOf;
