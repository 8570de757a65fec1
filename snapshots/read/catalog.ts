import { LRUCache } from "lru-cache";
import { labelFields } from "../../schemas/filters.ts";
import { Checked, type Commit, type Manifest, type SegmentRef } from "../../schemas/snapshot.ts";
import { createLabelTables, type LabelTables, loadSegment, type Segment } from "../index/segment.ts";
import { newestCommit, readCommit } from "../store/commits.ts";
import { CorruptObjectError } from "../store/corrupt-object.ts";
import { layout } from "../store/layout.ts";
import { MissingObjectError, readManifest, readObject } from "../store/objects.ts";
import { unseal } from "../store/sealed.ts";
import type { Storage } from "../store/storage.ts";
import { Archive } from "./archive.ts";
import { DerivedCache } from "./derived-cache.ts";
import { NoSnapshotError } from "./errors.ts";
import { ObjectCache } from "./object-cache.ts";
import { PageCache } from "./page-cache.ts";
import type { Snapshot } from "./snapshot.ts";

// A walk recompresses the runs at both ends of its pages; those are about a fifth of the bytes it copies.
const derivedShare = 1 / 8;
// A cached response keeps its stored pages in memory even after the object cache evicted them.
const pageShare = 3 / 8;
/** Snapshots kept in memory for walks with a cursor. They share segments. Others are loaded from the store again. */
const maxSnapshots = 24;

/** The snapshots of one store. Keeps serving the last good one while the store fails. */
export class Catalog {
  /** Stored pages and score objects. */
  readonly objects: ObjectCache;
  /** Values computed from stored pages. */
  readonly derived: DerivedCache;
  /** Pages of responses, ready to send. */
  readonly pages: PageCache;
  readonly #storage: Storage;
  readonly #tables: LabelTables = createLabelTables();
  /** Segments by hash. Snapshots share them, and memory is freed with the last snapshot that holds a segment. */
  readonly #segments = new Map<string, WeakRef<Segment>>();
  readonly #snapshots: LRUCache<number, Snapshot>;
  #current: Snapshot | undefined;
  #checkedAt: string | undefined;

  /** `cacheBytes` bounds the three caches together; the indexes come on top. */
  constructor(storage: Storage, { cacheBytes }: { cacheBytes: number }) {
    this.#storage = storage;
    const share = (part: number) => Math.max(1, Math.floor(cacheBytes * part));
    this.objects = new ObjectCache(storage, share(1 - derivedShare - pageShare));
    this.derived = new DerivedCache(share(derivedShare));
    this.pages = new PageCache(share(pageShare));
    this.#snapshots = new LRUCache<number, Snapshot>({
      max: maxSnapshots,
      fetchMethod: (number) => this.#findInStore(number),
      // Several requests may wait for this snapshot; an eviction must not abort it for them.
      ignoreFetchAbort: true,
    });
  }

  /** The snapshot that `refresh` loaded last; undefined before the first one. */
  current(): Snapshot | undefined {
    return this.#current;
  }

  /** The snapshot that `refresh` loaded last. Throws NoSnapshotError before the first one. */
  requireCurrent(): Snapshot {
    if (this.#current) return this.#current;
    throw new NoSnapshotError();
  }

  /** Older snapshots that are in memory and were not withdrawn, newest first. */
  superseded(): Snapshot[] {
    const { commit: newest = 0 } = this.#current?.commit ?? {};
    const held = [...this.#snapshots.values()].filter(({ commit }) => commit.commit < newest);
    return held
      .filter(({ commit }) => !this.#isWithdrawn(commit.commit))
      .sort((a, b) => b.commit.commit - a.commit.commit);
  }

  /** When the newest publish run succeeded (ISO 8601): from checked.json, or the current commit's `publishedAt`. */
  checkedAt(): string | undefined {
    return this.#checkedAt;
  }

  /** Bytes that the indexes of all snapshots in memory take. */
  residentBytes(): number {
    const held = [...this.#liveSegments(), ...Object.values(this.#tables)];
    return held.reduce((sum, { residentBytes }) => sum + residentBytes, 0);
  }

  /**
   * Loads the newest commit of the store. Throws CorruptObjectError, MissingObjectError or StorageError when that fails,
   * or when the store's newest commit is older than the current one. The current snapshot then stays.
   */
  async refresh(): Promise<void> {
    const held = this.#current?.commit.commit ?? 0;
    const commit = await newestCommit(this.#storage, held);
    if (commit && commit.commit < held)
      throw new CorruptObjectError(layout.commit(held), `it is gone, and commit ${commit.commit} the newest`);
    if (commit && commit.digest !== this.#current?.commit.digest) {
      this.#current = await this.#load(commit);
      this.#snapshots.set(commit.commit, this.#current);
      this.pages.clear();
    }
    this.#checkedAt = await this.#readChecked();
  }

  /** The snapshot of a commit, from memory or the store; undefined when it was withdrawn or collected. */
  async find(commit: number, snapshotId: string): Promise<Snapshot | undefined> {
    if (this.#isWithdrawn(commit)) return undefined;
    const isCurrent = this.#current?.commit.commit === commit;
    const snapshot = isCurrent ? this.#current : await this.#snapshots.fetch(commit);
    return snapshot?.commit.snapshotId === snapshotId ? snapshot : undefined;
  }

  /** The newest commit of the store, which `refresh` may not have loaded yet. */
  newestCommit(): Promise<Commit | undefined> {
    return newestCommit(this.#storage, this.#current?.commit.commit);
  }

  /** The manifest of a commit's snapshot. Throws MissingObjectError when it was collected. */
  manifest(commit: Commit): Promise<Manifest> {
    return readManifest(this.#storage, commit.manifest);
  }

  /** A commit of the store's log, even when its snapshot was collected. */
  commit(number: number): Promise<Commit | undefined> {
    return readCommit(this.#storage, number);
  }

  /** A rollback withdraws commits. Walks that began in one of them end too. */
  #isWithdrawn(commit: number): boolean {
    const withdrawn = this.#current?.commit.withdrawn ?? [];
    return withdrawn.some(([first, last]) => first <= commit && commit <= last);
  }

  async #findInStore(number: number): Promise<Snapshot | undefined> {
    const commit = await readCommit(this.#storage, number);
    try {
      return commit && (await this.#load(commit));
    } catch (error) {
      // The snapshot was collected. Any other error is the store's and must be reported.
      if (error instanceof MissingObjectError) return undefined;
      throw error;
    }
  }

  /** Loads and verifies a whole snapshot. Readers see it only once it is complete. */
  async #load(commit: Commit): Promise<Snapshot> {
    const manifest = await readManifest(this.#storage, commit.manifest);
    const segments: Segment[] = [];
    for (const ref of manifest.segments) segments.push(await this.#loadSegment(ref));
    const snapshot = { commit, manifest, archive: new Archive(segments, this.#tables) };
    this.#forgetLabels();
    return snapshot;
  }

  async #loadSegment(ref: SegmentRef): Promise<Segment> {
    const known = this.#segments.get(ref.hash)?.deref();
    if (known) return known;
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
      const columns = this.#liveSegments().map((segment) => segment.labels.get(field)!);
      this.#tables[field].retain(columns.flatMap((column) => [column.frequentIds, column.rareIds]));
    }
  }

  async #readChecked(): Promise<string | undefined> {
    const bytes = await this.#storage.get(layout.checked, { maxBytes: 4096 });
    const checkedAt = bytes && unseal(layout.checked, bytes, Checked).checkedAt;
    return checkedAt ?? this.#current?.commit.publishedAt;
  }
}
