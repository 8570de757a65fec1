import { requireIndexed, type Snapshot } from "../catalog/caches.ts";
import { awaitBudget } from "../effort.ts";
import type { ArchiveFilter } from "../query/filter.ts";
import { matchColumns } from "./match-columns.ts";
import type { Matches } from "./matches.ts";
import type { WordIndex } from "./word-index.ts";

/** Selects by columns first, then by words. */
export async function selectMarkets(
  { words: index }: { words: WordIndex },
  snapshot: Snapshot,
  { conditions, words }: ArchiveFilter,
): Promise<Matches> {
  for (const condition of conditions)
    if (condition.kind !== "time") requireIndexed(snapshot, condition.field);
  const matches = await matchColumns(snapshot.archive, conditions, awaitBudget);
  return words.length === 0 ? matches : index.keep(words, snapshot, matches);
}
