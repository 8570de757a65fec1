import { setImmediate as nextRound } from "node:timers/promises";
import { createLabelTables } from "../../../snapshots/index/index-reader.ts";
import { loadSegment, type Segment } from "../../../snapshots/index/segment.ts";
import { evaluate as evaluateFilter } from "../../../snapshots/read/archive/evaluate.ts";
import { awaitBudget } from "../../../snapshots/read/budgets.ts";
import { Archive } from "../../../snapshots/read/catalog/snapshots.ts";
import { directoryStorage } from "../../../snapshots/store/backends/directory.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { newestCommit } from "../../../snapshots/store/log/commits.ts";
import { readManifest } from "../../../snapshots/store/manifest.ts";
import { readObject } from "../../../snapshots/store/objects.ts";
import { archiveQuery } from "../../helpers/archive/query.ts";

/** A filter's evaluation alone, in this process: no HTTP, no pages, and no other requests to take turns with. */
export interface Evaluated {
  markets: number;
  /** Milliseconds, one figure a filter. */
  milliseconds: number[];
  totals: number[];
}

/**
 * Evaluates each filter once over the newest snapshot of a store, `copies` times over. Every copy of a segment is
 * loaded for itself and lies in memory of its own; only times repeat, of which each segment has its own column.
 */
export async function evaluate(store: string, queries: readonly string[], copies = 1): Promise<Evaluated> {
  const archive = await loadArchive(store, copies);
  const filters = queries.map((query) => archiveQuery(query).filter);
  // Compiled code first, from filters in another order. Meanwhile the garbage of loading is collected too.
  for (const filter of filters.toReversed()) await evaluateFilter(archive, filter, awaitBudget);
  const evaluated: Evaluated = { markets: archive.markets, milliseconds: [], totals: [] };
  for (const filter of filters) {
    // A request finds a new round of the event loop, with the whole budget of turns.
    await nextRound();
    const start = performance.now();
    const { total } = await evaluateFilter(archive, filter, awaitBudget);
    evaluated.milliseconds.push(performance.now() - start);
    evaluated.totals.push(total);
  }
  return evaluated;
}

async function loadArchive(store: string, copies: number): Promise<Archive> {
  const storage = directoryStorage(store);
  const commit = await newestCommit(storage);
  if (!commit) throw new Error(`${store} holds no commit`);
  const manifest = await readManifest(storage, commit);
  const tables = createLabelTables();
  const segments: Segment[] = [];
  for (const ref of manifest.segments) {
    const key = layout.segment(ref.hash);
    const bytes = await readObject(storage, key, ref);
    for (let copy = 0; copy < copies; copy += 1) segments.push(loadSegment(key, bytes, tables));
  }
  return new Archive(segments, tables, {
    name: store,
    version: commit.entry.feedVersion,
    words: async () => {
      throw new Error("filters here have no words");
    },
  });
}
