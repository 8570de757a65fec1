import type { Manifest, ObjectRef, SegmentRef } from "../../schemas/store/snapshot.ts";
import { CorruptObjectError, MissingObjectError, tooLarge } from "./errors.ts";
import { kindOf, layout, sha256 } from "./layout.ts";
import type { Storage } from "./storage.ts";

/** The reference to an object with these bytes. */
export function referTo(bytes: Buffer): ObjectRef {
  return { hash: sha256(bytes), bytes: bytes.length };
}

/** Refuses an object that is larger than one of its kind can be. */
export function requireSize(key: string, bytes: number): void {
  const { maxBytes = Number.POSITIVE_INFINITY } = kindOf(key) ?? {};
  if (bytes > maxBytes) throw tooLarge(key, bytes, maxBytes);
}

/** Bytes that are hashed in 0.1 ms. */
const hashedPerStep = 128 * 1024;

/**
 * Reads an object and checks its size and hash against the reference. `turn` waits until it is this object's turn to be
 * hashed, since many may arrive at once; a step is 0.1 ms.
 */
export async function readObject(
  storage: Storage,
  key: string,
  ref: ObjectRef,
  turn?: (steps: number) => Promise<void>,
): Promise<Buffer> {
  requireSize(key, ref.bytes);
  const bytes = await storage.get(key, { maxBytes: ref.bytes });
  if (!bytes) throw new MissingObjectError(key);
  await turn?.(Math.ceil(bytes.length / hashedPerStep));
  if (bytes.length !== ref.bytes || sha256(bytes) !== ref.hash) {
    throw new CorruptObjectError(key, "its content does not match its name");
  }
  return bytes;
}

/** The objects beside a segment, by key: the digests of its source rows, its ids, and its words. */
export function besideSegment({ rows, ids, words }: SegmentRef): [key: string, ref: ObjectRef][] {
  return [
    [layout.rowsOf(rows.hash), rows],
    [layout.idsOf(ids.hash), ids],
    [layout.wordsOf(words.hash), words],
  ];
}

/**
 * What a snapshot's manifest tells of its sources, by key: the list of the files, and the origins of each segment's
 * rows.
 */
export function sourceObjects({
  sources,
  segments,
}: Pick<Manifest, "sources" | "segments">): Map<string, ObjectRef> {
  const origins = segments.flatMap((segment) => segment.origins ?? []);
  return new Map([
    ...(sources ? [[layout.sourceFilesOf(sources.hash), sources] as const] : []),
    ...origins.map((ref) => [layout.originsOf(ref.hash), ref] as const),
  ]);
}

/**
 * All score objects of a snapshot by key: the list and the records, which are public, and the details, which are not.
 */
export function scoreObjects({ scores }: Pick<Manifest, "scores">): Map<string, ObjectRef> {
  const { list, records, histories, dimensions } = scores;
  const open = [list, ...Object.values(records)];
  const closed = [...Object.values(histories), ...Object.values(dimensions)];
  return new Map([
    ...open.map((ref) => [layout.publicObject(ref.hash), ref] as const),
    ...closed.map((ref) => [layout.privateObject(ref.hash), ref] as const),
  ]);
}
