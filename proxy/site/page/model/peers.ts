import type { ScoreListEntry } from "../../../../schemas/records.ts";

export const compareAddress = (slugs: readonly string[]) => `#/compare/${slugs.join()}`;

/** The address that compares a protocol with its nearest by BRI, if there is one of its own category with that. */
export function peerAddress(entry: ScoreListEntry, scores: readonly ScoreListEntry[]): string {
  const others = scores.filter(({ slug }) => slug !== entry.slug);
  const kin = others.filter(({ category }) => category === entry.category);
  const distance = ({ bri }: ScoreListEntry) => Math.abs(bri - entry.bri);
  const peer = (kin.length > 0 ? kin : others).toSorted((a, b) => distance(a) - distance(b))[0];
  return compareAddress(peer ? [entry.slug, peer.slug] : [entry.slug]);
}
