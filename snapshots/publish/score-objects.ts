import type { StoredScoreList } from "../../schemas/envelopes.ts";
import type { StoredScoreListEntry } from "../../schemas/records.ts";
import type { Manifest, ObjectRef } from "../../schemas/snapshot.ts";
import type { ScoreRow } from "../sources/sources.ts";
import { inParallel } from "../store/in-parallel.ts";
import { layout } from "../store/layout.ts";
import { sha256 } from "../store/sha256.ts";
import type { ObjectWriter } from "./object-writer.ts";

/** Objects by slug, ascending. */
type BySlug = ReadonlyMap<string, Buffer>;

/** What is answered about scores: list and records are public, the others for those whose plan has them. */
export interface ScoreObjects {
  list: Buffer;
  records: BySlug;
  histories: BySlug;
  dimensions: BySlug;
  newestUpdatedAt: string;
}

export function renderScores(rows: readonly ScoreRow[]): ScoreObjects {
  const bySlug = rows.toSorted((a, b) => (a.entry.slug < b.entry.slug ? -1 : 1));
  const objects = (textOf: (row: ScoreRow) => string) =>
    new Map(bySlug.map((row) => [row.entry.slug, Buffer.from(textOf(row))]));
  return {
    ...renderList(rows.map(({ entry }) => entry)),
    records: objects(({ json }) => json),
    histories: objects(({ history }) => history),
    dimensions: objects(({ dimensions }) => dimensions),
  };
}

/** The score list: bri descending, then slug. */
export function renderList(
  unordered: readonly StoredScoreListEntry[],
): Pick<ScoreObjects, "list" | "newestUpdatedAt"> {
  const scores = unordered.toSorted((a, b) => b.bri - a.bri || (a.slug < b.slug ? -1 : 1));
  const times = scores.map(({ updatedAt }) => updatedAt).sort();
  const newestUpdatedAt = times.at(-1) ?? "";
  const list: StoredScoreList = { count: scores.length, updatedAt: newestUpdatedAt, scores };
  return { list: Buffer.from(JSON.stringify(list)), newestUpdatedAt };
}

/** Stores them, and returns what a manifest says of them. */
export async function writeScores(
  objects: ObjectWriter,
  { list, records, histories, dimensions }: ScoreObjects,
): Promise<Manifest["scores"]> {
  const stored = {
    list: referTo(list),
    records: referToAll(records),
    histories: referToAll(histories),
    dimensions: referToAll(dimensions),
  };
  const open = [list, ...records.values()];
  await inParallel(open, (bytes) => objects.write(layout.publicObject(referTo(bytes).hash), bytes));
  const closed = [...histories.values(), ...dimensions.values()];
  await inParallel(closed, (bytes) => objects.write(layout.privateObject(referTo(bytes).hash), bytes));
  return stored;
}

/** The public ones by hash. */
export function publicObjects({ list, records }: ScoreObjects): Map<string, Buffer> {
  return new Map([list, ...records.values()].map((bytes) => [sha256(bytes), bytes]));
}

function referToAll(objects: BySlug): Record<string, ObjectRef> {
  return Object.fromEntries([...objects].map(([slug, bytes]) => [slug, referTo(bytes)]));
}

/** Reference to an object of these bytes. */
export function referTo(bytes: Buffer): ObjectRef {
  return { hash: sha256(bytes), bytes: bytes.length };
}
