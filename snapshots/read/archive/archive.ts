import type { ObjectRef } from "../../../schemas/store/snapshot.ts";
import { firstWhere } from "../../format/first-where.ts";
import type { CompressedPage } from "../../format/page.ts";
import { lowerBound, timeAt } from "../../index/number-columns.ts";
import type { Segment } from "../../index/segment.ts";
import { WordTable } from "../../index/word-table.ts";
import { layout } from "../../store/layout.ts";
import { readObject } from "../../store/objects.ts";
import type { Storage } from "../../store/storage.ts";
import { awaitBudget } from "../effort.ts";
import { Memo } from "../memo.ts";
import { ArchiveIndex } from "./evaluate.ts";

/** `page` is counted within the segment, `line` within the page, newest first. */
export interface Location {
  segment: number;
  page: number;
  line: number;
}

/** The index of one snapshot in memory, and where each market is stored. */
export class Archive extends ArchiveIndex<Segment> {
  /** Epoch milliseconds. */
  resolvedAt(ordinal: number): number {
    const index = this.#segmentOf(ordinal);
    return timeAt(this.segments[index]!.times, ordinal - this.starts[index]!);
  }

  /** The ordinals with exactly this time: from (inclusive) to (exclusive). */
  resolvedAtExactly(time: number): { from: number; to: number } {
    const bound = (limit: number) =>
      this.segments.reduce((sum, segment) => sum + lowerBound(segment.times, limit), 0);
    return { from: bound(time), to: bound(time + 1) };
  }

  locate(ordinal: number): Location {
    const segment = this.#segmentOf(ordinal);
    const { pageStarts } = this.segments[segment]!;
    const local = ordinal - this.starts[segment]!;
    const page = lastAtOrBelow(pageStarts, local);
    return { segment, page, line: pageStarts[page + 1]! - 1 - local };
  }

  page({ segment, page }: Location): CompressedPage {
    return this.segments[segment]!.page(page);
  }

  #segmentOf(ordinal: number): number {
    if (!(ordinal >= 0 && ordinal < this.markets)) throw new RangeError(`no market has ordinal ${ordinal}`);
    return lastAtOrBelow(this.starts, ordinal);
  }
}

/** Index of the last element at or below `value`. `starts` ascend, and their last element only marks the end. */
function lastAtOrBelow(starts: ArrayLike<number>, value: number): number {
  return firstWhere(1, starts.length - 1, (index) => starts[index]! > value) - 1;
}

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
    const turn = (steps: number) => awaitBudget(3 * steps);
    return new WordTable(key, await readObject(this.#storage, key, ref, turn));
  }
}
