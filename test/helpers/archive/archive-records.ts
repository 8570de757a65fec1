import type { HistoricalMarket } from "../../../schemas/records.ts";
import { sha256 } from "../../../snapshots/store/layout.ts";
import { market } from "../publish/proxy-archive.ts";

/**
 * Records `first` to `last` (exclusive) in the archive's order. Up to nine of them share a time, ids are in no relation
 * to it, and a record stays the same whatever others there are.
 */
export function recordsOf(first: number, last: number): HistoricalMarket[] {
  return inArchiveOrder(Array.from({ length: last - first }, (_, n) => record(first + n)));
}

function record(index: number): HistoricalMarket {
  const hash = sha256(`market ${index}`);
  const id = hash.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12}).*$/, "$1-$2-$3-$4-$5");
  return { ...market(index), id, resolvedAt: market(Math.floor(index / (1 + (index % 9)))).resolvedAt };
}

/** INTERFACE 4.5: newest first; the highest id first among markets of one time. */
export function inArchiveOrder(markets: readonly HistoricalMarket[]): HistoricalMarket[] {
  const key = ({ resolvedAt, id }: HistoricalMarket) => `${resolvedAt} ${id}`;
  return markets.toSorted((a, b) => (key(a) < key(b) ? 1 : -1));
}

/** The records of an archive that stand strictly after a time and id in its order. */
export function recordsAfter(
  markets: readonly HistoricalMarket[],
  after: Pick<HistoricalMarket, "resolvedAt" | "id">,
): HistoricalMarket[] {
  return markets.filter(({ resolvedAt, id }) => `${resolvedAt} ${id}` < `${after.resolvedAt} ${after.id}`);
}
