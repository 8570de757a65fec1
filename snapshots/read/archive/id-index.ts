import type { SegmentRef } from "../../../schemas/store/stored-objects.ts";
import { filterBytes, IdFilter, idHash, ordinalsOf, requireIds } from "../../index/id-table.ts";
import type { Segment } from "../../index/segment.ts";
import { inParallel } from "../../store/in-parallel.ts";
import { layout } from "../../store/layout.ts";
import { readObject } from "../../store/objects.ts";
import type { Storage } from "../../store/storage.ts";
import type { ObjectCache } from "../catalog/caches.ts";
import type { Snapshot } from "../catalog/snapshots.ts";
import { awaitBudget } from "../effort.ts";
import { SingleFlight } from "../memo.ts";

// Each takes at most half a megabyte, until its filter is made.
const readAtOnce = 8;

// Making the filter of a large segment takes as long as inflating this many runs.
const stepsPerFilter = 32;

/**
 * Finds markets by id. The first search in a snapshot reads the ids of all its segments once and keeps a filter of
 * each, two bytes a market, for as long as the segment itself is in memory. From then on only segments that may hold an
 * id are asked, so that ids that no market has cost no reading.
 */
export class IdIndex {
  readonly #storage: Storage;
  readonly #objects: Pick<ObjectCache, "get">;
  readonly #filters = new WeakMap<Segment, IdFilter>();
  readonly #making = new SingleFlight<IdFilter>();

  constructor(storage: Storage, objects: Pick<ObjectCache, "get">) {
    this.#storage = storage;
    this.#objects = objects;
  }

  /** Ordinals of markets that may have this id: nearly always one or none. */
  async candidates(
    { archive, manifest }: Pick<Snapshot, "archive" | "manifest">,
    id: string,
  ): Promise<number[]> {
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
