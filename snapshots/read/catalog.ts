import { LRUCache } from "lru-cache";
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
import { ObjectCache } from "./object-cache.ts";
import { PageCache } from "./page-cache.ts";

/** A snapshot that is whole: every index loaded and verified. */
export interface Snapshot {
  commit: Commit;
  manifest: Manifest;
  archive: Archive;
}

// The ends of the runs that a walk cuts are about a fifth of what it copies.
const derivedShare = 1 / 8;
// Pages that are asked for again hold stored pages that may be gone from the cache of those.
const pageShare = 3 / 8;
/** Snapshots kept in memory for pinned walks; they share segments, and the store still has the others. */
const maxSnapshots = 24;

/** The snapshots of one store, as a reader sees them. Keeps the last good one when the store fails. */
export class Catalog {
  /** Pages and private objects of its snapshots. */
  readonly objects: ObjectCache;
  /** What was worked out from those pages. */
  readonly derived: DerivedCache;
  /** Pages of answers. */
  readonly pages: PageCache;
  readonly #storage: Storage;
  readonly #tables: LabelTables = createLabelTables();
  /** Segments by hash, shared by the snapshots that have them and gone with the last of those. */
  readonly #segments = new Map<string, WeakRef<Segment>>();
  readonly #snapshots: LRUCache<number, Snapshot>;
  readonly #loading = new Map<number, Promise<Snapshot | undefined>>();
  #current: Snapshot | undefined;
  #checkedAt: string | undefined;

  /** `cacheBytes` bounds the stored objects kept in memory. */
  constructor(storage: Storage, { cacheBytes }: { cacheBytes: number }) {
    this.#storage = storage;
    const share = (part: number) => Math.max(1, Math.floor(cacheBytes * part));
    this.objects = new ObjectCache(storage, share(1 - derivedShare - pageShare));
    this.derived = new DerivedCache(share(derivedShare));
    this.pages = new PageCache(share(pageShare));
    this.#snapshots = new LRUCache<number, Snapshot>({ max: maxSnapshots });
  }

  /** The newest snapshot taken up, or undefined before the first. */
  current(): Snapshot | undefined {
    return this.#current;
  }

  /** Snapshots before the current one that are in memory and not withdrawn, newest first. */
  superseded(): Snapshot[] {
    const { commit: newest = 0 } = this.#current?.commit ?? {};
    const held = [...this.#snapshots.values()].filter(({ commit }) => commit.commit < newest);
    return held
      .filter(({ commit }) => !this.#isWithdrawn(commit.commit))
      .sort((a, b) => b.commit.commit - a.commit.commit);
  }

  /** When the newest publish run succeeded, as checked.json tells, or else the current commit; ISO 8601. */
  checkedAt(): string | undefined {
    return this.#checkedAt;
  }

  /** Bytes of index in memory, over all snapshots held. */
  residentBytes(): number {
    const segments = this.#liveSegments().reduce((sum, segment) => sum + segment.residentBytes, 0);
    return segments + this.#tables.category.residentBytes + this.#tables.outcome.residentBytes;
  }

  /** Takes up the newest commit of the store. Throws, and keeps what it has, when that fails or would go back. */
  async refresh(): Promise<void> {
    const held = this.#current?.commit.commit ?? 0;
    const commit = await newestCommit(this.#storage, held);
    if (commit && commit.commit < held)
      throw new CorruptObjectError(layout.commit(held), `it is gone, and commit ${commit.commit} the newest`);
    if (commit && commit.digest !== this.#current?.commit.digest) {
      this.#current = await this.#load(commit);
      this.pages.clear();
    }
    this.#checkedAt = await this.#readChecked();
  }

  /** The snapshot of a commit, from memory or the store; undefined when it was withdrawn or is no longer kept. */
  async find(commit: number, snapshotId: string): Promise<Snapshot | undefined> {
    if (this.#isWithdrawn(commit)) return undefined;
    const held = this.#current?.commit.commit === commit ? this.#current : this.#snapshots.get(commit);
    const snapshot = held ?? (await this.#find(commit));
    return snapshot?.commit.snapshotId === snapshotId ? snapshot : undefined;
  }

  /** The newest commit of the store, which may not be taken up yet. */
  newestCommit(): Promise<Commit | undefined> {
    return newestCommit(this.#storage, this.#current?.commit.commit);
  }

  /** What a commit's snapshot consists of. Throws MissingObjectError when it is no longer kept. */
  manifest(commit: Commit): Promise<Manifest> {
    return readManifest(this.#storage, commit.manifest);
  }

  /** A commit of the store's log, whether or not its snapshot is still there. */
  commit(number: number): Promise<Commit | undefined> {
    return readCommit(this.#storage, number);
  }

  /** A rollback takes back what it leaves, also from walks that have begun. */
  #isWithdrawn(commit: number): boolean {
    const withdrawn = this.#current?.commit.withdrawn ?? [];
    return withdrawn.some(([first, last]) => first <= commit && commit <= last);
  }

  /** The snapshot of a commit number, one load at a time. */
  #find(number: number): Promise<Snapshot | undefined> {
    const known = this.#loading.get(number);
    if (known) return known;
    const loading = this.#findInStore(number).finally(() => this.#loading.delete(number));
    this.#loading.set(number, loading);
    return loading;
  }

  async #findInStore(number: number): Promise<Snapshot | undefined> {
    const commit = await readCommit(this.#storage, number);
    try {
      return commit && (await this.#load(commit));
    } catch (error) {
      // Collected objects leave a commit without a snapshot; any other fault is the store's.
      if (error instanceof MissingObjectError) return undefined;
      throw error;
    }
  }

  /** Loads and verifies everything a snapshot needs; nothing is visible before all of it is there. */
  async #load(commit: Commit): Promise<Snapshot> {
    const manifest = await readManifest(this.#storage, commit.manifest);
    const segments: Segment[] = [];
    for (const ref of manifest.segments) segments.push(await this.#loadSegment(ref));
    const snapshot = { commit, manifest, archive: new Archive(segments, this.#tables) };
    this.#snapshots.set(commit.commit, snapshot);
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

  /** Lets go of labels that no reachable segment has; those of a request under way are reachable through it. */
  #forgetLabels(): void {
    for (const [hash, reference] of this.#segments) if (!reference.deref()) this.#segments.delete(hash);
    for (const field of ["category", "outcome"] as const) {
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
