import { LRUCache } from "lru-cache";
import type { ObjectRef } from "../../../schemas/snapshot.ts";
import { rangeBitmap } from "../../index/bitmap.ts";
import { WordTable } from "../../index/word-table.ts";
import { inParallel } from "../../store/in-parallel.ts";
import { layout } from "../../store/layout.ts";
import { readObject } from "../../store/objects.ts";
import type { Storage } from "../../store/storage.ts";
import { requireIndexed, type Snapshot } from "../catalog/snapshot.ts";
import { awaitBudget } from "../event-loop-budget.ts";
import type { ArchiveFilter } from "../query/query.ts";
import { counted, Matches } from "./matches.ts";

// Words of common questions take half of this. With the ids of markets there are less than 30 bytes a market.
const bytesPerMarket = 26;
// Each takes up to some megabytes while it is read.
const readAtOnce = 8;

/** Finds markets by words. Reads the words of a segment when somebody looks for some there. */
export class WordIndex {
  readonly #storage: Storage;
  readonly #markets: () => number;
  /** By hash. A small archive may hold one segment of long questions. */
  readonly #tables: LRUCache<string, WordTable, ObjectRef>;

  /** `markets` tells how many the largest snapshot in memory has, whose words all fit. */
  constructor(storage: Storage, markets: () => number) {
    this.#storage = storage;
    this.#markets = markets;
    this.#tables = new LRUCache<string, WordTable, ObjectRef>({
      maxSize: Number.MAX_SAFE_INTEGER,
      sizeCalculation: ({ residentBytes }) => residentBytes,
      fetchMethod: (_hash, _stale, { context: ref }) => this.#read(ref),
      // Several requests may wait for this fetch; an eviction must not abort it for them.
      ignoreFetchAbort: true,
    });
  }

  get residentBytes(): number {
    return this.#tables.calculatedSize;
  }

  /** The markets of a snapshot that a filter selects. Throws NotIndexedError. */
  async match(snapshot: Snapshot, { conditions, words }: ArchiveFilter): Promise<Matches> {
    const { archive, manifest } = snapshot;
    for (const condition of conditions)
      if (condition.kind !== "time") requireIndexed(snapshot, condition.field);
    const matches = await archive.match(conditions);
    if (words.length === 0) return matches;
    const segments = [...matches.segments];
    const look = async ([index, ref]: [number, { words: ObjectRef }]) => {
      const { markets, count, bits = rangeBitmap(markets, 0, markets) } = segments[index]!;
      if (count === 0) return;
      const table = await this.#tableOf(ref.words, archive.markets);
      await table.keepWords(words, bits, awaitBudget);
      segments[index] = counted(markets, bits);
    };
    await inParallel(manifest.segments.entries(), look, readAtOnce);
    return new Matches(segments, matches.starts);
  }

  async #tableOf(ref: ObjectRef, markets: number): Promise<WordTable> {
    const table = await this.#tables.forceFetch(ref.hash, { context: ref });
    // A search in a small snapshot leaves the words of a large one.
    const maxBytes = bytesPerMarket * Math.max(markets, this.#markets());
    while (this.#tables.size > 1 && this.#tables.calculatedSize > maxBytes) this.#tables.pop();
    return table;
  }

  async #read(ref: ObjectRef): Promise<WordTable> {
    const key = layout.wordsOf(ref.hash);
    // Opening them takes longer than hashing them.
    const turn = (steps: number) => awaitBudget(3 * steps);
    return new WordTable(key, await readObject(this.#storage, key, ref, turn));
  }
}
