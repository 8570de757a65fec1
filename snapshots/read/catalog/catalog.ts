import { Fault } from "../../../schemas/errors.ts";
import { labelFields } from "../../../schemas/filters.ts";
import { Checked, type Commit, type SegmentRef } from "../../../schemas/store/stored-objects.ts";
import { createLabelTables, type LabelTables } from "../../index/index-reader.ts";
import { retained } from "../../index/label-table.ts";
import { loadSegment, type Segment } from "../../index/segment.ts";
import { CorruptObjectError, FormatError, ObjectError } from "../../store/errors.ts";
import { inParallel } from "../../store/in-parallel.ts";
import { layout, maxRecordBytes } from "../../store/layout.ts";
import { readManifest } from "../../store/manifest.ts";
import { readObject, unseal } from "../../store/objects.ts";
import type { Storage } from "../../store/storage.ts";
import { type LogReader, readAnyLog } from "../../trust/log/log-reader.ts";
import { cacheShares, SingleFlight } from "../budgets.ts";
import { AnswerCache, createDerived, type Derived, idIndex, ObjectCache, wordIndex } from "./caches.ts";
import { CommitLog, type LogEntry, type LogOptions, storedManifests } from "./commit-log.ts";
import { Archive, type ListedSnapshot, type Snapshot, SupersededSnapshots } from "./snapshots.ts";

// The index of a segment takes a third of a megabyte. One after the other, a remote store's latency would be most of a
// start.
const segmentsAtOnce = 32;

/** At most this many of the newest commits are tried for a whole snapshot. By default a collection keeps as many. */
const maxTried = 24;

export interface CatalogOptions extends LogOptions {
  /** Bounds the three caches together. The current indexes come on top, and a quarter of this for older snapshots. */
  cacheBytes: number;
}

/** The snapshots of one store. Keeps serving the last good one while the store fails. */
export class Catalog {
  /** Stored pages and score objects. */
  readonly objects: ObjectCache;
  /** Values computed from stored pages. */
  readonly derived: Derived;
  /** Pages of responses, ready to send. */
  readonly answers: AnswerCache;
  readonly words: ReturnType<typeof wordIndex>;
  /** The commits up to the newest one that is known, whose snapshot may not be loaded yet. */
  readonly log: CommitLog;
  readonly findId: ReturnType<typeof idIndex>;
  readonly #storage: Storage;
  readonly #reader: LogReader;
  readonly #tables: LabelTables = createLabelTables();
  /** Segments by hash. Snapshots share them, and memory is freed with the last snapshot that holds a segment. */
  readonly #segments = new Map<string, WeakRef<Segment>>();
  readonly #superseded: SupersededSnapshots;
  readonly #refreshing = new SingleFlight<void>();
  readonly #listing = new SingleFlight<ListedSnapshot>();
  readonly #loading = new SingleFlight<Snapshot>();
  #current: ListedSnapshot | undefined;
  /** Why the current snapshot is shown without its archive; undefined when it is not. */
  #fault: ObjectError | undefined;
  #checkedAt: string | undefined;
  #heldBack: string | undefined;

