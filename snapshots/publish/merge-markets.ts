import { compareKeys } from "../format/market-key.ts";
import type { ArchiveWriter } from "./archive-writer.ts";
import type { SortedMarket } from "./external-sort.ts";
import type { PreviousSnapshot } from "./previous-snapshot.ts";

/**
 * Merges the rows of the current snapshot that are `kept` (1 at their ordinals) with the sorted `fresh` markets, and writes
 * the result. Unchanged pages, which are most, are not even read. Throws CorruptObjectError, MissingObjectError or
 * StorageError.
 */
export async function mergeMarkets(
  writer: ArchiveWriter,
  previous: PreviousSnapshot | undefined,
  kept: Uint8Array,
  fresh: AsyncIterable<SortedMarket[]>,
): Promise<void> {
  const markets = oneByOne(fresh);
  let next = await markets.next();
  const addFresh = async (market: SortedMarket) => {
    await writer.add(market);
    next = await markets.next();
  };
  for (const [index, { page, start, oldest, newest }] of previous?.pages.entries() ?? []) {
    const rows = kept.subarray(start, start + page.markets);
    if (!rows.includes(1)) continue;
    while (!next.done && next.value.resolvedAt < oldest) await addFresh(next.value);
    // Markets resolved at the same moment are ordered by id, which only the page's text tells.
    const alone = next.done || next.value.resolvedAt > newest;
    if (alone && !rows.includes(0) && (await writer.addPage(index))) continue;
    for (const market of await previous!.keptMarkets(index, kept)) {
      while (!next.done && compareKeys(next.value, market) < 0) await addFresh(next.value);
      await writer.add(market);
    }
  }
  while (!next.done) await addFresh(next.value);
}

async function* oneByOne<T>(batches: AsyncIterable<T[]>): AsyncGenerator<T, undefined> {
  for await (const batch of batches) yield* batch;
}
