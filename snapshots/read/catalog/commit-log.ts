import { Fault, isFault } from "../../../schemas/errors.ts";
import type { Commit, CommitEntry } from "../../../schemas/store/stored-objects.ts";
import { leafHash } from "../../format/tree.ts";
import { MissingObjectError, ObjectError, unless } from "../../store/errors.ts";
import { hashIn, layout } from "../../store/layout.ts";
import { commitsBefore, isWithdrawn, logFrom } from "../../store/log/commits.ts";
import { entryOf } from "../../store/log/tiles.ts";
import type { Storage } from "../../store/storage.ts";
import { type LogReader, readAnyLog } from "../../trust/log/log-reader.ts";
import { SingleFlight } from "../budgets.ts";

/** What readers keep of a commit. The newest one tells which commits were withdrawn. */
export interface LogEntry
  extends Omit<CommitEntry, "scoresRoot" | "withdrawn">,
    Pick<Commit, "manifest" | "changes" | "changeCounts" | "digest"> {
  /** The hash of its entry in the public log, in hexadecimal. */
  leaf: string;
}

/** Which commits a log takes up, and how it looks for those that can be read. */
export interface LogOptions {
  /** Which commits are taken up; left out, all of them. */
  reader?: LogReader;
  /** How long a listing of the readable snapshots serves. */
  pollSeconds?: number;
  /** Epoch milliseconds. */
  now?: () => number;
}

// Seven hashes as strings, four small objects, numbers, and a place in the map.
const entryBytes = 1000;

/**
 * The log of commits as readers see it, from the newest one back. Older commits are fetched when somebody asks for
 * them, once, and count only when they have the digest that their successor names. Commits before one with another
 * digest are never read.
 */
export class CommitLog {
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** The commits whose snapshots can be read, newest first: neither withdrawn nor collected. */
  readonly readable: () => Promise<readonly LogEntry[]>;
  readonly #storage: Storage;
  readonly #reader: LogReader;
  readonly #pollSeconds: number;
  readonly #reading = new SingleFlight<void>();
  #newest: Commit | undefined;
  /** The oldest commit that was fetched. Everything from there to the newest is in `#entries`. */
  #oldest: Commit | undefined;
  #entries = new Map<number, LogEntry>();
  /** Why the log cannot be followed further back. The store is not asked again before the next `takeUp`. */
  #broken: Fault | undefined;
  readonly #damaged = new Map<string, ObjectError>();

  constructor(
    storage: Storage,
    { reader = readAnyLog(storage), pollSeconds = 5, now = Date.now }: LogOptions = {},
  ) {
    this.#storage = storage;
    this.#reader = reader;
    this.#pollSeconds = pollSeconds;
    this.now = now;
    this.readable = this.recent(async () => {
      const manifests = await storedManifests(storage);
      const entries = await this.believed();
      return entries.filter(
        ({ commit, manifest }) => manifests.has(manifest.hash) && !this.isWithdrawn(commit),
      );
    });
  }

  get newest(): Commit | undefined {
    return this.#newest;
  }

  get residentBytes(): number {
    return this.#entries.size * entryBytes;
  }