  constructor(storage: Storage, options: CatalogOptions) {
    const { cacheBytes, reader = readAnyLog(storage) } = options;
    this.#storage = storage;
    this.#reader = reader;
    const share = (part: number) => Math.max(1, Math.floor(cacheBytes * part));
    this.objects = new ObjectCache(storage, share(cacheShares.objects));
    this.derived = createDerived(share);
    this.answers = new AnswerCache(share(cacheShares.answers));
    const marketsOf = ({ commit }: ListedSnapshot) => commit.counts.markets;
    const held = () => [...this.#superseded.values(), ...(this.#current ? [this.#current] : [])];
    this.words = wordIndex(storage, () => Math.max(0, ...held().map(marketsOf)));
    this.#superseded = new SupersededSnapshots(share(cacheShares.superseded));
    this.log = new CommitLog(storage, options);
    this.findId = idIndex(storage, this.objects);
  }

  /** The snapshot that `refresh` loaded last; undefined before the first one. Its archive may be damaged. */
  current(): ListedSnapshot | undefined {
    return this.#current;
  }

  requireCurrent(): ListedSnapshot {
    if (this.#current) return this.#current;
    throw noSnapshot();
  }

  /** Older snapshots that are in memory and were not withdrawn, newest first. */
  superseded(): ListedSnapshot[] {
    const { commit: newest = 0 } = this.#current?.commit ?? {};
    const held = this.#superseded.values().filter(({ commit }) => commit.commit < newest);
    return held
      .filter(({ commit }) => !this.log.isWithdrawn(commit.commit))
      .sort((a, b) => b.commit.commit - a.commit.commit);
  }

  /** When the newest publish run succeeded (ISO 8601): from checked.json, or the current commit's `publishedAt`. */
  checkedAt(): string | undefined {
    return this.#checkedAt;
  }

  /** Bytes that the indexes of all snapshots in memory take. */
  residentBytes(): number {
    const segments = this.#liveSegments();
    const filters = segments.flatMap(({ idFilter }) => idFilter ?? []);
    const held = [...segments, ...filters, ...Object.values(this.#tables), this.words];
    return held.reduce((sum, { residentBytes }) => sum + residentBytes, 0);
  }

  /** Bytes that superseded snapshots keep in memory: manifests, and indexes that the current snapshot does not have. */
  supersededBytes(): number {
    return this.#superseded.bytes;
  }

  /**
   * Loads the newest commit of the store. Throws when that fails, or when the store's newest commit is older than the
   * current one. The current snapshot then stays; where there is none, what is whole beside the damage is shown.
   */
  refresh(): Promise<void> {
    return this.#refreshing.run("refresh", async () => {
      try {
        await this.#takeUpNewest();
      } catch (error) {
        // Readers need not hear of a store that cannot be reached.
        this.#heldBack = error instanceof CorruptObjectError ? error.message : undefined;
        // A log or record that cannot be believed may stay so for long. What fails here as well says less than that.
        await this.#forgetCollected().catch(() => {});
        throw error;
      }
      await this.#forgetCollected();
    });
  }

  /** Why what is newest in the store is not shown, as the last `refresh` found it; undefined when it is. */
  heldBack(): string | undefined {
    return this.#heldBack;
  }

  async #takeUpNewest(): Promise<void> {
    await this.log.follow();
    const { newest } = this.log;
    // Read while the snapshot is loaded: the next refresh tells of a run that ends meanwhile.
    const checked = this.#storage.get(layout.checked, { maxBytes: maxRecordBytes });
    // Where the snapshot cannot be loaded either, that error is thrown.
    checked.catch(() => {});
    if (newest && (this.#fault || newest.digest !== this.#current?.commit.digest)) await this.#show(newest);
    // No await here, so that no reader sees the new snapshot and is told that it is held back.
    this.#heldBack = this.#reader.refusal();
    await this.#reader.remember();
    this.#checkedAt = this.#checkedAtBy(await checked);
  }

  /** Drops snapshots whose manifests are gone, so that they are answered as by a process that never had them. */
  async #forgetCollected(): Promise<void> {
    if (this.#superseded.values().length === 0) return;
    const kept = await storedManifests(this.#storage);
    for (const { commit } of this.#superseded.values())
      if (!kept.has(commit.manifest.hash)) this.#superseded.drop(commit.commit);
  }

  /**
   * Makes the snapshot of the newest commit the current one. If it is damaged and nothing whole is shown, shows the
   * newest whole one before it, or else what is left of the newest, since scores need no archive.
   */
  async #show(newest: Commit): Promise<void> {
    const damage = new Map<string, ObjectError>();
    let [listed, whole]: [ListedSnapshot?, Snapshot?] = [];
    const shown = this.#current && (!this.#fault || this.#current.commit.digest === newest.digest);
    const lowest = shown ? newest.entry.commit : Math.max(1, newest.entry.commit - maxTried + 1);
    for (let number = newest.entry.commit; number >= lowest && !whole; number -= 1) {
      const commit = await this.log.believable(number);
      if (!commit) break;
      if (this.log.isWithdrawn(number)) continue;
      try {
        const snapshot = await this.#list(commit);
        listed ??= snapshot;
        const isHurt = snapshot.manifest.segments.some(({ hash }) => damage.has(layout.segment(hash)));
        if (!isHurt) whole = await this.#load(snapshot);
      } catch (error) {
        if (!(error instanceof ObjectError)) throw error;
        damage.set(error.key, error);
      }
    }
    const [fault] = damage.values();
    if (whole) this.#makeCurrent(whole);
    else if (listed && !shown) this.#makeCurrent(listed, fault);
    if (fault) throw heldBack(newest, fault);
  }

  #makeCurrent(snapshot: ListedSnapshot, fault?: ObjectError): void {
    const before = this.#current;
    this.#current = snapshot;
    this.#fault = fault;
    this.#superseded.share(snapshot);
    if (before && before.commit.digest !== snapshot.commit.digest) this.#superseded.set(before);
    this.answers.clear();
  }

  /** Whether a commit's snapshot can be read, by the current one or a listing. False also when that cannot be told. */
  async isReadable({ digest }: LogEntry): Promise<boolean> {
    if (digest === this.#current?.commit.digest) return true;
    const readable = await this.log.readable().catch(() => []);
    return readable.some((commit) => commit.digest === digest);
  }

  /** A commit with its manifest. Throws MissingObjectError when that was collected. */
  async listed(commit: LogEntry): Promise<ListedSnapshot> {
    if (commit.digest === this.#current?.commit.digest) return this.#current;
    const held = this.#superseded.get(commit.commit);
    if (held) return held;
    return this.#listing.run(commit.digest, () => this.#keep(this.#list(commit)));
  }

  /**
   * The snapshot of a commit, or the current one, with its indexes. Whether a damaged current one is whole again is
   * what `refresh` finds out.
   */
  async snapshot(commit: LogEntry = this.requireCurrent().commit): Promise<Snapshot> {
    const listed = await this.listed(commit);
    if (listed.archive) return listed as Snapshot;
    if (this.#fault && listed === this.#current) throw this.#fault;
    return this.#loading.run(commit.digest, () => this.#keep(this.#load(listed)));
  }

  async #keep<T extends ListedSnapshot>(loading: Promise<T>): Promise<T> {
    const loaded = await loading;
    if (loaded.commit.digest !== this.#current?.commit.digest) this.#superseded.set(loaded);
    return loaded;
  }

  async #list(commit: LogEntry): Promise<ListedSnapshot> {
    const named = { entry: commit, manifest: commit.manifest };
    return { commit, manifest: await readManifest(this.#storage, named, this.#current?.manifest) };
  }

  /** Loads and verifies the indexes of a snapshot. Readers see it only once it is complete. */
  async #load({ commit, manifest }: ListedSnapshot): Promise<Snapshot> {
    const load = (ref: SegmentRef) => this.#loadSegment(ref);
    const segments = await inParallel(manifest.segments, load, segmentsAtOnce);
    const archive = new Archive(segments, this.#tables, {
      name: `The snapshot ${commit.snapshotId}, published at ${commit.publishedAt},`,
      version: commit.feedVersion,
      words: (index) => this.words.read(manifest.segments[index]!.words, commit.counts.markets),
    });
    this.#forgetLabels();
    return { commit, manifest, archive };
  }

  async #loadSegment(ref: SegmentRef): Promise<Segment> {
    const cached = this.#segments.get(ref.hash)?.deref();
    if (cached) return cached;
    const key = layout.segment(ref.hash);
    const segment = loadSegment(key, await readObject(this.#storage, key, ref), this.#tables);
    this.#segments.set(ref.hash, new WeakRef(segment));
    return segment;
  }

  #liveSegments(): Segment[] {
    return [...this.#segments.values()].flatMap((reference) => reference.deref() ?? []);
  }

  /** Drops labels that no live segment uses. Requests under way keep their segments alive. */
  #forgetLabels(): void {
    for (const [hash, reference] of this.#segments) if (!reference.deref()) this.#segments.delete(hash);
    for (const { field } of labelFields) {
      const columns = this.#liveSegments().flatMap((segment) => segment.labels.get(field) ?? []);
      const live = columns.flatMap((column) => [column.frequentIds, column.rareIds]);
      this.#tables[field] = retained(this.#tables[field], live);
    }
  }

  #checkedAtBy(bytes: Buffer | undefined): string | undefined {
    const checked = bytes && unseal(layout.checked, bytes, Checked);
    const { commit, publishedAt } = this.#current?.commit ?? {};
    const believed = checked && this.#reader.believesRun(checked, this.log.newest?.entry.commit ?? 0);
    // The record of a run that ended with another commit says nothing of this one.
    if (believed && checked.commit === commit) return checked.checkedAt;
    // Nor may a forged record make the data look older than it is known to be.
    return [this.#checkedAt, publishedAt]
      .filter((time) => time !== undefined)
      .sort()
      .at(-1);
  }
}

function heldBack({ entry }: Commit, fault: ObjectError): ObjectError {
  if (fault instanceof FormatError) return fault;
  const reason =
    `its snapshot is not shown whole: ${fault.message}; put that object back, publish again, or run ` +
    "verify --repair --sources SOURCES";
  return new CorruptObjectError(layout.commit(entry.commit), reason, { cause: fault });
}

export const noSnapshot = (message = "No snapshot is loaded yet; try again in a few seconds.") =>
  new Fault("SNAPSHOT_UNAVAILABLE", message);
