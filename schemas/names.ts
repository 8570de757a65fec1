import { z } from "zod";

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

// No form or mailbox has a longer address, and many answers repeat it.
const maxLength = 1000;

export const contactRule =
  "an https address or an e-mail address, such as https://example.org/keys or keys@example.org";

/**
 * Returns the address of a link to where a key comes from: a page's, or an e-mail address behind `mailto:`. Throws when
 * the text is neither.
 */
export function contactAt(text: string): string {
  const mailbox = text.replace(/^mailto:/i, "");
  if (z.email().max(maxLength).safeParse(mailbox).success) return `mailto:${mailbox}`;
  const page = URL.parse(text);
  if (page?.protocol === "https:" && !page.username && !page.password && page.href.length <= maxLength)
    return page.href;
  throw new Error(contactRule);
}

/** A contact as people write it. */
export const contactText = (contact: string): string => contact.replace(/^mailto:/, "");
