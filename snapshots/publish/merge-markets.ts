import { compareKeys, type MarketKey } from "../format/market-line.ts";
import type { FileNumbers } from "../sources/sources.ts";
import type { ArchiveWriter } from "./archive-writer.ts";
import type { SortedMarket } from "./external-sort.ts";
import type { PreviousSnapshot } from "./previous/snapshot.ts";

type MarketLine = MarketKey & { line: Buffer };
/** Takes what differs at one place of the archive, oldest place first. */
export type TakeDifference = (rows: { before?: MarketLine; after?: MarketLine }) => Promise<void>;

/**
 * Merges the `kept` rows of the current snapshot (not 0 at their ordinals) with the sorted `fresh` markets, and writes
 * the result. Unchanged pages, which are most, are not even read. With `differs` it also reads the rows that are not
 * kept, and reports where old and fresh ones differ.
 */
export async function mergeMarkets(
  writer: ArchiveWriter,
  previous: PreviousSnapshot | undefined,
  kept: FileNumbers,
  fresh: AsyncIterable<SortedMarket[]>,
  differs?: TakeDifference,
): Promise<void> {
  const markets = oneByOne(fresh);
  let next = await markets.next();
  const addFresh = async (market: SortedMarket, before?: MarketLine) => {
    if (!before?.line.equals(market.line)) await differs?.({ ...(before && { before }), after: market });
    await writer.add(market);
    next = await markets.next();
  };
  for (const [index, { page, start, oldest, newest }] of previous?.pages.entries() ?? []) {
    const rows = kept.subarray(start, start + page.markets);
    if (!differs && rows.every((file) => file === 0)) continue;
    while (!next.done && next.value.resolvedAt < oldest) await addFresh(next.value);
    // Markets resolved at the same moment are ordered by id, which only the page's text has.
    const alone = next.done || next.value.resolvedAt > newest;
    if (alone && !rows.includes(0) && (await writer.addPage(index))) continue;
    for (const market of await previous!.rows.marketsOf(index)) {
      while (!next.done && compareKeys(next.value, market) < 0) await addFresh(next.value);
      if (kept[market.ordinal]! > 0) await writer.add(market);
      else if (!next.done && compareKeys(next.value, market) === 0) await addFresh(next.value, market);
      else await differs?.({ before: market });
    }
  }
  while (!next.done) await addFresh(next.value);
}

async function* oneByOne<T>(batches: AsyncIterable<T[]>): AsyncGenerator<T, undefined> {
  for await (const batch of batches) yield* batch;
}