  /**
   * Makes a commit the newest one. What is known of the log stays when the commit leads back to it. Where the store
   * fails, nothing changes.
   */
  async takeUp(newest: Commit): Promise<void> {
    this.#broken = undefined;
    this.#damaged.clear();
    if (newest.digest === this.#newest?.digest) return;
    const fresh = await this.#since(this.#newest, newest);
    if (!fresh) this.#entries = new Map();
    for (const commit of fresh ?? [newest]) this.#entries.set(commit.entry.commit, logEntryOf(commit));
    if (!fresh) this.#oldest = newest;
    this.#newest = newest;
  }

  /** Takes up the newest commit of the store. */
  follow(): Promise<void> {
    return this.#reading.run("newest", async () => {
      const commit = await this.#reader.newest(this.#newest);
      if (commit) await this.takeUp(commit);
    });
  }

  /**
   * A look into the store whose result serves all callers for a while, or until another commit becomes the newest. One
   * that fails does not serve.
   */
  recent<T>(look: () => Promise<T>, seconds = this.#pollSeconds): () => Promise<T> {
    let last: { newest: Commit | undefined; at: number; result: Promise<T> } | undefined;
    return async () => {
      const [newest, at] = [this.#newest, this.now()];
      if (last && last.newest === newest && Math.abs(at - last.at) < seconds * 1000) return last.result;
      const begun = { newest, at, result: look() };
      last = begun;
      begun.result.catch(() => {
        if (last === begun) last = undefined;
      });
      return begun.result;
    };
  }

  /** Work on the store. Once it has met damage, the store is not asked for it again before the next `takeUp`. */
  async unlessDamaged<T>(name: string, work: () => Promise<T>): Promise<T> {
    const damage = this.#damaged.get(name);
    if (damage) throw damage;
    try {
      return await work();
    } catch (error) {
      if (error instanceof ObjectError) this.#damaged.set(name, error);
      throw error;
    }
  }

  isWithdrawn(number: number): boolean {
    return isWithdrawn(number, this.#newest?.entry);
  }

  /** Undefined when the log has no commit of this number. Throws DAMAGED_LOG when the log does not lead there. */
  async entry(number: number): Promise<LogEntry | undefined> {
    if (number < 1 || number > (this.#newest?.entry.commit ?? 0)) return undefined;
    while (number < this.#oldest!.entry.commit) {
      if (this.#broken) throw this.#broken;
      await this.#reading.run("older", () => this.#fetchOlder());
    }
    return this.#entries.get(number);
  }

  /** As `entry`, but undefined when the log does not lead there. */
  believable(number: number): Promise<LogEntry | undefined> {
    return unless("DAMAGED_LOG", () => this.entry(number));
  }

  /** The newest one that fits. */
  async find(fits: (entry: LogEntry) => boolean): Promise<LogEntry | undefined> {
    for (let number = this.#newest?.entry.commit ?? 0; number > 0; number -= 1) {
      const entry = this.#entries.get(number) ?? (await this.entry(number));
      if (entry && fits(entry)) return entry;
    }
    return undefined;
  }

  /** The newest commit published at or before a time (ISO 8601) that no rollback withdrew. */
  at(time: string): Promise<LogEntry | undefined> {
    return this.find((entry) => entry.publishedAt <= time && !this.isWithdrawn(entry.commit));
  }

  /** Every commit that can be believed, newest first. */
  async believed(): Promise<LogEntry[]> {
    const entries: LogEntry[] = [];
    const add = (entry: LogEntry) => entries.push(entry) === 0;
    await unless("DAMAGED_LOG", () => this.find(add));
    return entries;
  }

  /**
   * A commit of the log, even when its snapshot was collected; undefined when the store has none. Looks into the store
   * for one that is newer than all known ones, since other readers may be ahead.
   */
  async commit(number: number): Promise<LogEntry | undefined> {
    if (number > (this.#newest?.entry.commit ?? 0)) await this.follow();
    try {
      return await this.entry(number);
    } catch (error) {
      if (isFault(error, "DAMAGED_LOG") && error.cause instanceof MissingObjectError) return undefined;
      throw error;
    }
  }

  /** As `find`. When there is none, looks into the store for one that is newer than all known ones. */
  async newestWith(fits: (commit: LogEntry) => boolean): Promise<LogEntry | undefined> {
    const commit = await this.find(fits);
    if (commit) return commit;
    const before = this.#newest;
    await this.follow();
    return this.#newest === before ? undefined : this.find(fits);
  }

  /** The commits after `older` up to `newest`; undefined when `newest` does not lead back to it. */
  async #since(older: Commit | undefined, newest: Commit): Promise<Commit[] | undefined> {
    if (!older || newest.entry.commit <= older.entry.commit) return undefined;
    const fresh: Commit[] = [];
    await unless(ObjectError, async () => {
      for await (const commit of logFrom(this.#storage, newest, older.entry.commit + 1)) fresh.push(commit);
    });
    return fresh.at(-1)!.previous === older.digest ? fresh : undefined;
  }

  async #fetchOlder(): Promise<void> {
    const successor = this.#oldest!;
    try {
      const older = await commitsBefore(this.#storage, successor);
      // The log may have been replaced meanwhile by one that does not lead here.
      if (this.#oldest !== successor) return;
      for (const commit of older) this.#entries.set(commit.entry.commit, logEntryOf(commit));
      this.#oldest = older.at(-1);
    } catch (error) {
      if (!(error instanceof ObjectError)) throw error;
      const damaged = damagedLog(successor.entry.publishedAt, error);
      if (this.#oldest === successor) this.#broken = damaged;
      throw damaged;
    }
  }
}

function logEntryOf(commit: Commit): LogEntry {
  const { entry, manifest, changes, changeCounts, digest } = commit;
  const { scoresRoot: _, withdrawn: __, ...kept } = entry;
  const leaf = leafHash(entryOf(commit)).toString("hex");
  return { ...kept, manifest, changes, changeCounts, digest, leaf };
}

/** The hashes of the manifests that the store has. */
export async function storedManifests(storage: Storage): Promise<ReadonlySet<string>> {
  const manifests = new Set<string>();
  for await (const { key } of storage.list(layout.manifest.prefix)) manifests.add(hashIn(key));
  return manifests;
}

/**
 * What was asked for lies behind the commit that `cause` names. `publishedAt` is the time of the oldest commit that can
 * be believed. Callers see the message.
 */
export const damagedLog = (publishedAt: string, cause: Error) =>
  new Fault(
    "DAMAGED_LOG",
    `The service's record of what was published before ${publishedAt} is damaged, until its operator restores it. ` +
      "What was published since then is not affected.",
    { cause },
  );
