import { LRUCache } from "lru-cache";
import type { ExportList } from "../../../schemas/envelopes.ts";
import { Fault } from "../../../schemas/errors.ts";
import { parquet } from "../../../schemas/media.ts";
import type { ChangeFiles, ExportRecord, ParquetFile } from "../../../schemas/store/stored-objects.ts";
import { exportFileName, readChunkHashes, readChunks, readSound } from "../../export/export-records.ts";
import { inParallel } from "../../store/in-parallel.ts";
import { hashIn, type Kind, layout } from "../../store/layout.ts";
import type { ByteRange, ObjectInfo, Storage } from "../../store/storage.ts";
import type { LogReader } from "../../trust/log/log-reader.ts";
import type { StoredFile, Stream } from "../answer.ts";
import type { Catalog } from "./catalog.ts";

/** The answer to which exports there are (INTERFACE 4.11). */
export async function listExports(exports: Exports): Promise<ExportList> {
  const records = await exports.list();
  const listed = records.map(({ snapshotId, publishedAt, archiveRoot, files }) => ({
    snapshotId,
    publishedAt,
    rows: sum(files.map((file) => file.rows)),
    bytes: sum(files.map((file) => file.bytes)),
    format: "parquet" as const,
    archiveRoot,
    files: files.map(({ rows, bytes, hash }, index) => {
      const name = exportFileName(index);
      return { name, url: `/api/v1/markets/exports/${snapshotId}/${name}`, rows, bytes, sha256: hash };
    }),
  }));
  return { count: listed.length, exports: listed };
}

const sum = (numbers: readonly number[]) => numbers.reduce((total, each) => total + each, 0);

/** The most exports that are listed: the newest ones. A collection keeps far fewer. */
const maxRecords = 100;

export type Exports = ReturnType<typeof openExports>;

/** The exports of a store that can be believed, and their files. */
export function openExports(storage: Storage, catalog: Pick<Catalog, "objects" | "log">, reader: LogReader) {
  /** Newest first. */
  const list = catalog.log.recent(look);
  /** The files of change records, by their hashes. A record may be made again, with other files. */
  const filesOfChanges = new LRUCache<string, readonly ParquetFile[]>({ max: 1000, ttl: 3_600_000 });
  /** By key and tag, what the last look made of the records, so that each is read once. */
  let cached = new Map<string, ExportRecord | undefined>();

  async function open(snapshotId: string, name: string): Promise<StoredFile> {
    const record = (await list()).find((each) => each.snapshotId === snapshotId);
    const file = record?.files.find((_, index) => exportFileName(index) === name);
    if (file) return opened(file);
    // Throws where an export cannot be believed because the log does not lead to its commit.
    if (!record) await catalog.log.find((commit) => commit.snapshotId === snapshotId);
    const what = record ? "This export has no file of that name" : "There is no export of this snapshot";
    throw new Fault("SNAPSHOT_NOT_FOUND", `${what}; GET /api/v1/markets/exports lists all.`);
  }

  /** A change record, by its hash, as Parquet files that can be believed; undefined where there are none. */
  async function changes(hash: string): Promise<readonly ParquetFile[] | undefined> {
    const files = filesOfChanges.get(hash);
    if (files) return files;
    const record = await read(layout.exportedChanges, hash);
    if (record) filesOfChanges.set(hash, record.files);
    return record?.files;
  }

  /** Opens a file of any export, or of the change record that is named, by its SHA-256. */
  async function openFile(hash: string, record?: string): Promise<StoredFile> {
    const records = record === undefined ? await list() : [{ files: (await changes(record)) ?? [] }];
    for (const { files } of records) {
      const file = files.find((each) => each.hash === hash);
      if (file) return opened(file);
    }
    throw new Fault("SNAPSHOT_NOT_FOUND", "There is no such file any more; ask for the table's files again.");
  }

  /** Each chunk is checked before any byte of it is passed on. */
  function opened(file: ParquetFile): StoredFile {
    const read = (range: ByteRange): Stream => ({
      count: range.bytes,
      advice: "Take ranges of the file, a part of it each day, or ask for a higher quota.",
      async *read() {
        const hashes = await readChunkHashes((key, ref) => catalog.objects.get(key, ref), file);
        for await (const text of readChunks(storage, file, hashes, range)) yield { count: text.length, text };
      },
    });
    return { ...file, contentType: parquet, ranges: true, read };
  }

  async function look(): Promise<readonly ExportRecord[]> {
    const looked = new Map<string, ExportRecord | undefined>();
    const listed: ExportRecord[] = [];
    const stored = await ofTheLog();
    for (let from = 0; from < stored.length && listed.length < maxRecords; from += maxRecords)
      await inParallel(stored.slice(from, from + maxRecords), async ({ key, tag }) => {
        const name = `${key} ${tag}`;
        const record = cached.has(name) ? cached.get(name) : await read(layout.exportRecord, hashIn(key));
        looked.set(name, record);
        if (record && (await agrees(record))) listed.push(record);
      });
    cached = looked;
    return listed.sort((a, b) => b.commit - a.commit).slice(0, maxRecords);
  }

  /** What the store has under the names of the log's snapshots, newest first: anybody may have put others there. */
  async function ofTheLog(): Promise<ObjectInfo[]> {
    const keys = new Set(
      (await catalog.log.believed()).map(({ snapshotId }) => layout.exportRecord(snapshotId)),
    );
    const stored = new Map<string, ObjectInfo>();
    for await (const info of storage.list(layout.exportRecord.prefix))
      if (keys.has(info.key)) stored.set(info.key, info);
    return [...keys].flatMap((key) => stored.get(key) ?? []);
  }

  /** Undefined unless the record is sound and believed. */
  async function read<Content extends ExportRecord | ChangeFiles>(
    kind: Kind<[string], Content>,
    name: string,
  ) {
    const record = await readSound(storage, kind, name);
    return record && reader.believesExport(kind(name), record) ? record : undefined;
  }

  /** Whether a record agrees with a commit that no rollback withdrew. */
  async function agrees(record: ExportRecord): Promise<boolean> {
    if (catalog.log.isWithdrawn(record.commit)) return false;
    const commit = await catalog.log.believable(record.commit);
    return (
      commit?.snapshotId === record.snapshotId &&
      commit.archiveRoot === record.archiveRoot &&
      commit.publishedAt === record.publishedAt
    );
  }

  return { list, open, changes, openFile };
}
