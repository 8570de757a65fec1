import { LRUCache } from "lru-cache";
import {
  type Commit,
  type Manifest,
  type ObjectRef,
  type SegmentRef,
  type SourceFileRef,
  SourceFiles,
} from "../../schemas/snapshot.ts";
import { cuts } from "../format/cuts.ts";
import { keyOfLine, type Page, questionOfLine, readRun } from "../format/page.ts";
import { decodeRows } from "../index/decode-rows.ts";
import { decodeIds, sharesHash } from "../index/id-table.ts";
import { decodeOrigins, type Origins } from "../index/origin-table.ts";
import { type IndexRow, readColumns, readPages } from "../index/segment.ts";
import { timeAt } from "../index/time-column.ts";
import { WordTable } from "../index/word-table.ts";
import { unicodeVersion, wordsOf } from "../index/words.ts";
import type { FileNumbers, KnownFiles } from "../sources/sources.ts";
import { layout } from "../store/layout.ts";
import {
  besideSegment,
  MissingObjectError,
  readManifest,
  readObject,
  scoreObjects,
  sourceObjects,
} from "../store/objects.ts";
import { parseObject } from "../store/parse-object.ts";
import type { Storage } from "../store/storage.ts";

/**
 * Bytes of pages' lines that are cached: what a change rewrites is read to compare it and to merge it, and the rows of a
 * rewritten page mostly come from one or two old pages.
 */
const keptLineBytes = 64 * 1024 * 1024;
/** Segments whose rows are cached. */
const keptSegments = 2;

/** Prefixes of the objects that the manifest itself names. */
const namedPrefixes = [
  layout.segments,
  layout.rows,
  layout.origins,
  layout.sourceFiles,
  layout.ids,
  layout.words,
  layout.publicObjects,
  layout.privateObjects,
];

interface PreviousSegment {
  ref: SegmentRef;
  /** What tells the files of its rows, if anything does. */
  origins: ObjectRef | undefined;
  /** Ordinal of its oldest market in the whole archive. */
  start: number;
  firstPage: number;
  pages: (Page & Span)[];
}

/** Times of a page's oldest and newest row, in epoch milliseconds. */
interface Span {
  oldest: number;
  newest: number;
}

/** A page of the current snapshot and its position. */
export interface PreviousPage extends Span {
  page: Page;
  /** Ordinal of its oldest row. */
  start: number;
  /** Whether the store has it. A deleted page must be written again. */
  usable: boolean;
  /**
   * Whether the id of its newest row would end a segment wherever that began; undefined when the page boundaries do not
   * tell.
   */
  endsSegment: boolean | undefined;
}

/** What the objects of a segment hold of a row: index values, source digest, hash of the id, and words of the question. */
export interface StoredRow extends IndexRow {
  digest: bigint;
  idHash: number;
  words: readonly string[];
}

/** The same of all rows of a segment, by ordinal. */
interface StoredRows {
  rows: IndexRow[];
  digests: BigUint64Array;
  idHashes: Float64Array;
  /** Undefined where another version of Unicode made them: one object must not mix two. */
  words: string[][] | undefined;
}

/** A row of the current snapshot. */
export interface OldMarket {
  id: string;
  /** Epoch milliseconds. */
  resolvedAt: number;
  ordinal: number;
  /** JSON text. */
  line: Buffer;
}

/**
 * The current snapshot as a publish run sees it: which of its rows, pages and segments the store still has, so that the
 * new snapshot can reuse them.
 */
