/**
 * The name of a protocol as a reader writes it: `aave-v3` becomes `Aave v3`. Two slugs may have the same name, so only
 * the slug tells protocols apart.
 */
export function nameOf(slug: string): string {
  const words = slug.split(/[-_]+/).filter((word) => word !== "");
  return words.map((word) => (/^v\d/.test(word) ? word : word.replace(/^./, upper))).join(" ");
}

const upper = (character: string) => character.toUpperCase();

/** A key of a record as a reader writes it: `access_control` becomes `Access control`. */
export const spoken = (key: string) => key.replaceAll("_", " ").replace(/^./, upper);

/** A time of the interface as a reader writes it: `2026-02-02 08:21 UTC`. */
export const minutes = (iso: string) => `${iso.slice(0, 10)} ${iso.slice(11, 16)} UTC`;

/** How long before `now` (epoch milliseconds) a time was, in its largest unit: `11 months ago`. */
export function ago(iso: string, now: number): string {
  const hours = (now - Date.parse(iso)) / 3_600_000;
  const format = (unit: Intl.RelativeTimeFormatUnit, size: number) =>
    new Intl.RelativeTimeFormat("en").format(-Math.floor(hours / size), unit);
  if (hours >= 365 * 24) return format("year", 365 * 24);
  if (hours >= 30 * 24) return format("month", 30 * 24);
  if (hours >= 24) return format("day", 24);
  return hours >= 1 ? format("hour", 1) : "less than an hour ago";
}

// For these characters, converting to upper case and back yields a wrong letter, or several.
const exceptions = new Map([
  ["\u0131", "\u0131"],
  ["\u1fd3", "\u0390"],
  ["\u1fe3", "\u03b0"],
  ["\ufb05", "\ufb06"],
]);

/**
 * Folds a text for comparison regardless of letter case: two texts have the same result exactly when they are equal
 * under Unicode simple case folding, which the RegExp flags `iu` use too.
 */
export function foldCase(text: string): string {
  let folded = "";
  for (const character of text) folded += foldCharacter(character);
  return folded;
}

function foldCharacter(character: string): string {
  const exception = exceptions.get(character);
  if (exception !== undefined) return exception;
  const upper = alone(character.toUpperCase(), character);
  return alone(upper.toLowerCase(), upper);
}

function alone(changed: string, character: string): string {
  return changed.length > 1 && changed.length > String.fromCodePoint(changed.codePointAt(0)!).length
    ? character
    : changed;
}
