import {
  formatVersion,
  type Manifest,
  maxSegments,
  type ObjectRef,
  type SourceFiles,
} from "../../schemas/store/snapshot.ts";
import { feedVersion } from "../../schemas/versions.ts";
import { type SnapshotEntry, snapshotEntryOf } from "../format/snapshot-id.ts";
import { nameOfAll } from "../sources/files/source-files.ts";
import { layout } from "../store/layout.ts";
import { divideManifest } from "../store/manifest.ts";
import { referTo } from "../store/objects.ts";
import { requireAtMost } from "./guards.ts";
import type { MadeArchive } from "./make-archive.ts";
import type { ObjectWriter } from "./object-writer.ts";
import { writeScores } from "./score-objects.ts";

/** Writes the scores and builds the manifest. Holds the manifest's parts until it is written. */
export async function buildManifest({
  objects,
  sources,
  scores,
  fileRows,
  archive: { segments, newestResolvedAt },
}: MadeArchive): Promise<{ manifest: Manifest; stored: Buffer; told: SnapshotEntry }> {
  requireAtMost(nameOfAll(sources.files, "markets"), segments.length, maxSegments, "segments");
  const scoreRefs = await writeScores(objects, scores);
  const files = holdSourceFiles(objects, sources.files, fileRows);
  const { parts, ...manifest } = divideManifest({
    formatVersion,
    newestResolvedAt: new Date(newestResolvedAt).toISOString(),
    newestUpdatedAt: scores.newestUpdatedAt,
    rowDigests: sources.rowDigests,
    sources: files,
    segments,
    scores: scoreRefs,
  });
  for (const [key, bytes] of parts) objects.hold(key, bytes);
  return { ...manifest, told: snapshotEntryOf(manifest.manifest, feedVersion) };
}

/** Tells which files the markets were made from, by hash: the order of their names may change, and does not matter. */
function holdSourceFiles(
  objects: ObjectWriter,
  files: MadeArchive["sources"]["files"],
  fileRows: readonly number[],
): ObjectRef {
  const refs = files.map(({ name: _, unchanged: __, ...file }, index) => ({
    ...file,
    rows: fileRows[index]!,
  }));
  refs.sort((a, b) => (a.hash < b.hash ? -1 : 1));
  const content: SourceFiles = { formatVersion, files: refs };
  const bytes = Buffer.from(JSON.stringify(content));
  const ref = referTo(bytes);
  objects.hold(layout.sourceFiles(ref.hash), bytes);
  return ref;
}
