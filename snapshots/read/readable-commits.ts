import { hashIn, layout } from "../store/layout.ts";
import type { Storage } from "../store/storage.ts";
import type { CommitLog, LogEntry } from "./commit-log.ts";

/** One look at which snapshots a store still has. */
interface Look {
  /** Digest of the commit that was the newest then. */
  newest: string | undefined;
  /** Epoch milliseconds. */
  at: number;
  found: Promise<LogEntry[]>;
}

/**
 * The commits whose snapshots can be read: no rollback withdrew them, and no collection deleted their manifests. A look is
 * one listing of the manifests. It serves all callers for a while, or until another commit becomes the newest.
 */
export class ReadableCommits {
  readonly #storage: Storage;
  readonly #log: CommitLog;
  readonly #seconds: number;
  readonly #now: () => number;
  #last: Look | undefined;

  constructor(storage: Storage, log: CommitLog, { seconds, now }: { seconds: number; now: () => number }) {
    this.#storage = storage;
    this.#log = log;
    this.#seconds = seconds;
    this.#now = now;
  }

  /** Newest first. Throws StorageError. */
  async list(): Promise<readonly LogEntry[]> {
    const [newest, at] = [this.#log.newest?.digest, this.#now()];
    const fresh = this.#last?.newest === newest && Math.abs(at - this.#last!.at) < this.#seconds * 1000;
    if (!fresh) {
      const look: Look = { newest, at, found: this.#look() };
      this.#last = look;
      look.found.catch(() => {
        if (this.#last === look) this.#last = undefined;
      });
    }
    return this.#last!.found;
  }

  async #look(): Promise<LogEntry[]> {
    const manifests = new Set<string>();
    for await (const { key } of this.#storage.list(layout.manifests)) manifests.add(hashIn(key));
    const entries = await this.#log.believed();
    return entries.filter(
      ({ commit, manifest }) => manifests.has(manifest.hash) && !this.#log.isWithdrawn(commit),
    );
  }
}