export class PreviousSnapshot {
  readonly commit: Commit;
  readonly manifest: Manifest;
  /** Objects of the snapshot that the store has: bytes by key. */
  readonly present: ReadonlyMap<string, number>;
  /** Whether the store has all of them. */
  readonly complete: boolean;
  readonly #storage: Storage;
  readonly #segments: readonly PreviousSegment[];
  readonly #pages: readonly PreviousPage[];
  readonly #byRoot = new Map<string, Page>();
  readonly #lines = new LRUCache<number, Buffer[]>({
    maxSize: keptLineBytes,
    sizeCalculation: (lines) => lines.reduce((sum, { length }) => sum + length, 0),
  });
  readonly #rows = new LRUCache<number, StoredRows>({ max: keptSegments });

  private constructor(
    storage: Storage,
    commit: Commit,
    manifest: Manifest,
    segments: readonly PreviousSegment[],
    { present, complete }: { present: ReadonlyMap<string, number>; complete: boolean },
  ) {
    this.#storage = storage;
    this.commit = commit;
    this.manifest = manifest;
    this.#segments = segments;
    this.present = present;
    this.complete = complete;
    this.#pages = segments.flatMap(({ ref, start, pages }) => {
      let end = start;
      return pages.map(({ oldest, newest, ...page }, index) => {
        end += page.markets;
        const usable = present.has(layout.page(page.hash));
        // The archive's last page may end without a cut, and a large segment may end because of its size.
        const last = index === pages.length - 1;
        const unknown = last && (end === this.markets || ref.markets + cuts.pageMax > cuts.segmentMax);
        return {
          page,
          start: end - page.markets,
          usable,
          oldest,
          newest,
          endsSegment: unknown ? undefined : last,
        };
      });
    });
    for (const { page, usable } of this.#pages) if (usable) this.#byRoot.set(page.root, page);
  }

  /**
   * Reads the snapshot of a commit. Objects that are missing or `faulty` are left out, so that they are written again;
   * only the manifest must exist. Throws MissingObjectError, CorruptObjectError or StorageError.
   */
  static async read(
    storage: Storage,
    commit: Commit,
    faulty: ReadonlySet<string> = new Set(),
  ): Promise<PreviousSnapshot> {
    const key = layout.manifest(commit.manifest.hash);
    if (faulty.has(key)) throw new MissingObjectError(key);
    const manifest = await readManifest(storage, commit.manifest);
    const named = namedBy(manifest);
    const present = await presentOf(storage, named, namedPrefixes, faulty);
    const segments: PreviousSegment[] = [];
    let [start, firstPage] = [0, 0];
    for (const [index, ref] of manifest.segments.entries()) {
      const key = layout.segment(ref.hash);
      if (present.has(key)) {
        const pages = pagesOf(key, await readObject(storage, key, ref));
        segments.push({ ref, origins: manifest.sources?.origins[index], start, firstPage, pages });
        firstPage += pages.length;
      }
      start += ref.markets;
    }
    const pages = segments.flatMap((segment) => segment.pages);
    const wanted = new Map(pages.map(({ hash, bytes }) => [layout.page(hash), bytes]));
    const presentPages = await presentOf(storage, wanted, [layout.pages], faulty);
    const complete = present.size === named.size && presentPages.size === wanted.size;
    return new PreviousSnapshot(storage, commit, manifest, segments, {
      present: new Map([...present, ...presentPages]),
      complete,
    });
  }

  /** As `read`, but returns undefined when the manifest is gone. Throws CorruptObjectError or StorageError. */
  static async readIfKept(
    storage: Storage,
    commit: Commit,
    faulty?: ReadonlySet<string>,
  ): Promise<PreviousSnapshot | undefined> {
    try {
      return await PreviousSnapshot.read(storage, commit, faulty);
    } catch (error) {
      if (error instanceof MissingObjectError) return undefined;
      throw error;
    }
  }

  get markets(): number {
    return this.manifest.counts.markets;
  }

  /**
   * The source files of which the store still has all rows. Undefined where the manifest does not tell them, or what it refers to
   * is gone. Throws CorruptObjectError, MissingObjectError or StorageError.
   */
  async knownFiles(): Promise<KnownFiles | undefined> {
    const { sources, rowDigests } = this.manifest;
    if (!sources || !this.present.has(layout.sourceFilesOf(sources.files.hash))) return undefined;
    const key = layout.sourceFilesOf(sources.files.hash);
    const { files } = parseObject(key, await readObject(this.#storage, key, sources.files), SourceFiles);
    if (this.complete) return { rowDigests, files };
    const rows = new Map<string, number>();
    for (const segment of this.#segments) {
      const origins = await this.#originsOf(segment);
      if (!origins) continue;
      const counts = new Uint32Array(origins.hashes.length);
      for (const { usable, page, start } of this.#pagesOf(segment)) {
        if (!usable) continue;
        const from = start - segment.start;
        for (const place of origins.places.subarray(from, from + page.markets)) counts[place]! += 1;
      }
      for (const [place, hash] of origins.hashes.entries())
        rows.set(hash, (rows.get(hash) ?? 0) + counts[place]!);
    }
    const whole = ({ hash, rows: all }: SourceFileRef) => (rows.get(hash) ?? 0) === all;
    return { rowDigests, files: files.filter(whole) };
  }

  /**
   * Notes the numbers of unchanged files, by their hashes, at the ordinals of their rows. Returns the origins of those segments
   * all of whose files are unchanged, by the segment's hash. Throws as `knownFiles` does.
   */
  async keepFiles(numbers: ReadonlyMap<string, number>, kept: FileNumbers): Promise<Map<string, ObjectRef>> {
    const same = new Map<string, ObjectRef>();
    for (const segment of this.#segments) {
      const { ref, start } = segment;
      const origins = await this.#originsOf(segment);
      if (!origins) continue;
      const numberOf = origins.hashes.map((hash) => numbers.get(hash) ?? 0);
      if (!numberOf.includes(0)) same.set(ref.hash, segment.origins!);
      for (let row = 0; row < ref.markets; row += 1) kept[start + row] = numberOf[origins.places[row]!]!;
    }
    return same;
  }

  /** Whether a kept row's id has one of these hashes, which ascend. Throws CorruptObjectError, MissingObjectError or StorageError. */
  async holdsAnyOf(idHashes: Float64Array, kept: FileNumbers): Promise<boolean> {
    for (const { ref, start } of this.#segments) {
      const rows = kept.subarray(start, start + ref.markets);
      if (!rows.some((file) => file > 0)) continue;
      const ids = await readObject(this.#storage, layout.idsOf(ref.ids.hash), ref.ids);
      if (sharesHash(ids, idHashes, (ordinal) => rows[ordinal]! > 0)) return true;
    }
    return false;
  }

  /** The files of a segment's rows, where the store has what tells them and all else that the segment's rows need. */
  async #originsOf({ ref, origins }: PreviousSegment): Promise<Origins | undefined> {
    const key = origins && layout.originsOf(origins.hash);
    if (
      !key ||
      ![key, ...besideSegment(ref).map(([beside]) => beside)].every((name) => this.present.has(name))
    )
      return undefined;
    return decodeOrigins(key, await readObject(this.#storage, key, origins), ref.markets);
  }

  /**
   * Digests of the source rows that are not `kept`, segment by segment from ordinal `start`; 0, or no segment, for others and where
   * an object is gone.
   */
  async *rowDigests(kept: FileNumbers): AsyncGenerator<{ start: number; digests: BigUint64Array }> {
    for (const segment of this.#segments) {
      const { ref, start } = segment;
      const rows = kept.subarray(start, start + ref.markets);
      if (!rows.includes(0)) continue;
      if (!besideSegment(ref).every(([key]) => this.present.has(key))) continue;
      const digests = await this.#digestsOf(ref);
      rows.forEach((file, row) => {
        if (file > 0) digests[row] = 0n;
      });
      for (const { page, start: pageStart, usable } of this.#pagesOf(segment)) {
        if (!usable) digests.fill(0n, pageStart - start, pageStart - start + page.markets);
      }
      yield { start, digests };
    }
  }

  #pagesOf({ firstPage, pages }: PreviousSegment): readonly PreviousPage[] {
    return this.#pages.slice(firstPage, firstPage + pages.length);
  }

  /** The page that consists of exactly these old rows, given by ordinal from the oldest. */
  pageOf(ordinals: readonly (number | undefined)[]): { index: number; page: Page } | undefined {
    const first = ordinals[0];
    if (first === undefined) return undefined;
    const index = this.#pageIndexOf(first);
    const { page, start } = this.#pages[index]!;
    const same = start === first && page.markets === ordinals.length;
    return same && ordinals.every((ordinal, n) => ordinal === first + n) ? { index, page } : undefined;
  }

  /** A stored page with these markets, at any position. */
  pageWithRoot(root: string): Page | undefined {
    return this.#byRoot.get(root);
  }

  /** The segment that consists of exactly these old pages, given by index from the oldest. */
  segmentOf(pageIndexes: readonly (number | undefined)[]): SegmentRef | undefined {
    const segment = this.#segments.find(({ firstPage }) => firstPage === pageIndexes[0]);
    const same = segment?.pages.length === pageIndexes.length;
    if (!same || !pageIndexes.every((index, n) => index === segment.firstPage + n)) return undefined;
    const stored = besideSegment(segment.ref).every(([key]) => this.present.has(key));
    return stored ? segment.ref : undefined;
  }

  /** All pages, from the oldest. */
  get pages(): readonly PreviousPage[] {
    return this.#pages;
  }

  /** The rows of a page, from the oldest. */
  async marketsOf(index: number): Promise<OldMarket[]> {
    const { start } = this.#pages[index]!;
    const lines = await this.pageLines(index);
    return lines.toReversed().map((line, place) => ({ ...keyOfLine(line), ordinal: start + place, line }));
  }

  /** The JSON texts of a page's rows, newest first. Throws CorruptObjectError, MissingObjectError or StorageError. */
  async pageLines(index: number): Promise<Buffer[]> {
    const known = this.#lines.get(index);
    if (known) return known;
    const { page } = this.#pages[index]!;
    const key = layout.page(page.hash);
    const stored = await readObject(this.#storage, key, page);
    const lines = page.runs.flatMap((_, run) => readRun(key, stored, page.runs, run));
    this.#lines.set(index, lines);
    return lines;
  }

  /** What the store holds of an old row. Throws CorruptObjectError, MissingObjectError or StorageError. */
  async row(ordinal: number): Promise<StoredRow> {
    const index = this.#segments.findLastIndex(({ start }) => start <= ordinal);
    const { ref, start } = this.#segments[index]!;
    let segment = this.#rows.get(index);
    if (!segment) {
      const key = layout.segment(ref.hash);
      const rows = decodeRows(key, await readObject(this.#storage, key, ref));
      const ids = await readObject(this.#storage, layout.idsOf(ref.ids.hash), ref.ids);
      const digests = await this.#digestsOf(ref);
      segment = { rows, digests, idHashes: decodeIds(ids), words: await this.#wordsOf(ref) };
      this.#rows.set(index, segment);
    }
    const place = ordinal - start;
    const { rows, digests, idHashes } = segment;
    const words = segment.words?.[place] ?? wordsOf(questionOfLine(await this.#lineOf(ordinal)));
    return { ...rows[place]!, digest: digests[place]!, idHash: idHashes[place]!, words };
  }

  async #wordsOf({ words }: SegmentRef): Promise<string[][] | undefined> {
    const key = layout.wordsOf(words.hash);
    const table = new WordTable(key, await readObject(this.#storage, key, words));
    return table.unicode === unicodeVersion ? table.decode() : undefined;
  }

  async #lineOf(ordinal: number): Promise<Buffer> {
    const index = this.#pageIndexOf(ordinal);
    const { page, start } = this.#pages[index]!;
    return (await this.pageLines(index))[start + page.markets - 1 - ordinal]!;
  }

  async #digestsOf({ rows }: SegmentRef): Promise<BigUint64Array> {
    const bytes = await readObject(this.#storage, layout.rowsOf(rows.hash), rows);
    return new BigUint64Array(new Uint8Array(bytes).buffer);
  }

  #pageIndexOf(ordinal: number): number {
    let [from, to] = [0, this.#pages.length - 1];
    while (from < to) {
      const middle = (from + to + 1) >>> 1;
      if (this.#pages[middle]!.start <= ordinal) from = middle;
      else to = middle - 1;
    }
    return from;
  }
}

/** Parses the page table of a stored segment. */
function pagesOf(key: string, stored: Buffer): (Page & Span)[] {
  const { times } = readColumns(key, stored);
  let end = 0;
  return readPages(key, stored).map((page) => {
    end += page.markets;
    return { ...page, oldest: timeAt(times, end - page.markets), newest: timeAt(times, end - 1) };
  });
}

/** The objects that the manifest itself names: bytes by key. */
function namedBy(manifest: Manifest): Map<string, number> {
  const named = new Map<string, number>();
  for (const ref of manifest.segments) {
    named.set(layout.segment(ref.hash), ref.bytes);
    for (const [key, { bytes }] of besideSegment(ref)) named.set(key, bytes);
  }
  for (const [key, { bytes }] of [...scoreObjects(manifest), ...sourceObjects(manifest)])
    named.set(key, bytes);
  return named;
}

/** Those wanted objects that the store lists with the right size and that are not `faulty`. */
async function presentOf(
  storage: Storage,
  wanted: ReadonlyMap<string, number>,
  prefixes: readonly string[],
  faulty: ReadonlySet<string>,
): Promise<Map<string, number>> {
  const present = new Map<string, number>();
  for (const prefix of prefixes) {
    for await (const { key, bytes } of storage.list(prefix))
      if (wanted.get(key) === bytes && !faulty.has(key)) present.set(key, bytes);
  }
  return present;
}
