import type { Commit, NamedObject, ObjectRef, SegmentRef } from "../../schemas/store/stored-objects.ts";
import type { Page } from "../format/page.ts";
import { type CorruptObjectError, isLoss, MissingObjectError, ObjectError, unless } from "../store/errors.ts";
import { inParallel } from "../store/in-parallel.ts";
import { layout, manifestPrefixes, privateTree } from "../store/layout.ts";
import { readParts } from "../store/manifest.ts";
import { besideSegment, namedBy, readObject } from "../store/objects.ts";
import { listedOnce, type Storage } from "../store/storage.ts";
import type { RunLog } from "../trust/log/believe.ts";
import {
  type PageTable,
  type PreviousPage,
  placeSegments,
  previousRows,
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
export type PreviousSnapshot = Awaited<ReturnType<typeof readPrevious>>;

/**
 * Reads the snapshot of a commit. Missing or `faulty` objects are left out, so that they are written again. So are lost
 * parts of the manifest, and parts and segments that turn out damaged; `damaged` is told of these. Only the manifest's
 * own object must be there.
 */
export async function readPrevious(
  storage: Storage,
  commit: Commit,
  faulty: ReadonlySet<string> = new Set(),
  damaged: Damaged = (error) => {
    throw error;
  },
) {
  const manifestKey = layout.manifest(commit.manifest.hash);
  if (faulty.has(manifestKey)) throw new MissingObjectError(manifestKey);
  const without = new Set(faulty);
  const manifest = await readParts(storage, commit, (error) => {
    if (!without.has(error.key)) damaged(error);
    without.add(error.key);
  });
  const listed = listedOnce(storage, privateTree);
  /** The wanted objects that the store lists, with the right size where it is told. */
  const presentOf = async (wanted: ReadonlyMap<string, NamedObject>, prefixes: readonly string[]) => {
    const present = new Map<string, number>();
    await inParallel(prefixes, async (prefix) => {
      for await (const { key, bytes } of listed.list(prefix)) {
        const named = wanted.get(key);
        if (named && (named.bytes ?? bytes) === bytes && !without.has(key)) present.set(key, bytes);
      }
    });
    return present;
  };
  const named = namedBy(manifest);
  const present = await presentOf(named, manifestPrefixes);
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
  const presentPages = await presentOf(wanted, [layout.page.prefix]);
  // A getter that named `wanted` would keep the names of all pages in memory.
  const wantedObjects = named.size + wanted.size;
  const segments = placeSegments(manifest.segments, tables, presentPages);
  for (const [key, bytes] of presentPages) present.set(key, bytes);
  const rows = previousRows(storage, segments);
  const sum = (all: readonly { markets: number }[]) => all.reduce((total, { markets }) => total + markets, 0);
  const hasBeside = (ref: SegmentRef) => besideSegment(ref).every(([key]) => present.has(key));
  return {
    commit,
    manifest,
    /** The store, whose private tree was listed once, before the run wrote anything. */
    listed,
    /** Those that can be read, from the oldest. */
    segments,
    rows,
    /** Pages that the store has, at any position, by the root of their markets. */
    pageByRoot: new Map<string, Page>(
      rows.pages.flatMap((page) => (page.usable ? [[page.root, page] as const] : [])),
    ),
    /** Bytes by key of the snapshot's objects that the store has, without those that `readIfSound` found damaged. */
    present: present as ReadonlyMap<string, number>,
    /** Keys of the objects that are there, and of the manifest itself, which was read. */
    get keys(): ReadonlySet<string> {
      return new Set([...present.keys(), manifestKey]);
    },
    /** Whether the store has every object that the manifest and its segments name. */
    get complete(): boolean {
      return present.size === wantedObjects;
    },
    /** Whether the pages of all its markets are known. Those of a segment that is gone are not. */
    knowsPages: sum(rows.pages) === commit.entry.counts.markets,
    /** How many segments lack a column for a filter of this version. */
    unindexed: segments.filter(({ indexed }) => !indexed).length,
    /** The markets of the segments that the lists name: fewer than the snapshot has where a list is lost. */
    markets: sum(manifest.segments),
    hasBeside,
    /** Whether an error says that an object of the snapshot, which the store lists, is damaged or gone. */
    isDamage: (error: unknown): error is CorruptObjectError | MissingObjectError =>
      isLoss(error) && present.has(error.key),
    /** The page with exactly these old rows, given by ordinal from the oldest. */
    pageOf(ordinals: readonly (number | undefined)[]): PreviousPage | undefined {
      const [first] = ordinals;
      if (first === undefined) return undefined;
      const page = rows.pageAt(first);
      const same = page.start === first && page.markets === ordinals.length;
      return same && ordinals.every((ordinal, n) => ordinal === first + n) ? page : undefined;
    },
    /** The segment with exactly these old pages, from the oldest. */
    segmentOf(pages: readonly Page[]): SegmentRef | undefined {
      const segment = segments.find((each) => each.pages[0] === pages[0]);
      const same = segment?.indexed && segment.pages.length === pages.length;
      if (!same || !pages.every((page, n) => page === segment.pages[n])) return undefined;
      return hasBeside(segment.ref) ? segment.ref : undefined;
    },
    /**
     * Reads an object that only spares the run from reading sources. A damaged one counts as missing, so that the run
     * writes it again.
     */
    async readIfSound<T>(
      key: string,
      ref: ObjectRef,
      decode: (key: string, bytes: Buffer) => T,
    ): Promise<T | undefined> {
      if (!present.has(key)) return undefined;
      const read = async () => decode(key, await readObject(storage, key, ref));
      return unless(ObjectError, read, () => void present.delete(key));
    },
  };
}

/** As `readPrevious`, but returns undefined when the manifest is gone or damaged. */
export const readPreviousIfKept = (
  storage: Storage,
  commit: Commit,
  faulty?: ReadonlySet<string>,
  damaged: Damaged = () => {},
): Promise<PreviousSnapshot | undefined> =>
  unlessLost(damaged, () => readPrevious(storage, commit, faulty, damaged));

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
