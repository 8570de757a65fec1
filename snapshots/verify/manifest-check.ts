import type { Manifest } from "../../schemas/store/snapshot.ts";
import { compareKeys } from "../format/market-line.ts";
import { indexRootOf, scoresRootOf, snapshotIdOf } from "../format/snapshot-id.ts";
import { rootOver } from "../format/tree.ts";
import { CorruptObjectError } from "../store/errors.ts";
import { layout } from "../store/layout.ts";
import type { CheckedSegment } from "./segment-check.ts";

export function checkManifest(key: string, manifest: Manifest, segments: readonly CheckedSegment[]): void {
  segments.forEach((segment, index) => {
    const before = segments[index - 1];
    if (before && compareKeys(before.newest, segment.oldest) >= 0) {
      throw new CorruptObjectError(key, `its segments ${index - 1} and ${index} overlap`);
    }
  });
  const pages = segments.flatMap((segment) => segment.pages);
  const counts = {
    markets: pages.reduce((sum, page) => sum + page.markets, 0),
    protocols: Object.keys(manifest.scores.records).length,
    segments: segments.length,
    pages: pages.length,
  };
  if (JSON.stringify(counts) !== JSON.stringify(manifest.counts))
    throw new CorruptObjectError(key, "its counts are wrong");
  const { records, histories, dimensions } = manifest.scores;
  const slugs = [records, histories, dimensions].map((refs) => Object.keys(refs).sort().join());
  if (new Set(slugs).size > 1)
    throw new CorruptObjectError(key, "its records, histories and dimensions name different protocols");
  const newest = segments.at(-1)?.newest.resolvedAt ?? 0;
  if (new Date(newest).toISOString() !== manifest.newestResolvedAt) {
    throw new CorruptObjectError(key, "its newestResolvedAt differs from its newest market's");
  }
  if (rootOver("archive", manifest.segments).toString("hex") !== manifest.archiveRoot) {
    throw new CorruptObjectError(key, "its archive root does not match its segments");
  }
  segments.forEach(({ index, ids }, position) => {
    const told = manifest.segments[position]!;
    if (JSON.stringify(index) !== JSON.stringify(told.index))
      throw new CorruptObjectError(
        key,
        `it names another index header than ${layout.segment(told.hash)} has`,
      );
    if (ids.root !== told.ids.root)
      throw new CorruptObjectError(
        key,
        `it names another root of the ids than ${layout.segment(told.hash)} has`,
      );
  });
  if (indexRootOf(manifest.segments) !== manifest.indexRoot) {
    throw new CorruptObjectError(key, "its index root does not match its segments");
  }
  if (scoresRootOf(manifest.scores) !== manifest.scoresRoot) {
    throw new CorruptObjectError(key, "its scores root does not match its scores");
  }
  if (snapshotIdOf(manifest) !== manifest.snapshotId) {
    throw new CorruptObjectError(key, "its snapshot id does not match its content");
  }
}
