import { readFile } from "node:fs/promises";
import { everyDimensionKey, everyMember } from "../../schemas/market.ts";
import { integer, type Shape, sourceName, struct, text } from "../../schemas/shapes.ts";
import type {
  ChangeFiles,
  Commit,
  CommitEntry,
  ExportRecord,
  ParquetFile,
} from "../../schemas/store/stored-objects.ts";
import { chunkBytes, chunksOf } from "../format/bytes.ts";
import { hashBytes } from "../format/hash-trees.ts";
import { member } from "../sources/contract/file-column.ts";
import { quoted } from "../sources/duckdb/sql-literals.ts";
import { CorruptObjectError, MissingObjectError, ObjectError, unless } from "../store/errors.ts";
import { hashIn, type Kind, layout, sha256 } from "../store/layout.ts";
import { isWithdrawn, logFrom } from "../store/log/commits.ts";
import { type ReadObject, readRecord } from "../store/objects.ts";
import type { ByteRange, Storage } from "../store/storage.ts";
import { type Signing, trustOf } from "../trust/log/believe.ts";
import { sealSigned } from "../trust/notes/signed-note.ts";
import type { Trust } from "../trust/trust.ts";

export const exportFileName = (index: number) => `markets-${String(index + 1).padStart(4, "0")}.parquet`;

type Exported = ExportRecord | ChangeFiles;

/** A record of an export or of exported changes; undefined when there is none of this name. */
export async function readExported<Content extends Exported>(
  storage: Storage,
  kind: Kind<[name: string], Content>,
  name: string,
): Promise<Content | undefined> {
  const record = await readRecord<[string], Exported>(storage, kind, [name]);
  if (record && ("changes" in record ? record.changes : record.snapshotId) !== name)
    throw new CorruptObjectError(
      kind(name),
      `it is of another ${"changes" in record ? "change" : "snapshot"}`,
    );
  return record as Content | undefined;
}

/** Undefined also when the record is damaged, and with `trust` when no trusted key signed it. */
export async function readSound<Content extends Exported>(
  storage: Storage,
  kind: Kind<[name: string], Content>,
  name: string,
  trust?: Trust,
): Promise<Content | undefined> {
  const record = await unless(CorruptObjectError, () => readExported(storage, kind, name));
  return record && trust?.refusalOf(kind(name), record) ? undefined : record;
}

/** All records that are sound, and with `trust` signed. */
export async function* readExports(
  storage: Storage,
  trust: Trust | undefined,
): AsyncGenerator<ExportRecord, void, void> {
  for await (const { key } of storage.list(layout.exportRecord.prefix)) {
    const record = await readSound(storage, layout.exportRecord, hashIn(key), trust);
    if (record) yield record;
  }
}

export const objectsOf = (files: readonly ParquetFile[]) =>
  files.flatMap(({ hash, chunks }) => [layout.exportFile(hash), layout.exportChunks(chunks.hash)]);

/** A collection always keeps this many of the newest exports. */
export const newestExports = 2;

/** As readExports, without those that a rollback withdrew, newest first. `newest` is the store's newest commit. */
export async function soundExports(
  storage: Storage,
  newest: CommitEntry | undefined,
  trust: Trust | undefined,
): Promise<ExportRecord[]> {
  const standing: ExportRecord[] = [];
  for await (const record of readExports(storage, trust))
    if (!isWithdrawn(record.commit, newest)) standing.push(record);
  return standing.sort((a, b) => b.commit - a.commit);
}

/**
 * Signs the exports of the commit that a run signs over and of those before it, back to one that a trusted key signed.
 * Call it before the commit: a run that breaks off then repeats all of it.
 */
export async function signExportsOf(storage: Storage, newest: Commit, signing: Signing): Promise<void> {
  const { key, over } = signing;
  const trust = trustOf(signing);
  if (!key || !trust || over !== newest.entry.commit) return;
  const stored = new Set<string>();
  for (const prefix of [layout.exportRecord.prefix, layout.exportedChanges.prefix])
    for await (const info of storage.list(prefix)) stored.add(info.key);
  const signAgain = async (kind: Kind<[name: string], Exported>, name: string) => {
    const record = stored.has(kind(name)) && (await readSound(storage, kind, name));
    if (!record || !trust.refusalOf(kind(name), record)) return;
    const { digest: _, note: __, ...content } = record;
    await storage.put(kind(name), sealSigned(key, kind(name), content));
  };
  // Exports of commits that the log does not lead back to do not count.
  await unless(ObjectError, async () => {
    for await (const commit of logFrom(storage, newest)) {
      if (!trust.refusalOfCommit(commit)) return;
      await signAgain(layout.exportRecord, commit.entry.snapshotId);
      if (commit.changes) await signAgain(layout.exportedChanges, commit.changes.hash);
    }
  });
}

