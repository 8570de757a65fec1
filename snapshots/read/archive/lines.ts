import { constants } from "node:zlib";
import { compressPiece, type DeflatePiece, type Spliced, splice, storedPiece } from "../../format/gzip.ts";
import { idOfLine } from "../../format/market-line.ts";
import { readRunStart, runMarkets, runsPiece, type StoredPage, separator } from "../../format/page.ts";
import { inParallel } from "../../store/in-parallel.ts";
import { layout } from "../../store/layout.ts";
import type { DerivedCache, ObjectCache } from "../catalog/caches.ts";
import { awaitBudget } from "../event-loop-budget.ts";
import type { Archive, Location } from "./archive.ts";

const joint = storedPiece(separator);
// The S3 client has this many connections.
const fetchedAtOnce = 128;

/** Adjacent lines of one page, newest first: `from` (inclusive) to `to` (exclusive). */
interface Stretch {
  page: StoredPage;
  from: number;
  to: number;
}

/** The caches that lines are read through. */
export interface LineSources {
  objects: ObjectCache;
  derived: DerivedCache;
}

/** The markets of one response, in order, and the stored pages that hold them. */
export class Lines {
  readonly #stretches: readonly Stretch[];
  readonly #stored: ReadonlyMap<string, Buffer>;
  readonly #derived: DerivedCache;
  /** How many leading markets of each run are needed, by run name; computed on first use. */
  #needed: ReadonlyMap<string, number> | undefined;
  readonly #runs = new Map<string, Promise<Buffer[]>>();

  private constructor(
    stretches: readonly Stretch[],
    stored: ReadonlyMap<string, Buffer>,
    derived: DerivedCache,
  ) {
    this.#stretches = stretches;
    this.#stored = stored;
    this.#derived = derived;
  }

  /** Fetches the pages that hold these descending ordinals. */
  static async read(
    archive: Archive,
    ordinals: readonly number[],
    { objects, derived }: LineSources,
  ): Promise<Lines> {
    const stretches = stretchesOf(archive, ordinals);
    const pages = new Map(stretches.map(({ page }) => [page.hash, page]));
    const stored = new Map<string, Buffer>();
    const fetchPage = async (page: StoredPage) => {
      await awaitBudget();
      stored.set(page.hash, await objects.get(layout.page(page.hash), page));
    };
    await inParallel(pages.values(), fetchPage, fetchedAtOnce);
    return new Lines(stretches, stored, derived);
  }

  /** JSON texts of all markets. */
  all(): Promise<Buffer[]> {
    return this.#linesOf(this.#stretches);
  }

