import type { ProtocolScore } from "../../schemas/records.ts";
import type { ForgeTier } from "../../schemas/versions.ts";
import { type Markup, markup } from "./markup.ts";

/** The weakest tier stands out. White text is read on these, so each has a contrast of at least 4.5 to 1. */
export const badgeColours: Record<ForgeTier, string> = {
  RAW: "#044a50",
  CAST: "#096266",
  FORGED: "#0f6669",
  TEMPERED: "#1a6d6f",
  DAMASCUS: "#2f6f74",
  MITHRIL: "#4a6a73",
  ADAMANTINE: "#5f6468",
};

const padding = 6;

/** Pixels in the font of the badge, estimated. */
function widthOf(text: string): number {
  const widths = [...text].map((character) => {
    if (/[ijl.]/.test(character)) return 3.5;
    if (/[frtI -]/.test(character)) return 4.5;
    if (/[mwMW]/.test(character)) return 10.5;
    return /[A-Z]/.test(character) ? 7.7 : 6.8;
  });
  return Math.round(widths.reduce((sum, width) => sum + width, 0));
}

/** The title says the same to a screen reader. */
export function renderBadge({ slug, bri, forgeScale }: ProtocolScore): Markup {
  const score = `${bri} ${forgeScale}`;
  const title = `${slug}: BRI ${bri}, ${forgeScale}`;
  const [left, right] = [widthOf(slug) + 2 * padding, widthOf(score) + 2 * padding];
  // textLength keeps the words within the badge whatever font there is.
  const words = (x: number, text: string) =>
    markup`<text x="${x}" y="14" textLength="${widthOf(text)}" lengthAdjust="spacingAndGlyphs">${text}</text>`;
  return markup`<svg xmlns="http://www.w3.org/2000/svg" width="${left + right}" height="20" viewBox="0 0 ${left + right} 20" role="img" aria-label="${title}"><title>${title}</title><rect width="${left + right}" height="20" rx="3" fill="#2b2f33"/><path d="M${left} 0h${right - 3}a3 3 0 0 1 3 3v14a3 3 0 0 1-3 3h-${right - 3}z" fill="${badgeColours[forgeScale]}"/><g fill="#fff" font-family="Verdana,Geneva,DejaVu Sans,sans-serif" font-size="11">${words(padding, slug)}${words(left + padding, score)}</g></svg>
`;
}