export async function readChunkHashes(read: ReadObject, { chunks, bytes }: ParquetFile): Promise<Buffer> {
  const key = layout.exportChunks(chunks.hash);
  const hashes = await read(key, chunks);
  if (hashes.length === Math.ceil(bytes / chunkBytes.file) * hashBytes) return hashes;
  throw new CorruptObjectError(key, "it does not hold one hash per chunk");
}

/** Yields a range, at most a chunk at a time. Each chunk is checked before any byte of it is passed on. */
export async function* readChunks(
  storage: Storage,
  file: Pick<ParquetFile, "hash" | "bytes">,
  hashes: Buffer,
  wanted: ByteRange,
): AsyncGenerator<Buffer, void, void> {
  const key = layout.exportFile(file.hash);
  const [from, to] = [wanted.offset, wanted.offset + wanted.bytes];
  for (let chunk = Math.floor(from / chunkBytes.file); chunk * chunkBytes.file < to; chunk += 1) {
    const offset = chunk * chunkBytes.file;
    const range = { offset, bytes: Math.min(chunkBytes.file, file.bytes - offset) };
    const bytes = await storage.get(key, { range });
    if (!bytes) throw new MissingObjectError(key);
    const expected = hashes.toString("hex", chunk * hashBytes, (chunk + 1) * hashBytes);
    if (sha256(bytes) !== expected)
      throw new CorruptObjectError(key, `chunk ${chunk} does not match its hash`);
    yield bytes.subarray(Math.max(0, from - offset), to - offset);
  }
}

/** Puts a file, and reads it back from the store. */
export async function putFile(storage: Storage, path: string): Promise<Omit<ParquetFile, "rows">> {
  const bytes = await readFile(path);
  const hashes = Buffer.from(chunksOf(bytes, chunkBytes.file).map(sha256).join(""), "hex");
  const ref = { hash: sha256(bytes), bytes: bytes.length };
  const chunks = { hash: sha256(hashes), bytes: hashes.length };
  await putRenewed(storage, layout.exportChunks(chunks.hash), hashes);
  await putRenewed(storage, layout.exportFile(ref.hash), bytes);
  // The run must notice what the store changed or lost, not a reader.
  for await (const _ of readChunks(storage, ref, hashes, { offset: 0, bytes: ref.bytes }));
  return { ...ref, chunks };
}

/** Writes even an object that is there already, so that a collection finds it changed. */
async function putRenewed(storage: Storage, key: string, body: Buffer): Promise<void> {
  if (!(await storage.putIfAbsent(key, body))) await storage.put(key, body);
}

/** The largest value of an INT column; larger ones need BIGINT. */
export const maxInteger = 2 ** 31 - 1;

/** In the order of the files. `value` is SQL over a market's text, `json`, and what `parsedMarket` reads from it. */
export const exportedColumns: readonly { name: string; shape: Shape; value: string }[] = [
  // Those that a market's version of the feed does not have are null.
  ...Object.entries(everyMember).map(([published, shape]) => {
    const value = member("market", published);
    const name = sourceName(published);
    return { name, shape, value: shape.kind === "time" ? `${value}::TIMESTAMPTZ` : value };
  }),
  // Readers filter by plain columns; few of them look into lists.
  ...everyDimensionKey.map((name) => ({
    name,
    shape: integer({ min: 0, max: maxInteger }),
    value: `list_filter(${member("market", "dimensions")}, lambda dimension: dimension.key = ${quoted(name)})[1].score`,
  })),
  { name: "json", shape: text, value: "json" },
];

/** A type for `from_json`. Members of structs have their published names. */
function structure(shape: Shape): unknown {
  switch (shape.kind) {
    case "list":
      return [structure(shape.of)];
    case "struct":
      return Object.fromEntries(
        Object.entries(shape.members).map(([name, shape]) => [name, structure(shape)]),
      );
    case "integer":
      return shape.max > maxInteger ? "BIGINT" : "INTEGER";
    default:
      return types[shape.kind];
  }
}

// Times stay text until they are cast, since JSON has none.
const types = { text: "VARCHAR", double: "DOUBLE", boolean: "BOOLEAN", time: "VARCHAR", any: "JSON" };

/** SQL for the struct `market` of a market's text, `json`. */
export const parsedMarket = `from_json(json, ${quoted(JSON.stringify(structure(struct(everyMember))))}) AS market`;