  /** Id of the last market. Throws CorruptObjectError, or RangeError for a response without markets. */
  async lastId(): Promise<string> {
    const stretch = this.#stretches.at(-1);
    if (!stretch) throw new RangeError("there is no last market");
    const { page, to } = stretch;
    return this.#derived.id(`${page.hash}/${to - 1}`, async () => {
      const [line] = await this.#linesOf([{ ...stretch, from: to - 1 }]);
      return idOfLine(line!);
    });
  }

  /**
   * All markets with separators, as part of a gzip member. Whole runs are copied as they are stored; only the parts of
   * runs at the ends of a stretch are compressed here.
   */
  async spliced(): Promise<Spliced> {
    const pieces: (DeflatePiece | Promise<DeflatePiece>)[] = [];
    let loose: Stretch[] = [];
    const add = (piece: DeflatePiece | Promise<DeflatePiece>) => {
      if (pieces.length > 0) pieces.push(joint);
      pieces.push(piece);
    };
    const flush = () => {
      if (loose.length > 0) add(this.#compressed(loose));
      loose = [];
    };
    for (const part of this.#stretches.flatMap(splitAtRuns)) {
      if (part.runs) {
        flush();
        add(runsPiece(this.#stored.get(part.page.hash)!, part.page.runs, ...part.runs));
      } else loose.push(part);
    }
    flush();
    return splice(await Promise.all(pieces));
  }

  /**
   * Compresses parts of runs into one piece. A single part is cached: the next client with this page size needs it too.
   */
  #compressed(parts: readonly Stretch[]): Promise<DeflatePiece> {
    const make = async () => compressPiece(await joined(this.#linesOf(parts)), constants.Z_BEST_SPEED);
    const [{ page, from, to }] = parts as [Stretch];
    return parts.length > 1 ? make() : this.#derived.piece(`${page.hash}/${from}-${to}`, make);
  }

  /** The uncompressed body: `head`, all markets with separators, and `tail`. */
  async identity(head: Buffer, tail: Buffer): Promise<Buffer[]> {
    return [head, await joined(this.all()), tail];
  }

  async #linesOf(stretches: readonly Stretch[]): Promise<Buffer[]> {
    const lines: Buffer[] = [];
    for (const { page, from, to } of stretches) {
      for (let line = from; line < to; ) {
        const run = Math.floor(line / runMarkets);
        const end = Math.min(to, (run + 1) * runMarkets);
        const all = await this.#run(page, run);
        lines.push(...all.slice(line - run * runMarkets, end - run * runMarkets));
        line = end;
      }
    }
    return lines;
  }

  #run(page: StoredPage, index: number): Promise<Buffer[]> {
    const name = runName(page, index);
    const known = this.#runs.get(name) ?? this.#inflated(page, index, name);
    this.#runs.set(name, known);
    return known;
  }

  async #inflated(page: StoredPage, index: number, name: string): Promise<Buffer[]> {
    await awaitBudget();
    const markets = Math.min(runMarkets, page.markets - index * runMarkets);
    const run = { runs: page.runs, index, markets };
    this.#needed ??= neededOfRuns(this.#stretches);
    const count = this.#needed.get(name) ?? markets;
    return readRunStart(layout.page(page.hash), this.#stored.get(page.hash)!, run, count);
  }
}

const runName = (page: StoredPage, index: number) => `${page.hash}/${index}`;

function neededOfRuns(stretches: readonly Stretch[]): Map<string, number> {
  const needed = new Map<string, number>();
  for (const { page, from, to } of stretches) {
    for (let index = Math.floor(from / runMarkets); index * runMarkets < to; index += 1)
      // The lines of a page come in ascending order, so the last stretch needs the most.
      needed.set(runName(page, index), Math.min(runMarkets, to - index * runMarkets));
  }
  return needed;
}

function stretchesOf(archive: Archive, ordinals: readonly number[]): Stretch[] {
  const stretches: Stretch[] = [];
  let before: Location | undefined;
  for (let index = 0; index < ordinals.length; ) {
    const ordinal = ordinals[index]!;
    const location = archive.locate(ordinal);
    const samePage = before?.segment === location.segment && before.page === location.page;
    const page = samePage ? stretches.at(-1)!.page : archive.page(location);
    // Within a page the next older market is on the next line, so only the first one has to be located.
    const longest = Math.min(page.markets - location.line, ordinals.length - index);
    let length = 1;
    while (length < longest && ordinals[index + length] === ordinal - length) length += 1;
    stretches.push({ page, from: location.line, to: location.line + length });
    index += length;
    before = location;
  }
  return stretches;
}

/** Part of a stretch: either whole runs, from `first` to `last`, or lines within one run. */
type Part = Stretch & { runs?: [first: number, last: number] };

/** Splits a stretch into an incomplete run at its beginning, whole runs, and an incomplete run at its end. */
function splitAtRuns({ page, from, to }: Stretch): Part[] {
  const end = to === page.markets ? Math.ceil(to / runMarkets) : Math.floor(to / runMarkets);
  const first = Math.ceil(from / runMarkets);
  if (first >= end) return splitWithinRuns({ page, from, to });
  const [start, stop] = [first * runMarkets, Math.min(end * runMarkets, to)];
  const parts: Part[] = [{ page, from: start, to: stop, runs: [first, end - 1] }];
  if (from < start) parts.unshift({ page, from, to: start });
  if (stop < to) parts.push({ page, from: stop, to });
  return parts;
}

/** Splits a stretch without a whole run. It may hold the end of one run and the beginning of the next. */
function splitWithinRuns({ page, from, to }: Stretch): Part[] {
  const border = Math.ceil(from / runMarkets) * runMarkets;
  if (border <= from || border >= to) return [{ page, from, to }];
  return [
    { page, from, to: border },
    { page, from: border, to },
  ];
}

// Joining a page of 1.7 MB and computing its checksum takes as long as inflating this many runs.
const stepsToJoin = 16;

async function joined(reading: Promise<readonly Buffer[]>): Promise<Buffer> {
  const lines = await reading;
  if (lines.length > runMarkets) await awaitBudget(stepsToJoin);
  return Buffer.concat(lines.flatMap((line, position) => (position === 0 ? [line] : [separator, line])));
}
