import type {
  Manifest,
  ManifestRoot,
  ObjectRef,
  ScoreRefs,
  SegmentRef,
} from "../../schemas/store/snapshot.ts";
import { CorruptObjectError, MissingObjectError, tooLarge } from "./errors.ts";
import { kindOf, layout, sha256 } from "./layout.ts";
import type { Storage } from "./storage.ts";

/** A manifest of which parts may be lost or damaged. */
export interface KnownManifest extends Omit<Manifest, "scores"> {
  scores: ScoreRefs | undefined;
}

export function referTo(bytes: Buffer): ObjectRef {
  return { hash: sha256(bytes), bytes: bytes.length };
}

/** Refuses an object larger than its kind allows. */
export function requireSize(key: string, bytes: number): void {
  const { maxBytes = Number.POSITIVE_INFINITY } = kindOf(key) ?? {};
  if (bytes > maxBytes) throw tooLarge(key, bytes, maxBytes);
}

/** Takes 0.1 ms. */
const hashedPerStep = 128 * 1024;

/**
 * Checks size and hash against the reference. `turn` resolves when this object may be hashed, since many can arrive at
 * once; a step takes 0.1 ms.
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

/** The digests of a segment's source rows, its ids and its words. */
export function besideSegment({ rows, ids, words }: SegmentRef): [key: string, ref: ObjectRef][] {
  return [
    [layout.rows(rows.hash), rows],
    [layout.ids(ids.hash), ids],
    [layout.words(words.hash), words],
  ];
}

/** The score list and the records, which are public, and the histories and dimensions, which are not. */
export function scoreObjects({ list, records, histories, dimensions }: ScoreRefs): Map<string, ObjectRef> {
  const open = [list, ...Object.values(records)];
  const closed = [...Object.values(histories), ...Object.values(dimensions)];
  return new Map([
    ...open.map((ref) => [layout.publicObject(ref.hash), ref] as const),
    ...closed.map((ref) => [layout.privateObject(ref.hash), ref] as const),
  ]);
}

export function partsOf({ parts: { lists, scores } }: ManifestRoot): Map<string, ObjectRef> {
  return new Map<string, ObjectRef>([
    ...lists.map((ref) => [layout.segmentList(ref.hash), ref] as const),
    [layout.scoreRefs(scores.hash), scores],
  ]);
}

/**
 * Everything that a manifest and its parts name, and the parts, as far as they are there. Pages are missing: only
 * segments name them.
 */
export function namedBy(manifest: KnownManifest): Map<string, ObjectRef> {
  const { segments, scores, sources } = manifest;
  return new Map<string, ObjectRef>([
    ...partsOf(manifest),
    ...(scores ? scoreObjects(scores) : []),
    ...(sources ? [[layout.sourceFiles(sources.hash), sources] as const] : []),
    ...segments.flatMap((segment) => [
      [layout.segment(segment.hash), segment] as const,
      ...besideSegment(segment),
      ...(segment.origins ? [[layout.origins(segment.origins.hash), segment.origins] as const] : []),
    ]),
  ]);
}
