import { constants } from "node:zlib";
import { compressPiece, type DeflatePiece, joinGzip, storedPiece } from "../format/gzip.ts";
import { readRun, runMarkets, runPiece, separator } from "../format/page.ts";
import type { StoredPage } from "../index/segment.ts";
import { layout } from "../layout.ts";
import type { Archive, Place } from "./archive.ts";
import type { ObjectCache } from "./object-cache.ts";

/** Adjacent lines of one page, in the archive's order: `from` (inclusive) to `to` (exclusive). */
interface Stretch {
  page: StoredPage;
  from: number;
  to: number;
}

/** Markets of a response, in its order, with the stored pages they lie in. */
export class Lines {
  readonly #stretches: readonly Stretch[];
  readonly #stored: ReadonlyMap<string, Buffer>;
  readonly #runs = new Map<string, Buffer[]>();

  private constructor(stretches: readonly Stretch[], stored: ReadonlyMap<string, Buffer>) {
    this.#stretches = stretches;
    this.#stored = stored;
  }

  /** Fetches the pages of these ordinals, which descend. Throws as ObjectCache.get does. */
  static async read(archive: Archive, ordinals: readonly number[], cache: ObjectCache): Promise<Lines> {
    const stretches = stretchesOf(archive, ordinals);
    const pages = new Map(stretches.map(({ page }) => [page.hash, page]));
    const stored = await Promise.all(
      [...pages.values()].map(
        async (page) => [page.hash, await cache.get(layout.page(page.hash), page)] as const,
      ),
    );
    return new Lines(stretches, new Map(stored));
  }

  /** JSON texts of all markets. Throws CorruptObjectError. */
  all(): Buffer[] {
    return this.#stretches.flatMap((stretch) => this.#linesOf(stretch));
  }

  /** JSON text of the last market. Throws CorruptObjectError, or RangeError when there is none. */
  last(): Buffer {
    const stretch = this.#stretches.at(-1);
    const line = stretch && this.#linesOf({ ...stretch, from: stretch.to - 1 })[0];
    if (!line) throw new RangeError("there is no last market");
    return line;
  }

  /**
   * A gzip member of `head`, all markets with separators, and `tail`. Whole runs are copied as they are stored; what
   * lies around them is compressed here.
   */
  async gzip(head: Buffer, tail: Buffer): Promise<Buffer> {
    const pieces: (DeflatePiece | Promise<DeflatePiece>)[] = [];
    let loose: Buffer[] = [head];
    const flush = () => {
      if (loose.length > 0) pieces.push(compressPiece(Buffer.concat(loose), constants.Z_BEST_SPEED));
      loose = [];
    };
    let first = true;
    for (const part of this.#stretches.flatMap(splitAtRuns)) {
      if (!first) loose.push(separator);
      first = false;
      const run = wholeRun(part);
      if (run === undefined) loose.push(...joinLines(this.#linesOf(part)));
      else {
        flush();
        pieces.push(runPiece(this.#stored.get(part.page.hash)!, part.page.runs, run));
      }
    }
    flush();
    return joinGzip([...(await Promise.all(pieces)), storedPiece(tail, true)]);
  }

  /** `head`, all markets with separators, and `tail`. */
  identity(head: Buffer, tail: Buffer): Buffer {
    return Buffer.concat([head, ...joinLines(this.all()), tail]);
  }

  #linesOf({ page, from, to }: Stretch): Buffer[] {
    const lines: Buffer[] = [];
    for (let line = from; line < to; ) {
      const run = Math.floor(line / runMarkets);
      const end = Math.min(to, (run + 1) * runMarkets);
      lines.push(...this.#run(page, run).slice(line - run * runMarkets, end - run * runMarkets));
      line = end;
    }
    return lines;
  }

  #run(page: StoredPage, index: number): Buffer[] {
    const key = `${page.hash}/${index}`;
    const known = this.#runs.get(key);
    if (known) return known;
    const lines = readRun(layout.page(page.hash), this.#stored.get(page.hash)!, page.runs, index);
    this.#runs.set(key, lines);
    return lines;
  }
}

function stretchesOf(archive: Archive, ordinals: readonly number[]): Stretch[] {
  const stretches: Stretch[] = [];
  let before: Place | undefined;
  for (const ordinal of ordinals) {
    const place = archive.locate(ordinal);
    const samePage = before?.segment === place.segment && before.page === place.page;
    const last = stretches.at(-1);
    if (last && samePage && last.to === place.line) last.to += 1;
    else {
      const page = last && samePage ? last.page : archive.page(place);
      stretches.push({ page, from: place.line, to: place.line + 1 });
    }
    before = place;
  }
  return stretches;
}

/** Cuts a stretch where runs begin. */
function splitAtRuns({ page, from, to }: Stretch): Stretch[] {
  const parts: Stretch[] = [];
  for (let start = from; start < to; ) {
    const end = Math.min(to, (Math.floor(start / runMarkets) + 1) * runMarkets);
    parts.push({ page, from: start, to: end });
    start = end;
  }
  return parts;
}

/** The index of the run that a part covers from end to end. */
function wholeRun({ page, from, to }: Stretch): number | undefined {
  const run = from / runMarkets;
  const end = Math.min(page.markets, from + runMarkets);
  return Number.isInteger(run) && to === end ? run : undefined;
}

function joinLines(lines: readonly Buffer[]): Buffer[] {
  return lines.flatMap((line, position) => (position === 0 ? [line] : [separator, line]));
}
