import { constants } from "node:zlib";
import {
  compressPiece,
  type DeflatePiece,
  release,
  type Spliced,
  splice,
  storedPiece,
  withBetween,
} from "../../format/gzip.ts";
import { idOfLine } from "../../format/market-line.ts";
import {
  type CompressedPage,
  inflateRuns,
  isRun,
  marketsInRun,
  rangeOfRuns,
  readRunStart,
  runMarkets,
  runsPiece,
  type StoredRun,
  separator,
  splitLines,
} from "../../format/page.ts";
import { CorruptObjectError } from "../../store/errors.ts";
import { inParallel } from "../../store/in-parallel.ts";
import { layout } from "../../store/layout.ts";
import { requireSize } from "../../store/objects.ts";
import { joined } from "../../store/storage.ts";
import { awaitBudget } from "../budgets.ts";
import type { Derived, ObjectCache } from "../catalog/caches.ts";
import type { Archive, Location } from "../catalog/snapshots.ts";

const joint = storedPiece(separator);
// The most runs that are inflated together, and the most raw bytes, unless a single run has more. This takes half a
// millisecond, and a step of this thread before and after it.
const [batchRuns, batchBytes] = [16, 2 ** 20];
// Bounds the memory of one response; Node has this many threads.
const batchesAtOnce = 4;
// Handing runs to another thread takes as long as inflating a few of them.
const worthThread = 4;

/** Up to 16 markets of a page that are compressed together, newest first. */
interface Run {
  page: CompressedPage;
  run: number;
}

/** Adjacent lines of a run: `from` (inclusive) to `to` (exclusive). */
interface RunLines extends Run {
  from: number;
  to: number;
}

/** The markets of one response, in order, and the stored runs that hold them. */
export class Lines {
  readonly #places: readonly RunLines[];
  readonly #stored: StoredRuns;
  readonly #derived: Derived;

  private constructor(places: readonly RunLines[], stored: StoredRuns, derived: Derived) {
    this.#places = places;
    this.#stored = stored;
    this.#derived = derived;
  }

  /** Fetches the runs that hold these ordinals, which descend. */
  static async read(
    archive: Archive,
    ordinals: readonly number[],
    { objects, derived }: { objects: ObjectCache; derived: Derived },
  ): Promise<Lines> {
    const places = placesOf(archive, ordinals);
    return new Lines(places, await StoredRuns.read(objects, places), derived);
  }

  all(): Promise<Buffer[]> {
    return this.#linesAt(this.#places);
  }

