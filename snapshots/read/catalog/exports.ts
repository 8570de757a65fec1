import { LRUCache } from "lru-cache";
import type { ExportList } from "../../../schemas/envelopes.ts";
import { parquet } from "../../../schemas/media.ts";
import type { ExportRecord, ParquetFile } from "../../../schemas/store/snapshot.ts";
import { checkedHashes, readChunks } from "../../export/chunks.ts";
import { exportFileName, readSoundChanges, readSoundExport } from "../../export/export-records.ts";
import { inParallel } from "../../store/in-parallel.ts";
import { hashIn, layout } from "../../store/layout.ts";
import type { ObjectInfo, Storage } from "../../store/storage.ts";
import type { LogReader } from "../../trust/log/log-reader.ts";
import { DamagedLogError, ExportNotFoundError } from "../errors.ts";
import type { ByteRange, StoredFile, Stream } from "../stream.ts";
import type { ObjectCache } from "./caches.ts";
import { Recent } from "./caches.ts";
import type { CommitLog } from "./commit-log.ts";

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

/**
 * So many records are looked at, the newest ones: a collection keeps far fewer, but anybody may have put some there.
 */
const maxRecords = 100;

/** The exports of a store that can be believed, and their files. */
export class Exports {
  readonly #storage: Storage;
  readonly #objects: ObjectCache;
  readonly #log: CommitLog;
  readonly #reader: LogReader;
  readonly #recent: Recent<readonly ExportRecord[]>;
  /** The files of change records, by their hashes. A record may be made again, with other files. */
  readonly #changes = new LRUCache<string, readonly ParquetFile[]>({ max: 1000, ttl: 3_600_000 });
  /** By key and tag, what the last look made of the records, so that each is read once. */
  #known = new Map<string, ExportRecord | undefined>();

  constructor(
    storage: Storage,
    parts: { objects: ObjectCache; log: CommitLog; reader: LogReader; seconds: number; now: () => number },
  ) {
    this.#storage = storage;
    this.#objects = parts.objects;
    this.#log = parts.log;
    this.#reader = parts.reader;
    this.#recent = new Recent(() => this.#look(), parts);
  }

  /** Newest first. */
  list(): Promise<readonly ExportRecord[]> {
    return this.#recent.get();
  }

  /** Opens a file by its name. Throws ExportNotFoundError or DamagedLogError. */
  async open(snapshotId: string, name: string): Promise<StoredFile> {
    const record = (await this.list()).find((each) => each.snapshotId === snapshotId);
    const file = record?.files.find((_, index) => exportFileName(index) === name);
    if (file) return this.#opened(file);
    // Throws where an export cannot be believed because the log does not lead to its commit.
    if (!record) await this.#log.find((commit) => commit.snapshotId === snapshotId);
    const what = record ? "This export has no file of that name" : "There is no export of this snapshot";
    throw new ExportNotFoundError(`${what}; GET /api/v1/markets/exports lists all.`);
  }

  /** A change record, by its hash, as Parquet files that can be believed; undefined where there are none. */
  async changes(hash: string): Promise<readonly ParquetFile[] | undefined> {
    const known = this.#changes.get(hash);
    if (known) return known;
    const record = await readSoundChanges(this.#storage, hash);
    if (!record || !this.#reader.believesChanges(record)) return undefined;
    this.#changes.set(hash, record.files);
    return record.files;
  }

  /** Opens a file of any export, or of the change record that is named, by its SHA-256. Throws ExportNotFoundError. */
  async openFile(hash: string, changes?: string): Promise<StoredFile> {
    const records =
      changes === undefined ? await this.list() : [{ files: (await this.changes(changes)) ?? [] }];
    for (const { files } of records) {
      const file = files.find((each) => each.hash === hash);
      if (file) return this.#opened(file);
    }
    throw new ExportNotFoundError("There is no such file any more; ask for the table's files again.");
  }

  #opened(file: ParquetFile): StoredFile {
    return { ...file, contentType: parquet, ranges: true, read: (range) => this.#stream(file, range) };
  }

  /**
   * The bytes of a file from `from` to `to` (exclusive), each chunk checked before any byte of it is passed on. Reading
   * throws MissingObjectError, CorruptObjectError or StorageError.
   */
  #stream(file: ParquetFile, range: ByteRange): Stream {
    const [storage, objects] = [this.#storage, this.#objects];
    return {
      count: range.to - range.from,
      advice: "Take ranges of the file, a part of it each day, or ask for a higher quota.",
      async *read() {
        const { hash } = file.chunks;
        const stored = await objects.get(layout.exportChunksOf(hash), file.chunks);
        const hashes = checkedHashes(stored, hash, file.bytes);
        for await (const text of readChunks(storage, file, hashes, range)) yield { count: text.length, text };
      },
    };
  }

  async #look(): Promise<readonly ExportRecord[]> {
    const known = new Map<string, ExportRecord | undefined>();
    await inParallel(await this.#newest(), async ({ key, tag }) => {
      const name = `${key} ${tag}`;
      known.set(name, this.#known.has(name) ? this.#known.get(name) : await this.#read(key));
    });
    this.#known = known;
    const listed: ExportRecord[] = [];
    for (const record of known.values()) if (record && (await this.#agrees(record))) listed.push(record);
    return listed.sort((a, b) => b.commit - a.commit);
  }

  /** The records that were written last. */
  async #newest(): Promise<ObjectInfo[]> {
    let newest: ObjectInfo[] = [];
    for await (const info of this.#storage.list(layout.exportRecords)) {
      // Another key with the same digits would list the same record twice.
      if (info.key !== layout.exportRecord(hashIn(info.key))) continue;
      newest.push(info);
      if (newest.length >= 2 * maxRecords) newest = lastWritten(newest);
    }
    return lastWritten(newest);
  }

  /** A record that is sound and believed. */
  async #read(key: string): Promise<ExportRecord | undefined> {
    const record = await readSoundExport(this.#storage, hashIn(key));
    return record && this.#reader.believesExport(record) ? record : undefined;
  }

  /** Whether a record agrees with a commit that no rollback withdrew. */
  async #agrees(record: ExportRecord): Promise<boolean> {
    if (this.#log.isWithdrawn(record.commit)) return false;
    try {
      const commit = await this.#log.entry(record.commit);
      return (
        commit?.snapshotId === record.snapshotId &&
        commit.archiveRoot === record.archiveRoot &&
        commit.publishedAt === record.publishedAt
      );
    } catch (error) {
      if (error instanceof DamagedLogError) return false;
      throw error;
    }
  }
}

function lastWritten(infos: readonly ObjectInfo[]): ObjectInfo[] {
  return infos.toSorted((a, b) => b.modified.getTime() - a.modified.getTime()).slice(0, maxRecords);
}
