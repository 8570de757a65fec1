import type { ObjectRef } from "../../../schemas/store/stored-objects.ts";
import { WordTable } from "../../index/word-table.ts";
import { layout } from "../../store/layout.ts";
import { readObject } from "../../store/objects.ts";
import type { Storage } from "../../store/storage.ts";
import { awaitBudget } from "../effort.ts";
import { Memo } from "../memo.ts";

// Words of common questions take half of this. With the ids there are less than 30 bytes a market.
const bytesPerMarket = 26;

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

  /** The words of a segment in a snapshot of this many markets. */
  async read(ref: ObjectRef, markets: number): Promise<WordTable> {
    const table = await this.#tables.get(ref.hash, () => this.#read(ref));
    // A search in a small snapshot leaves the words of a large one.
    this.#tables.trim(bytesPerMarket * Math.max(markets, this.#markets()));
    return table;
  }

  async #read(ref: ObjectRef): Promise<WordTable> {
    const key = layout.words(ref.hash);
    // Opening words takes longer than hashing them.
    const turn = (steps = 1) => awaitBudget(3 * steps);
    return new WordTable(key, await readObject(this.#storage, key, ref, turn));
  }
}
