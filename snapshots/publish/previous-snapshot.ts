import type { Commit, NamedObject, ObjectRef, SegmentRef } from "../../schemas/store/stored-objects.ts";
import type { Page } from "../format/page.ts";
import { type CorruptObjectError, isLoss, MissingObjectError, ObjectError, unless } from "../store/errors.ts";
import { inParallel } from "../store/in-parallel.ts";
import { layout, manifestPrefixes, privateTree } from "../store/layout.ts";
import { readParts } from "../store/manifest.ts";
import { besideSegment, type KnownManifest, namedBy, readObject } from "../store/objects.ts";
import { listedOnce, type Storage } from "../store/storage.ts";
import type { RunLog } from "../trust/log/believe.ts";
import {
  type PageTable,
  type PreviousPage,
  PreviousRows,
  type PreviousSegment,
  placeSegments,
  readPageTable,
} from "./previous-rows.ts";

/** What a run builds on. */
export interface Before {
  /** The log as it was when the run began, up to the current commit. */
  log: RunLog;
  /** The snapshot of that commit, unless there is none or its manifest is gone or damaged. */
  previous: PreviousSnapshot | undefined;
}

type Damaged = (error: CorruptObjectError | MissingObjectError) => void;

/**
 * The current snapshot as a publish run sees it: which of its objects the store still has, so that the new snapshot can
 * reuse them.
 */
export class PreviousSnapshot {
  readonly commit: Commit;
  readonly manifest: KnownManifest;
  /** The store, whose private tree was listed once, before the run wrote anything. */
  readonly listed: Storage;
  /** Those that can be read, from the oldest. */
  readonly segments: readonly PreviousSegment[];
  readonly rows: PreviousRows;
  /** Pages that the store has, at any position, by the root of their markets. */
  readonly pageByRoot: ReadonlyMap<string, Page>;
  readonly #storage: Storage;
  readonly #present: Map<string, number>;
  /** How many objects the manifest and its segments name. */
  readonly #named: number;

  private constructor(
    { storage, listed }: Record<"storage" | "listed", Storage>,
    commit: Commit,
    manifest: KnownManifest,
    segments: readonly PreviousSegment[],
    { present, named }: { present: Map<string, number>; named: number },
  ) {
    this.commit = commit;
    this.manifest = manifest;
    this.listed = listed;
    this.segments = segments;
    this.rows = new PreviousRows(storage, segments);
    this.pageByRoot = new Map(
      this.rows.pages.flatMap((page) => (page.usable ? [[page.root, page] as const] : [])),
    );
    this.#storage = storage;
    this.#present = present;
    this.#named = named;
  }

  /**
   * Reads the snapshot of a commit. Missing or `faulty` objects are left out, so that they are written again. So are
   * lost parts of the manifest, and parts and segments that turn out damaged; `damaged` is told of these. Only the
   * manifest's own object must be there.
   */
  static async read(
    storage: Storage,
    commit: Commit,
    faulty: ReadonlySet<string> = new Set(),
    damaged: Damaged = (error) => {
      throw error;
    },
  ): Promise<PreviousSnapshot> {
    const key = layout.manifest(commit.manifest.hash);
    if (faulty.has(key)) throw new MissingObjectError(key);
    const without = new Set(faulty);
    const manifest = await readParts(storage, commit, (error) => {
      if (!without.has(error.key)) damaged(error);
      without.add(error.key);
    });
    const listed = listedOnce(storage, privateTree);
    const named = namedBy(manifest);
    const present = await presentOf(listed, named, manifestPrefixes, without);
    const tables = new Map<SegmentRef, PageTable>();
    await inParallel(manifest.segments, async (ref) => {
      const key = layout.segment(ref.hash);
      const readTable = async () => readPageTable(key, await readObject(storage, key, ref));
      const table = present.has(key) ? await unlessLost(damaged, readTable) : undefined;
      if (table) tables.set(ref, table);
      else present.delete(key);
    });
    const pages = [...tables.values()].flatMap((table) => table.pages);
    const wanted = new Map(pages.map((page) => [layout.page(page.hash), page]));
    const presentPages = await presentOf(listed, wanted, [layout.page.prefix], faulty);
    const segments = placeSegments(manifest.segments, tables, presentPages);
    return new PreviousSnapshot({ storage, listed }, commit, manifest, segments, {
      present: new Map([...present, ...presentPages]),
      named: named.size + wanted.size,
    });
  }

