import {
  type Commit,
  type NamedObject,
  type ObjectRef,
  type SegmentRef,
  type SourceFileRef,
  SourceFiles,
} from "../../schemas/store/stored-objects.ts";
import { firstWhere } from "../format/first-where.ts";
import type { Page } from "../format/page.ts";
import { longIdHash, mayShare, requireIds } from "../index/id-table.ts";
import { addRowsByFile, decodeOrigins, type Origins } from "../index/origin-table.ts";
import type { FileNumbers, KeyRange, KnownFiles } from "../sources/sources.ts";
import { type CorruptObjectError, isLoss, MissingObjectError, ObjectError, unless } from "../store/errors.ts";
import { inParallel } from "../store/in-parallel.ts";
import { layout, manifestPrefixes, privateTree } from "../store/layout.ts";
import { readParts } from "../store/manifest.ts";
import { besideSegment, type KnownManifest, namedBy, parseObject, readObject } from "../store/objects.ts";
import { listedOnce, type Storage } from "../store/storage.ts";
import type { RunLog } from "../trust/log/believe.ts";
import {
  type PreviousPage,
  PreviousRows,
  type PreviousSegment,
  pageIndexOf,
  pagesIn,
  placePages,
  readDigests,
  readPreviousPages,
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
 * The current snapshot as a publish run sees it: which of its rows, pages and segments the store still has, so that the
 * new snapshot can reuse them.
 */
export class PreviousSnapshot {
  readonly commit: Commit;
  readonly manifest: KnownManifest;
  /** The store, whose private tree was listed once, before the run wrote anything. */
  readonly listed: Storage;
  /** From the oldest. */
  readonly pages: readonly PreviousPage[];
  readonly rows: PreviousRows;
  readonly #storage: Storage;
  readonly #present: Map<string, number>;
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
    this.#storage = storage;
    this.#present = present;
    this.#objects = objects;
    this.pages = placePages(segments, present, this.markets);
    this.rows = new PreviousRows(storage, segments, this.pages);
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
    const manifest = await readParts(storage, commit, { lost });
    const listed = listedOnce(storage, privateTree);
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

  /**
   * Bytes by key of the snapshot's objects that the store has. Those that turn out damaged when `knownFiles` or
   * `markKeptRows` reads them are removed.
   */
  get present(): ReadonlyMap<string, number> {
    return this.#present;
  }

  /** Whether the store has all of them, as far as they were read. */
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

  /**
   * The source files of which the store still has all rows. Undefined where the manifest does not name its files, or
   * what it refers to is gone or damaged.
   */
  async knownFiles(): Promise<KnownFiles | undefined> {
    const { sources, rowDigests } = this.manifest;
    if (!sources) return undefined;
    const list = await this.#readIfSound(layout.sourceFiles(sources.hash), sources, (key, bytes) =>
      parseObject(key, bytes, SourceFiles),
    );
    if (!list) return undefined;
    const { files } = list;
    if (this.complete) return { rowDigests, files };
    const rows = new Map<string, number>();
    for (const segment of this.#segments) {
      const origins = await this.#originsOf(segment);
      if (!origins) continue;
      for (const { usable, page, start } of pagesIn(segment, this.pages)) {
        const from = start - segment.start;
        const places = origins.places.subarray(from, from + page.markets);
        if (usable) addRowsByFile(rows, { ...origins, places });
      }
    }
    const whole = ({ hash, rows: all }: SourceFileRef) => (rows.get(hash) ?? 0) === all;
    return { rowDigests, files: files.filter(whole) };
  }

  /**
   * Writes the numbers of unchanged files, given by hash, at the ordinals of their rows. Returns, by the segment's
   * hash, the origins of those segments whose files are all unchanged.
   */
  async markKeptRows(
    numbers: ReadonlyMap<string, number>,
    kept: FileNumbers,
  ): Promise<Map<string, ObjectRef>> {
    const same = new Map<string, ObjectRef>();
    await inParallel(this.#segments, async (segment) => {
      const { ref, start } = segment;
      const origins = await this.#originsOf(segment);
      if (!origins) return;
      const numberOf = origins.hashes.map((hash) => numbers.get(hash) ?? 0);
      if (!numberOf.includes(0)) same.set(ref.hash, ref.origins!);
      for (let row = 0; row < ref.markets; row += 1) kept[start + row] = numberOf[origins.places[row]!]!;
    });
    return same;
  }

  /** Whether a kept row's id has one of these long hashes, which ascend. */
  async holdsAnyOf(idHashes: Float64Array, kept: FileNumbers): Promise<boolean> {
    for (const { ref, start } of this.#segments) {
      const rows = kept.subarray(start, start + ref.markets);
      if (!rows.some((file) => file > 0)) continue;
      const key = layout.ids(ref.ids.hash);
      const ids = await readObject(this.#storage, key, ref.ids);
      requireIds(key, ids, ref.markets);
      for (const ordinal of mayShare(ids, idHashes)) {
        if (rows[ordinal] === 0) continue;
        // The store has only a part of each hash. Few other ids share it.
        const hash = longIdHash(await this.rows.idOf(start + ordinal));
        const position = firstWhere(0, idHashes.length, (index) => idHashes[index]! >= hash);
        if (idHashes[position] === hash) return true;
      }
    }
    return false;
  }

  /** Undefined unless the store has the origins and every other object beside the segment. */
  async #originsOf({ ref }: PreviousSegment): Promise<Origins | undefined> {
    const { origins } = ref;
    if (!origins || !besideSegment(ref).every(([key]) => this.#present.has(key))) return undefined;
    return this.#readIfSound(layout.origins(origins.hash), origins, (key, bytes) =>
      decodeOrigins(key, bytes, ref.markets),
    );
  }

  /**
   * Reads an object that only spares the run from reading sources. A damaged one counts as missing, so that the run
   * writes it again.
   */
  async #readIfSound<T>(
    key: string,
    ref: ObjectRef,
    decode: (key: string, bytes: Buffer) => T,
  ): Promise<T | undefined> {
    if (!this.#present.has(key)) return undefined;
    const read = async () => decode(key, await readObject(this.#storage, key, ref));
    return unless(ObjectError, read, () => void this.#present.delete(key));
  }

  /**
   * Yields digests of the source rows that are not `kept` and may be in the range, segment by segment from ordinal
   * `start`. Other rows, and those of missing objects, have 0 or no segment.
   */
  async *rowDigests(
    kept: FileNumbers,
    range?: KeyRange,
  ): AsyncGenerator<{ start: number; digests: BigUint64Array }> {
    for (const segment of this.#segments) {
      if (range && !overlaps(segment, range)) continue;
      const { ref, start } = segment;
      const rows = kept.subarray(start, start + ref.markets);
      if (!rows.includes(0)) continue;
      if (!besideSegment(ref).every(([key]) => this.#present.has(key))) continue;
      const digests = await readDigests(this.#storage, ref);
      rows.forEach((file, row) => {
        if (file > 0) digests[row] = 0n;
      });
      for (const { page, start: pageStart, usable } of pagesIn(segment, this.pages)) {
        if (!usable) digests.fill(0n, pageStart - start, pageStart - start + page.markets);
      }
      yield { start, digests };
    }
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

/** Whether some of a segment's markets may be in a range. */
function overlaps({ pages }: PreviousSegment, { from, before }: KeyRange): boolean {
  const [oldest, newest] = [pages[0]?.oldest ?? 0, pages.at(-1)?.newest ?? 0];
  return (from?.resolvedAt ?? newest) <= newest && oldest <= (before?.resolvedAt ?? oldest);
}
