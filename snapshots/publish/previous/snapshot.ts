import type { Commit, NamedObject, SegmentRef } from "../../../schemas/store/snapshot.ts";
import type { Page } from "../../format/page.ts";
import { type CorruptObjectError, isLoss, MissingObjectError } from "../../store/errors.ts";
import { inParallel } from "../../store/in-parallel.ts";
import { layout, manifestPrefixes, privateTree } from "../../store/layout.ts";
import { readParts } from "../../store/manifest.ts";
import { besideSegment, type KnownManifest, namedBy, readObject } from "../../store/objects.ts";
import type { Storage } from "../../store/storage.ts";
import { listedOnce } from "../../store/storage.ts";
import {
  type PreviousPage,
  PreviousRows,
  type PreviousSegment,
  pageIndexOf,
  placePages,
  readPreviousPages,
} from "./rows.ts";
import { PreviousSources } from "./sources.ts";

type Damaged = (error: CorruptObjectError | MissingObjectError) => void;

/**
 * The current snapshot as a publish run sees it: which of its rows, pages and segments the store still has, so that the
 * new snapshot can reuse them.
 */
export class PreviousSnapshot {
  readonly commit: Commit;
  readonly manifest: KnownManifest;
  /** The store, whose private tree was listed once, before the run wrote anything. */
  readonly listed: Storage;
  /**
   * Bytes by key of the snapshot's objects that the store has. Those that turn out damaged when `sources` are read are
   * removed.
   */
  readonly present: ReadonlyMap<string, number>;
  /** From the oldest. */
  readonly pages: readonly PreviousPage[];
  readonly rows: PreviousRows;
  readonly sources: PreviousSources;
  readonly #objects: number;
  readonly #segments: readonly PreviousSegment[];
  readonly #byRoot = new Map<string, Page>();

  private constructor(
    { storage, listed }: Record<"storage" | "listed", Storage>,
    commit: Commit,
    manifest: KnownManifest,
    segments: readonly PreviousSegment[],
    { present, objects }: { present: Map<string, number>; objects: number },
  ) {
    this.commit = commit;
    this.manifest = manifest;
    this.listed = listed;
    this.present = present;
    this.#objects = objects;
    this.pages = placePages(segments, present, this.markets);
    this.rows = new PreviousRows(storage, segments, this.pages);
    const isComplete = () => this.complete;
    this.sources = new PreviousSources(storage, {
      manifest,
      segments,
      pages: this.pages,
      rows: this.rows,
      present,
      isComplete,
    });
    this.#segments = segments;
    for (const { page, usable } of this.pages) if (usable) this.#byRoot.set(page.root, page);
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
    const absent = new Set(faulty);
    const lost: Damaged = (error) => {
      if (!absent.has(error.key)) damaged(error);
      absent.add(error.key);
    };
    const { lists, ...root } = await readParts(storage, commit, { lost });
    const listed = listedOnce(storage, privateTree);
    const manifest = { ...root, segments: lists.flatMap((list) => list ?? []) };
    const named = namedBy(manifest);
    const present = await presentOf(listed, named, manifestPrefixes, absent);
    const tables = new Map<SegmentRef, PageTable>();
    await inParallel(manifest.segments, async (ref) => {
      const key = layout.segment(ref.hash);
      const table = present.has(key) ? await readPagesIfSound(storage, key, ref, damaged) : undefined;
      if (table) tables.set(ref, table);
      else present.delete(key);
    });
    const segments: PreviousSegment[] = [];
    let [start, firstPage] = [0, 0];
    for (const ref of manifest.segments) {
      const table = tables.get(ref);
      if (table) {
        segments.push({ ref, start, firstPage, ...table });
        firstPage += table.pages.length;
      }
      start += ref.markets;
    }
    const pages = segments.flatMap((segment) => segment.pages);
    const wanted = new Map(pages.map((page) => [layout.page(page.hash), page]));
    const presentPages = await presentOf(listed, wanted, [layout.page.prefix], faulty);
    return new PreviousSnapshot({ storage, listed }, commit, manifest, segments, {
      present: new Map([...present, ...presentPages]),
      objects: named.size + wanted.size,
    });
  }

  /** As `read`, but returns undefined when the manifest is gone or damaged. */
  static async readIfKept(
    storage: Storage,
    commit: Commit,
    faulty?: ReadonlySet<string>,
    damaged: Damaged = () => {},
  ): Promise<PreviousSnapshot | undefined> {
    try {
      return await PreviousSnapshot.read(storage, commit, faulty, damaged);
    } catch (error) {
      if (error instanceof MissingObjectError) return undefined;
      if (!isLoss(error)) throw error;
      damaged(error);
      return undefined;
    }
  }

  /** Whether an error says that an object of the snapshot, which the store lists, is damaged or gone. */
  isHurtBy(error: unknown): error is CorruptObjectError | MissingObjectError {
    return isLoss(error) && this.present.has(error.key);
  }

  get complete(): boolean {
    return this.present.size === this.#objects;
  }

  /** How many segments lack a column for a filter of this version. */
  get unindexed(): number {
    return this.#segments.filter(({ indexed }) => !indexed).length;
  }

  /** The markets of the segments that its lists name, which may be fewer than it has where one is lost. */
  get markets(): number {
    return this.manifest.segments.reduce((sum, { markets }) => sum + markets, 0);
  }

  /** The page with exactly these old rows, given by ordinal from the oldest. */
  pageOf(ordinals: readonly (number | undefined)[]): { index: number; page: Page } | undefined {
    const first = ordinals[0];
    if (first === undefined) return undefined;
    const index = pageIndexOf(this.pages, first);
    const { page, start } = this.pages[index]!;
    const same = start === first && page.markets === ordinals.length;
    return same && ordinals.every((ordinal, n) => ordinal === first + n) ? { index, page } : undefined;
  }

  /** A stored page with these markets, at any position. */
  pageWithRoot(root: string): Page | undefined {
    return this.#byRoot.get(root);
  }

  /** The segment with exactly these old pages, given by index from the oldest. */
  segmentOf(pageIndexes: readonly (number | undefined)[]): SegmentRef | undefined {
    const segment = this.#segments.find(({ firstPage }) => firstPage === pageIndexes[0]);
    const same = segment?.indexed && segment.pages.length === pageIndexes.length;
    if (!same || !pageIndexes.every((index, n) => index === segment.firstPage + n)) return undefined;
    const stored = besideSegment(segment.ref).every(([key]) => this.present.has(key));
    return stored ? segment.ref : undefined;
  }
}

type PageTable = ReturnType<typeof readPreviousPages>;

/** Undefined where the segment is damaged or gone. */
async function readPagesIfSound(storage: Storage, key: string, ref: SegmentRef, damaged: Damaged) {
  try {
    return readPreviousPages(key, await readObject(storage, key, ref));
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