  /** As `read`, but returns undefined when the manifest is gone or damaged. */
  static readIfKept(
    storage: Storage,
    commit: Commit,
    faulty?: ReadonlySet<string>,
    damaged: Damaged = () => {},
  ): Promise<PreviousSnapshot | undefined> {
    return unlessLost(damaged, () => PreviousSnapshot.read(storage, commit, faulty, damaged));
  }

  /** Whether an error says that an object of the snapshot, which the store lists, is damaged or gone. */
  isDamage(error: unknown): error is CorruptObjectError | MissingObjectError {
    return isLoss(error) && this.present.has(error.key);
  }

  /** Bytes by key of the snapshot's objects that the store has, without those that `readIfSound` found damaged. */
  get present(): ReadonlyMap<string, number> {
    return this.#present;
  }

  /** Keys of the objects that are there, and of the manifest itself, which was read. */
  get keys(): ReadonlySet<string> {
    return new Set([...this.#present.keys(), layout.manifest(this.commit.manifest.hash)]);
  }

  /** Whether the store has every object that the manifest and its segments name. */
  get complete(): boolean {
    return this.#present.size === this.#named;
  }

  /** Whether the pages of all its markets are known. Those of a segment that is gone are not. */
  get knowsPages(): boolean {
    const known = this.rows.pages.reduce((sum, { markets }) => sum + markets, 0);
    return known === this.commit.entry.counts.markets;
  }

  /** How many segments lack a column for a filter of this version. */
  get unindexed(): number {
    return this.segments.filter(({ indexed }) => !indexed).length;
  }

  /** The markets of the segments that the lists name: fewer than the snapshot has where a list is lost. */
  get markets(): number {
    return this.manifest.segments.reduce((sum, { markets }) => sum + markets, 0);
  }

  /** The page with exactly these old rows, given by ordinal from the oldest. */
  pageOf(ordinals: readonly (number | undefined)[]): PreviousPage | undefined {
    const [first] = ordinals;
    if (first === undefined) return undefined;
    const page = this.rows.pageAt(first);
    const same = page.start === first && page.markets === ordinals.length;
    return same && ordinals.every((ordinal, n) => ordinal === first + n) ? page : undefined;
  }

  /** The segment with exactly these old pages, from the oldest. */
  segmentOf(pages: readonly Page[]): SegmentRef | undefined {
    const segment = this.segments.find((each) => each.pages[0] === pages[0]);
    const same = segment?.indexed && segment.pages.length === pages.length;
    if (!same || !pages.every((page, n) => page === segment.pages[n])) return undefined;
    return this.hasBeside(segment.ref) ? segment.ref : undefined;
  }

  hasBeside(ref: SegmentRef): boolean {
    return besideSegment(ref).every(([key]) => this.#present.has(key));
  }

  /**
   * Reads an object that only spares the run from reading sources. A damaged one counts as missing, so that the run
   * writes it again.
   */
  async readIfSound<T>(
    key: string,
    ref: ObjectRef,
    decode: (key: string, bytes: Buffer) => T,
  ): Promise<T | undefined> {
    if (!this.#present.has(key)) return undefined;
    const read = async () => decode(key, await readObject(this.#storage, key, ref));
    return unless(ObjectError, read, () => void this.#present.delete(key));
  }
}

/** Undefined where the work meets an object that is gone, or damaged, of which `damaged` is told. */
async function unlessLost<T>(damaged: Damaged, work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    if (!isLoss(error)) throw error;
    if (!(error instanceof MissingObjectError)) damaged(error);
    return undefined;
  }
}

/** The wanted objects that the store lists, with the right size where it is told, and that are not `faulty`. */
async function presentOf(
  storage: Storage,
  wanted: ReadonlyMap<string, NamedObject>,
  prefixes: readonly string[],
  faulty: ReadonlySet<string>,
): Promise<Map<string, number>> {
  const present = new Map<string, number>();
  await inParallel(prefixes, async (prefix) => {
    for await (const { key, bytes } of storage.list(prefix)) {
      const named = wanted.get(key);
      if (named && (named.bytes ?? bytes) === bytes && !faulty.has(key)) present.set(key, bytes);
    }
  });
  return present;
}
