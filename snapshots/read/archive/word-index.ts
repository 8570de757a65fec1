import type { QueryWord } from "../../../schemas/filters.ts";
import type { ObjectRef } from "../../../schemas/store/snapshot.ts";
import { rangeBitmap } from "../../index/bitmap.ts";
import { WordTable } from "../../index/word-table.ts";
import { inParallel } from "../../store/in-parallel.ts";
import { layout } from "../../store/layout.ts";
import { readObject } from "../../store/objects.ts";
import type { Storage } from "../../store/storage.ts";
import type { Snapshot } from "../catalog/caches.ts";
import { awaitBudget } from "../effort.ts";
import { Memo } from "../memo.ts";
import { counted, Matches } from "./matches.ts";

// Words of common questions take half of this. With the ids there are less than 30 bytes a market.
const bytesPerMarket = 26;
// Each takes up to some megabytes while it is read.
const readAtOnce = 8;

/** Finds markets by words. Reads the words of a segment when somebody first looks for some there. */
export class WordIndex {
  readonly #storage: Storage;
  readonly #markets: () => number;
  /** By hash. A small archive may hold one segment of long questions. */
  readonly #tables = new Memo<WordTable>(
    { most: Number.MAX_SAFE_INTEGER },
    ({ residentBytes }) => residentBytes,
  );

  /** `markets` returns the number of markets in the largest snapshot in memory, whose words all fit. */
  constructor(storage: Storage, markets: () => number) {
    this.#storage = storage;
    this.#markets = markets;
  }

  get residentBytes(): number {
    return this.#tables.counts().bytes;
  }

  async keep(
    words: readonly QueryWord[],
    { archive, manifest }: Snapshot,
    matches: Matches,
  ): Promise<Matches> {
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
    const table = await this.#tables.get(ref.hash, () => this.#read(ref));
    // A search in a small snapshot leaves the words of a large one.
    this.#tables.trim(bytesPerMarket * Math.max(markets, this.#markets()));
    return table;
  }

  async #read(ref: ObjectRef): Promise<WordTable> {
    const key = layout.words(ref.hash);
    // Opening words takes longer than hashing them.
    const turn = (steps: number) => awaitBudget(3 * steps);
    return new WordTable(key, await readObject(this.#storage, key, ref, turn));
  }
}
