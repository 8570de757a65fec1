import type { ScoreListEntry } from "../../../../schemas/records.ts";

export const compareAddress = (slugs: readonly string[]) => `#/compare/${slugs.join()}`;

/** The address that compares a protocol with the one nearest by BRI, of its own category if there is another. */
export function peerAddress(entry: ScoreListEntry, scores: readonly ScoreListEntry[]): string {
  const others = scores.filter(({ slug }) => slug !== entry.slug);
  const kin = others.filter(({ category }) => category === entry.category);
  const distance = ({ bri }: ScoreListEntry) => Math.abs(bri - entry.bri);
  const peer = (kin.length > 0 ? kin : others).toSorted((a, b) => distance(a) - distance(b))[0];
  return compareAddress(peer ? [entry.slug, peer.slug] : [entry.slug]);
}