  /** There must be a market. */
  async lastId(): Promise<string> {
    const last = this.#places.at(-1);
    if (!last) throw new RangeError("there is no last market");
    const { page, run, to } = last;
    return this.#derived.ids.get(`${page.hash}/${run}/${to - 1}`, async () => {
      const [line] = await this.#linesAt([{ ...last, from: to - 1 }]);
      return idOfLine(line!);
    });
  }

  /**
   * All markets with separators, as part of a gzip member. Whole runs are copied as they are stored; only parts of runs
   * are compressed here, those that follow each other together.
   */
  async spliced(): Promise<Spliced> {
    const groups = grouped(this.#places, (before, next) =>
      isWhole(next)
        ? isWhole(before) && before.page.hash === next.page.hash && before.run + 1 === next.run
        : !isWhole(before),
    );
    const pieces = groups.flatMap((places): (DeflatePiece | Promise<DeflatePiece>)[] => {
      const [first, last] = [places[0]!, places.at(-1)!];
      return isWhole(first)
        ? this.#stored.pieces(first.page, first.run, last.run)
        : [this.#compressed(places)];
    });
    return splice(withBetween(await Promise.all(pieces), joint));
  }

  /**
   * Compresses parts of runs into one piece. A single part is cached: the next client with this page size needs it too.
   */
  #compressed(places: readonly RunLines[]): Promise<DeflatePiece> {
    const make = async () => {
      const text = await separated(this.#linesAt(places));
      const piece = await compressPiece(text, constants.Z_BEST_SPEED);
      release(text);
      return piece;
    };
    if (places.length > 1) return make();
    const { page, run, from, to } = places[0]!;
    return this.#derived.pieces.get(`${page.hash}/${run}/${from}-${to}`, make);
  }

  /** The uncompressed body, with separators between the markets. */
  async identity(head: Buffer, tail: Buffer): Promise<Buffer[]> {
    return [head, await separated(this.all()), tail];
  }

  async #linesAt(places: readonly RunLines[]): Promise<Buffer[]> {
    const runs = grouped(
      places,
      (before, next) => before.run === next.run && before.page.hash === next.page.hash,
    );
    const read = (some: RunLines[][]) =>
      some.length < worthThread ? this.#readHere(some) : this.#readAside(some);
    return (await inParallel(batchesOf(runs), read, batchesAtOnce)).flat();
  }

  /** Inflates each run on this thread, as far as its lines are needed. */
  async #readHere(runs: readonly RunLines[][]): Promise<Buffer[]> {
    const lines: Buffer[] = [];
    for (const places of runs) {
      await awaitBudget();
      const run = places[0]!;
      lines.push(...linesIn(places, readRunStart(this.#stored.run(run), marketsOf(run), countOf(places))));
    }
    return lines;
  }

  /** Inflates the runs together, on another thread. */
  async #readAside(runs: readonly RunLines[][]): Promise<Buffer[]> {
    const stored = runs.map(([run]) => this.#stored.run(run!));
    await awaitBudget();
    const raw = await inflateRuns(stored);
    await awaitBudget();
    let end = 0;
    const lines = runs.flatMap((places, index) => {
      const start = end;
      end += stored[index]!.piece.rawBytes;
      return linesIn(places, splitLines(raw.subarray(start, end), countOf(places)));
    });
    const copied = copiesOf(lines);
    release(raw);
    return copied;
  }
}

/** The markets of a whole run. */
const marketsOf = ({ page, run }: RunLines) => marketsInRun(page.markets, run);

const isWhole = (place: RunLines) => place.to - place.from === marketsOf(place);

/** How many lines of a run have to be read for these places in it, which ascend. */
const countOf = (places: readonly RunLines[]) => places.at(-1)!.to;

function linesIn(places: readonly RunLines[], lines: readonly Buffer[]): Buffer[] {
  const { page, run } = places[0]!;
  if (lines.length < countOf(places))
    throw new CorruptObjectError(layout.page(page.hash), `run ${run} has too few markets`);
  return places.flatMap(({ from, to }) => lines.slice(from, to));
}

/** Copies lines out of the memory that they share with others. */
function copiesOf(lines: readonly Buffer[]): Buffer[] {
  const whole = Buffer.concat(lines);
  let end = 0;
  return lines.map(({ length }) => {
    end += length;
    return whole.subarray(end - length, end);
  });
}

function grouped<T>(items: readonly T[], belong: (before: T, next: T) => boolean): T[][] {
  const groups: T[][] = [];
  for (const item of items) {
    const last = groups.at(-1);
    if (last && belong(last.at(-1)!, item)) last.push(item);
    else groups.push([item]);
  }
  return groups;
}

function batchesOf(runs: readonly RunLines[][]): RunLines[][][] {
  const batches: RunLines[][][] = [];
  let bytes = Number.POSITIVE_INFINITY;
  for (const places of runs) {
    const { page, run } = places[0]!;
    const { rawBytes } = page.runs[run]!;
    bytes += rawBytes;
    if (bytes > batchBytes || batches.at(-1)?.length === batchRuns) {
      batches.push([]);
      bytes = rawBytes;
    }
    batches.at(-1)!.push(places);
  }
  return batches;
}

function placesOf(archive: Archive, ordinals: readonly number[]): RunLines[] {
  const places: RunLines[] = [];
  let before: Location | undefined;
  for (let index = 0; index < ordinals.length; ) {
    const ordinal = ordinals[index]!;
    const location = archive.locate(ordinal);
    const samePage = before?.segment === location.segment && before.page === location.page;
    const page = samePage ? places.at(-1)!.page : archive.page(location);
    const [run, from] = [Math.floor(location.line / runMarkets), location.line % runMarkets];
    const place = { page, run, from, to: from + 1 };
    const end = marketsOf(place);
    // The next older market is on the next line, so only the first one in a run has to be located.
    while (place.to < end && ordinals[index + place.to - from] === ordinal - (place.to - from)) place.to += 1;
    places.push(place);
    index += place.to - from;
    before = location;
  }
  return places;
}

// Joining a page of 1.7 MB and computing its checksum takes as long as inflating this many runs.
const stepsToJoin = 16;

/** Nothing else may use the lines: their memory is released. */
async function separated(reading: Promise<readonly Buffer[]>): Promise<Buffer> {
  const lines = await reading;
  if (lines.length > runMarkets) await awaitBudget(stepsToJoin);
  const text = Buffer.concat(withBetween(lines, separator));
  release(...lines);
  return text;
}

// The S3 client has this many connections.
const fetchedAtOnce = 128;

// From this share of a page on, all of it is read, since the next request is likely to need the rest.
const wholeShare = 1 / 2;

/** Runs of pages as they are stored, checked against their hashes or that of their page. */
export class StoredRuns {
  readonly #objects: ObjectCache;
  readonly #pages = new Map<string, Buffer>();
  readonly #runs = new Map<string, Buffer>();

  private constructor(objects: ObjectCache) {
    this.#objects = objects;
  }

  /** The runs of one page must ascend, and may be named more than once. */
  static async read(objects: ObjectCache, needed: readonly Run[]): Promise<StoredRuns> {
    const pages = new Map<string, { page: CompressedPage; runs: number[] }>();
    for (const { page, run } of needed) {
      const known = pages.get(page.hash);
      if (!known) pages.set(page.hash, { page, runs: [run] });
      else if (known.runs.at(-1) !== run) known.runs.push(run);
    }
    const stored = new StoredRuns(objects);
    await inParallel(pages.values(), ({ page, runs }) => stored.#fetch(page, runs), fetchedAtOnce);
    return stored;
  }

  run({ page, run }: Run): StoredRun {
    const [piece] = this.pieces(page, run) as [DeflatePiece];
    return { key: layout.page(page.hash), index: run, piece };
  }

  /** From `first` to `last` (inclusive), in pieces that follow each other. */
  pieces(page: CompressedPage, first: number, last = first): DeflatePiece[] {
    const stored = this.#pages.get(page.hash);
    if (stored) return [runsPiece(stored, page.runs, first, last)];
    return page.runs.slice(first, last + 1).map(({ rawBytes, crc }, position) => {
      const bytes = this.#runs.get(nameOfRun(page, first + position))!;
      return { bytes, rawBytes, crc };
    });
  }

  async #fetch(page: CompressedPage, runs: readonly number[]): Promise<void> {
    await awaitBudget();
    const key = layout.page(page.hash);
    const [first, last] = [runs[0]!, runs.at(-1)!];
    const range = rangeOfRuns(page.runs, first, last);
    if (this.#objects.kept.has(key) || range.bytes > page.bytes * wholeShare) {
      this.#pages.set(page.hash, await this.#objects.get(key, page));
      return;
    }
    requireSize(key, range.bytes);
    let reading: Promise<Buffer> | undefined;
    const readRun = async (run: number) => {
      reading ??= this.#objects.range(key, range);
      const part = await reading;
      const { offset, bytes } = rangeOfRuns(page.runs, run);
      const stored = part.subarray(offset - range.offset, offset - range.offset + bytes);
      // A cache on the disk returns parts of pages unchecked. It hashes a page that is read whole, and mends it.
      if (!isRun(page, run, stored)) {
        const whole = await this.#objects.get(key, page);
        return joined([whole.subarray(offset, offset + bytes)]);
      }
      // A cached run must not keep the other runs in memory.
      return bytes === part.length ? part : joined([stored]);
    };
    for (const run of runs) {
      const name = nameOfRun(page, run);
      this.#runs.set(name, await this.#objects.kept.get(name, () => readRun(run)));
    }
  }
}

const nameOfRun = ({ hash }: CompressedPage, run: number) => `${layout.page(hash)}/${run}`;
