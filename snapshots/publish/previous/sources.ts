import {
  type Manifest,
  type ObjectRef,
  type SourceFileRef,
  SourceFiles,
} from "../../../schemas/store/snapshot.ts";
import { firstWhere } from "../../format/first-where.ts";
import { longIdHash, mayShare, requireIds } from "../../index/id-table.ts";
import { addRowsByFile, decodeOrigins, type Origins } from "../../index/origin-table.ts";
import type { FileNumbers, KeyRange, KnownFiles } from "../../sources/sources.ts";
import { ObjectError, unless } from "../../store/errors.ts";
import { inParallel } from "../../store/in-parallel.ts";
import { layout } from "../../store/layout.ts";
import { besideSegment, parseObject, readObject } from "../../store/objects.ts";
import type { Storage } from "../../store/storage.ts";
import { type PreviousPage, type PreviousRows, type PreviousSegment, pagesIn, readDigests } from "./rows.ts";

/** The current snapshot's segments and pages, and which of its objects the store has. */
interface Stored {
  manifest: Pick<Manifest, "sources" | "rowDigests">;
  segments: readonly PreviousSegment[];
  pages: readonly PreviousPage[];
  rows: PreviousRows;
  present: Map<string, number>;
  isComplete: () => boolean;
}

/** The sources as the current snapshot records them, so that unchanged files and rows are not read again. */
export class PreviousSources {
  readonly #storage: Storage;
  readonly #stored: Stored;

  constructor(storage: Storage, stored: Stored) {
    this.#storage = storage;
    this.#stored = stored;
  }

  /**
   * The source files of which the store still has all rows. Undefined where the manifest does not name its files, or
   * what it refers to is gone or damaged.
   */
  async knownFiles(): Promise<KnownFiles | undefined> {
    const { sources, rowDigests } = this.#stored.manifest;
    if (!sources) return undefined;
    const list = await this.#readIfSound(layout.sourceFiles(sources.hash), sources, (key, bytes) =>
      parseObject(key, bytes, SourceFiles),
    );
    if (!list) return undefined;
    const { files } = list;
    if (this.#stored.isComplete()) return { rowDigests, files };
    const rows = new Map<string, number>();
    for (const segment of this.#stored.segments) {
      const origins = await this.#originsOf(segment);
      if (!origins) continue;
      for (const { usable, page, start } of pagesIn(segment, this.#stored.pages)) {
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
  async keepFiles(numbers: ReadonlyMap<string, number>, kept: FileNumbers): Promise<Map<string, ObjectRef>> {
    const same = new Map<string, ObjectRef>();
    await inParallel(this.#stored.segments, async (segment) => {
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
    const { segments, rows: stored } = this.#stored;
    for (const { ref, start } of segments) {
      const rows = kept.subarray(start, start + ref.markets);
      if (!rows.some((file) => file > 0)) continue;
      const key = layout.ids(ref.ids.hash);
      const ids = await readObject(this.#storage, key, ref.ids);
      requireIds(key, ids, ref.markets);
      for (const ordinal of mayShare(ids, idHashes)) {
        if (rows[ordinal] === 0) continue;
        // The store has only a part of each hash. Few other ids share it.
        const hash = longIdHash(await stored.idOf(start + ordinal));
        const position = firstWhere(0, idHashes.length, (index) => idHashes[index]! >= hash);
        if (idHashes[position] === hash) return true;
      }
    }
    return false;
  }

  /** Undefined unless the store has the origins and every other object beside the segment. */
  async #originsOf({ ref }: PreviousSegment): Promise<Origins | undefined> {
    const { origins } = ref;
    if (!origins || !besideSegment(ref).every(([key]) => this.#stored.present.has(key))) return undefined;
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
    if (!this.#stored.present.has(key)) return undefined;
    const read = async () => decode(key, await readObject(this.#storage, key, ref));
    return unless(ObjectError, read, () => void this.#stored.present.delete(key));
  }

  /**
   * Yields digests of the source rows that are not `kept` and may be in the range, segment by segment from ordinal
   * `start`. Other rows, and those of missing objects, have 0 or no segment.
   */
  async *rowDigests(
    kept: FileNumbers,
    range?: KeyRange,
  ): AsyncGenerator<{ start: number; digests: BigUint64Array }> {
    for (const segment of this.#stored.segments) {
      if (range && !overlaps(segment, range)) continue;
      const { ref, start } = segment;
      const rows = kept.subarray(start, start + ref.markets);
      if (!rows.includes(0)) continue;
      if (!besideSegment(ref).every(([key]) => this.#stored.present.has(key))) continue;
      const digests = await readDigests(this.#storage, ref);
      rows.forEach((file, row) => {
        if (file > 0) digests[row] = 0n;
      });
      for (const { page, start: pageStart, usable } of pagesIn(segment, this.#stored.pages)) {
        if (!usable) digests.fill(0n, pageStart - start, pageStart - start + page.markets);
      }
      yield { start, digests };
    }
  }
}

/** Whether some of a segment's markets may be in a range. */
function overlaps({ pages }: PreviousSegment, { from, before }: KeyRange): boolean {
  const [oldest, newest] = [pages[0]?.oldest ?? 0, pages.at(-1)?.newest ?? 0];
  return (from?.resolvedAt ?? newest) <= newest && oldest <= (before?.resolvedAt ?? oldest);
}
