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

export type Lines = Awaited<ReturnType<typeof readLines>>;

/** The markets of one response, by their ordinals, which descend. Fetches the runs that hold them. */
export async function readLines(
  archive: Archive,
  ordinals: readonly number[],
  { objects, derived }: { objects: ObjectCache; derived: Derived },
) {
  const places = placesOf(archive, ordinals);
  const stored = await readRuns(objects, places);

  /**
   * Compresses parts of runs into one piece. A single part is cached: the next client with this page size needs it too.
   */
  function compressed(some: readonly RunLines[]): Promise<DeflatePiece> {
    const make = async () => {
      const text = await separated(linesAt(some));
      const piece = await compressPiece(text, constants.Z_BEST_SPEED);
      release(text);
      return piece;
    };
    if (some.length > 1) return make();
    const { page, run, from, to } = some[0]!;
    return derived.pieces.get(`${page.hash}/${run}/${from}-${to}`, make);
  }

  async function linesAt(some: readonly RunLines[]): Promise<Buffer[]> {
    const runs = grouped(
      some,
      (before, next) => before.run === next.run && before.page.hash === next.page.hash,
    );
    const read = (batch: RunLines[][]) => (batch.length < worthThread ? readHere(batch) : readAside(batch));
    return (await inParallel(batchesOf(runs), read, batchesAtOnce)).flat();
  }

  /** Inflates each run on this thread, as far as its lines are needed. */
  async function readHere(runs: readonly RunLines[][]): Promise<Buffer[]> {
    const lines: Buffer[] = [];
    for (const some of runs) {
      await awaitBudget();
      const run = some[0]!;
      lines.push(...linesIn(some, readRunStart(stored.run(run), marketsOf(run), countOf(some))));
    }
    return lines;
  }

  /** Inflates the runs together, on another thread. */
  async function readAside(batch: readonly RunLines[][]): Promise<Buffer[]> {
    const runs = batch.map(([run]) => stored.run(run!));
    await awaitBudget();
    const raw = await inflateRuns(runs);
    await awaitBudget();
    let end = 0;
    const lines = batch.flatMap((some, index) => {
      const start = end;
      end += runs[index]!.piece.rawBytes;
      return linesIn(some, splitLines(raw.subarray(start, end), countOf(some)));
    });
    const copied = copiesOf(lines);
    release(raw);
    return copied;
  }

  return {
    all: () => linesAt(places),

    /** There must be a market. */
    async lastId(): Promise<string> {
      const last = places.at(-1);
      if (!last) throw new RangeError("there is no last market");
      const { page, run, to } = last;
      return derived.ids.get(`${page.hash}/${run}/${to - 1}`, async () => {
        const [line] = await linesAt([{ ...last, from: to - 1 }]);
        return idOfLine(line!);
      });
    },

    /**
     * All markets with separators, as part of a gzip member. Whole runs are copied as they are stored; only parts of
     * runs are compressed here, those that follow each other together.
     */
    async spliced(): Promise<Spliced> {
      const groups = grouped(places, (before, next) =>
        isWhole(next)
          ? isWhole(before) && before.page.hash === next.page.hash && before.run + 1 === next.run
          : !isWhole(before),
      );
      const pieces = groups.flatMap((some): (DeflatePiece | Promise<DeflatePiece>)[] => {
        const [first, last] = [some[0]!, some.at(-1)!];
        return isWhole(first) ? stored.pieces(first.page, first.run, last.run) : [compressed(some)];
      });
      return splice(withBetween(await Promise.all(pieces), joint));
    },

    /** The uncompressed body, with separators between the markets. */
    identity: async (head: Buffer, tail: Buffer) => [head, await separated(linesAt(places)), tail],
  };
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

/**
 * Reads runs of pages as they are stored, checked against their hashes or that of their page. The runs of one page must
 * ascend, and may be named more than once.
 */
export async function readRuns(objects: ObjectCache, needed: readonly Run[]) {
  const pages = new Map<string, { page: CompressedPage; runs: number[] }>();
  for (const { page, run } of needed) {
    const entry = pages.get(page.hash);
    if (!entry) pages.set(page.hash, { page, runs: [run] });
    else if (entry.runs.at(-1) !== run) entry.runs.push(run);
  }
  const wholePages = new Map<string, Buffer>();
  const alone = new Map<string, Buffer>();

  async function fetch({ page, runs }: { page: CompressedPage; runs: readonly number[] }): Promise<void> {
    await awaitBudget();
    const key = layout.page(page.hash);
    const [first, last] = [runs[0]!, runs.at(-1)!];
    const range = rangeOfRuns(page.runs, first, last);
    if (objects.kept.has(key) || range.bytes > page.bytes * wholeShare) {
      wholePages.set(page.hash, await objects.get(key, page));
      return;
    }
    requireSize(key, range.bytes);
    let reading: Promise<Buffer> | undefined;
    const readRun = async (run: number) => {
      reading ??= objects.range(key, range);
      const part = await reading;
      const { offset, bytes } = rangeOfRuns(page.runs, run);
      const stored = part.subarray(offset - range.offset, offset - range.offset + bytes);
      // A cache on the disk returns parts of pages unchecked. It hashes a page that is read whole, and mends it.
      if (!isRun(page, run, stored)) {
        const whole = await objects.get(key, page);
        return joined([whole.subarray(offset, offset + bytes)]);
      }
      // A cached run must not keep the other runs in memory.
      return bytes === part.length ? part : joined([stored]);
    };
    for (const run of runs) {
      const name = nameOfRun(page, run);
      alone.set(name, await objects.kept.get(name, () => readRun(run)));
    }
  }

  /** From `first` to `last` (inclusive), in pieces that follow each other. */
  function pieces(page: CompressedPage, first: number, last = first): DeflatePiece[] {
    const stored = wholePages.get(page.hash);
    if (stored) return [runsPiece(stored, page.runs, first, last)];
    return page.runs.slice(first, last + 1).map(({ rawBytes, crc }, position) => {
      const bytes = alone.get(nameOfRun(page, first + position))!;
      return { bytes, rawBytes, crc };
    });
  }

  await inParallel(pages.values(), fetch, fetchedAtOnce);
  return {
    pieces,
    run: ({ page, run }: Run): StoredRun => {
      return { key: layout.page(page.hash), index: run, piece: pieces(page, run)[0]! };
    },
  };
}

const nameOfRun = ({ hash }: CompressedPage, run: number) => `${layout.page(hash)}/${run}`;
