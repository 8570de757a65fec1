import { LRUCache } from "lru-cache";
import type { ReadTile } from "../../format/log-proofs.ts";
import { endOf, tileAt, tilePath, tileWidth } from "../../format/log-tree.ts";
import { layout } from "../../store/layout.ts";
import type { Storage } from "../../store/storage.ts";
import type { LogReader } from "../../trust/log/log-reader.ts";
import type { NotedCheckpoint } from "../../trust/notes/checkpoint.ts";
import type { CommitLog } from "./commit-log.ts";

// A tile has 8 KiB, and a bundle of usual entries 150.
const cacheBytes = 8 * 2 ** 20;
/** A bundle of the longest entries that there can be. */
const maxBytes = tileWidth * (2 + 0xff_ff);
const missing = Buffer.alloc(0);
/** How long an answer serves that the next run may change: checkpoints, and what is missing. */
const shortMilliseconds = 1000;

/** The files of the public log as the store has them. Whoever reads them checks them against a signature. */
export class PublicLog {
  readonly #cache: LRUCache<string, Buffer>;
  readonly #log: CommitLog;
  readonly #storage: Storage;
  /** By the number of the newest commit, because its checkpoint is signed a moment after it. */
  readonly #checkpoints: LRUCache<number, { found: NotedCheckpoint | undefined }>;

  constructor(storage: Storage, log: CommitLog, reader: Pick<LogReader, "checkpoint">) {
    this.#log = log;
    this.#storage = storage;
    this.#checkpoints = new LRUCache({
      max: 1,
      ttl: shortMilliseconds,
      fetchMethod: async () => ({ found: await reader.checkpoint() }),
      ignoreFetchAbort: true,
    });
    this.#cache = new LRUCache({
      maxSize: cacheBytes,
      sizeCalculation: (bytes, name) => bytes.length + name.length + 100,
      async fetchMethod(name, _stale, { options }) {
        const bytes = (await storage.get(layout.logFile(name), { maxBytes })) ?? missing;
        if (bytes === missing || !tileOf(name)) options.ttl = shortMilliseconds;
        return bytes;
      },
      ignoreFetchAbort: true,
    });
  }

  /**
   * The bytes of a file, by its name below the log; undefined when there is none, or when it belongs to a larger log
   * than is known. Throws CorruptObjectError or StorageError.
   */
  async file(name: string): Promise<Buffer | undefined> {
    if (name === "checkpoint") {
      const { note } = (await this.checkpoint()) ?? {};
      return note === undefined ? undefined : Buffer.from(note);
    }
    const tile = tileOf(name);
    const size = tile ? endOf(tile) : Number(/^checkpoints\/(\d+)$/.exec(name)?.[1] ?? 0);
    // The store is asked for no more names than a log has.
    if (size > (this.#log.newest?.commit ?? 0)) return undefined;
    const bytes = await this.#cache.fetch(name);
    return bytes === missing ? undefined : bytes;
  }

  /** The newest checkpoint that is believed; undefined when there is none. Throws StorageError. */
  async checkpoint(): Promise<NotedCheckpoint | undefined> {
    return (await this.#checkpoints.fetch(this.#log.newest?.commit ?? 0))?.found;
  }

  /** Reads a tile of hashes. Throws as `file` does. */
  readonly tile: ReadTile = (level, index, width) => this.file(`tile/${tilePath({ level, index, width })}`);

  /** The same from the store, whatever is held. */
  readonly storedTile: ReadTile = (level, index, width) => {
    const key = layout.logTile(tilePath({ level, index, width }));
    return this.#storage.get(key, { maxBytes });
  };
}

const tileOf = (name: string) => (name.startsWith("tile/") ? tileAt(name.slice("tile/".length)) : undefined);
