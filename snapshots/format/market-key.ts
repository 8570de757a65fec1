/** A market's position in the archive, which is sorted by time of resolution and then by id. */
export interface MarketKey {
  /** Epoch milliseconds. */
  resolvedAt: number;
  id: string;
}

/** Orders markets from oldest to newest, as ordinals count them. The archive is served in the reverse order. */
export function compareKeys(a: MarketKey, b: MarketKey): number {
  if (a.resolvedAt !== b.resolvedAt) return a.resolvedAt - b.resolvedAt;
  return a.id < b.id ? -1 : Number(a.id > b.id);
}
