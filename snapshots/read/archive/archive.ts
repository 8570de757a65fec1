import type { Manifest, NamedObject, ObjectRef, SegmentRef } from "../../../schemas/store/stored-objects.ts";
import { firstWhere } from "../../format/first-where.ts";
import type { CompressedPage } from "../../format/page.ts";
import { lowerBound, timeAt } from "../../index/columns.ts";
import { filterBytes, IdFilter, idHash, ordinalsOf, requireIds } from "../../index/id-table.ts";
import type { Segment } from "../../index/segment.ts";
import { WordTable } from "../../index/word-table.ts";
import { inParallel } from "../../store/in-parallel.ts";
import { layout } from "../../store/layout.ts";
import { readObject } from "../../store/objects.ts";
import type { Storage } from "../../store/storage.ts";
import { awaitBudget } from "../effort.ts";
import { Memo, SingleFlight } from "../memo.ts";
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

// Each takes at most half a megabyte, until its filter is made.
const readAtOnce = 8;
// Making the filter of a large segment takes as long as inflating this many runs.
const stepsPerFilter = 32;

/** Objects that are kept in memory. */
interface Objects {
  get(key: string, ref: NamedObject): Promise<Buffer>;
}

/** What of a snapshot leads to a market. */
interface Searched {
  archive: Archive;
  manifest: Manifest;
}

/**
 * Finds markets by id. The first search in a snapshot reads the ids of all its segments once and keeps a filter of
 * each, two bytes a market, for as long as the segment itself is in memory. From then on only segments that may hold an
 * id are asked, so that ids that no market has cost no reading.
 */
export class IdIndex {
  readonly #storage: Storage;
  readonly #objects: Objects;
  readonly #filters = new WeakMap<Segment, IdFilter>();
  readonly #making = new SingleFlight<IdFilter>();

  constructor(storage: Storage, objects: Objects) {
    this.#storage = storage;
    this.#objects = objects;
  }

  /** Ordinals of markets that may have this id: nearly always one or none. */
  async candidates({ archive, manifest }: Searched, id: string): Promise<number[]> {
    const hash = idHash(id);
    const segments = archive.segments.map((segment, index) => ({
      segment,
      ids: manifest.segments[index]!.ids,
      start: archive.starts[index]!,
    }));
    const without = segments.filter(({ segment }) => !this.#filters.has(segment));
    const make = async ({ segment, ids }: (typeof segments)[number]) => {
      const filter = await this.#making.run(ids.hash, () => this.#filterOf(ids, segment.markets));
      this.#filters.set(segment, filter);
    };
    await inParallel(without, make, readAtOnce);
    const found: number[] = [];
    for (const { segment, ids, start } of segments) {
      if (!this.#filters.get(segment)!.mayHold(hash)) continue;
      const stored = await this.#objects.get(layout.ids(ids.hash), ids);
      for (const ordinal of ordinalsOf(stored, hash)) found.push(start + ordinal);
    }
    return found;
  }

  /** Bytes that the filters of these segments take. */
  residentBytes(segments: readonly Segment[]): number {
    const filtered = segments.filter((segment) => this.#filters.has(segment));
    return filtered.reduce((sum, { markets }) => sum + filterBytes(markets), 0);
  }

  /** Bypasses the cache: these ids would evict the pages. */
  async #filterOf(ids: SegmentRef["ids"], markets: number): Promise<IdFilter> {
    const key = layout.ids(ids.hash);
    const stored = await readObject(this.#storage, key, ids, awaitBudget);
    await awaitBudget(stepsPerFilter);
    requireIds(key, stored, markets);
    return new IdFilter(stored);
  }
}
