import type { z } from "zod";
import type {
  Manifest,
  ManifestRoot,
  NamedObject,
  ObjectRef,
  ScoreRefs,
  SegmentRef,
} from "../../schemas/store/stored-objects.ts";
import { CorruptObjectError, MissingObjectError, tooLarge, unlessSync } from "./errors.ts";
import type { Turn } from "./in-parallel.ts";
import { parseJson, unknownVersion, versionIn } from "./json.ts";
import { type Kind, kindOf, layout, sha256 } from "./layout.ts";
import type { Storage } from "./storage.ts";

/** A manifest without those parts that are lost or damaged. */
export interface KnownManifest extends Omit<Manifest, "lists" | "scores"> {
  lists: (readonly SegmentRef[] | undefined)[];
  scores: ScoreRefs | undefined;
}

export function referTo(bytes: Buffer): ObjectRef {
  return { hash: sha256(bytes), bytes: bytes.length };
}

const maxBytesOf = (key: string): number => kindOf(key)?.maxBytes ?? Number.POSITIVE_INFINITY;

export function requireSize(key: string, bytes: number): void {
  const maxBytes = maxBytesOf(key);
  if (bytes > maxBytes) throw tooLarge(key, bytes, maxBytes);
}

/** Bytes; hashing them takes 0.1 ms. */
const hashedPerStep = 128 * 1024;

/**
 * Checks the hash, and the size where it is told. `turn` resolves when this object may be hashed, since many can arrive
 * at once.
 */
export async function readObject(
  storage: Storage,
  key: string,
  { hash, bytes: size }: NamedObject,
  turn?: Turn,
): Promise<Buffer> {
  if (size !== undefined) requireSize(key, size);
  const bytes = await storage.get(key, { maxBytes: size ?? maxBytesOf(key) });
  if (!bytes) throw new MissingObjectError(key);
  await turn?.(Math.ceil(bytes.length / hashedPerStep));
  if (bytes.length !== (size ?? bytes.length) || sha256(bytes) !== hash) {
    throw new CorruptObjectError(key, "its content does not match its name");
  }
  return bytes;
}

/** Reads an object and checks it against the reference. */
export type ReadObject = (key: string, ref: NamedObject) => Promise<Buffer>;

export const objectsIn =
  (storage: Storage): ReadObject =>
  (key, ref) =>
    readObject(storage, key, ref);

/** The digests of a segment's source rows, its ids and its words. */
export function besideSegment({ rows, ids, words }: SegmentRef): [key: string, ref: ObjectRef][] {
  return [
    [layout.rows(rows.hash), rows],
    [layout.ids(ids.hash), ids],
    [layout.words(words.hash), words],
  ];
}

/** The score list and the records, which are public, and the histories and dimensions, which are not. */
export function scoreObjects({ list, records, histories, dimensions }: ScoreRefs): Map<string, NamedObject> {
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
    [layout.scoreLines(scores.hash), scores],
  ]);
}

/**
 * Everything that a manifest and its parts name, and the parts, as far as they are there. Pages are missing: only
 * segments name them.
 */
export function namedBy(manifest: KnownManifest): Map<string, NamedObject> {
  const { segments, scores, sources } = manifest;
  return new Map<string, NamedObject>([
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

export function parseObject<T>(key: string, bytes: Uint8Array, schema: z.ZodType<T>): T {
  const value = parseJson(key, bytes);
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const wrongVersion = result.error.issues.some((issue) => issue.path[0] === "formatVersion");
  if (wrongVersion) throw unknownVersion(key, versionIn(value));
  throw new CorruptObjectError(key, `it is not as documented: ${result.error.issues[0]?.path.join(".")}`);
}

/** Reads an object that is JSON, and checks it against the reference and the schema of its kind. */
export async function readParsed<Content>(
  read: ReadObject,
  kind: Kind<[name: string], Content>,
  ref: NamedObject,
): Promise<Content> {
  const key = kind(ref.hash);
  return parseObject(key, await read(key, ref), kind.schema!);
}

/**
 * A signed note about a record, or about a commit's entry in the public log. It follows the digest, which does not
 * cover it.
 */
export interface Signature {
  note?: string | undefined;
}

/**
 * Adds `digest` at the end of the record's JSON: the SHA-256 of the JSON without it (snapshots/SPEC.md, "JSON"). `sign`
 * may add a signature after it.
 */
export function seal(record: object, sign: (digest: string) => Signature = () => ({})): Buffer {
  const digest = sha256(JSON.stringify(record));
  return Buffer.from(JSON.stringify({ ...record, digest, ...sign(digest) }));
}

/**
 * Throws CorruptObjectError when any byte but the signature has changed since the record was sealed. Members that the
 * schema does not know count for the digest and are left out of the result. The signature is not checked.
 */
export function unseal<T extends { digest: string }>(key: string, bytes: Buffer, schema: z.ZodType<T>): T {
  const record = parseObject(key, bytes, schema);
  const { digest: _, note, ...content } = JSON.parse(bytes.toString("utf8"));
  // Members that the schema does not know may be nested deeper than JSON.stringify can go.
  const again = unlessSync(RangeError, () => seal(content, () => ({ note })));
  if (!again?.equals(bytes)) throw new CorruptObjectError(key, "its digest does not match its content");
  return record;
}

/** Undefined when there is no record of this name. `fresh` reads past a cache on disk. */
export async function readRecord<Name extends unknown[], Content extends { digest: string }>(
  storage: Storage,
  kind: Kind<Name, Content>,
  name: Name,
  { fresh = false } = {},
): Promise<Content | undefined> {
  const key = kind(...name);
  const bytes = await storage.get(key, { maxBytes: kind.maxBytes, fresh });
  return bytes && unseal(key, bytes, kind.schema!);
}
