import { constants } from "node:zlib";
import {
  compressPiece,
  type DeflatePiece,
  release,
  type Spliced,
  splice,
  storedPiece,
} from "../../format/gzip.ts";
import { idOfLine } from "../../format/market-line.ts";
import {
  type CompressedPage,
  inflateRuns,
  readRunStart,
  runMarkets,
  separator,
  splitLines,
} from "../../format/page.ts";
import { CorruptObjectError } from "../../store/errors.ts";
import { inParallel } from "../../store/in-parallel.ts";
import { layout } from "../../store/layout.ts";
import type { Derived, ObjectCache } from "../catalog/caches.ts";
import { awaitBudget } from "../effort.ts";
import type { Archive, Location } from "./archive.ts";
import { StoredRuns } from "./stored-runs.ts";

const joint = storedPiece(separator);
// The most runs that are inflated together, and the most raw bytes, unless a single run has more. This takes half a
// millisecond, and a step of this thread before and after it.
const [batchRuns, batchBytes] = [16, 2 ** 20];
// Bounds the memory of one response; Node has this many threads.
const batchesAtOnce = 4;
// Handing runs to another thread takes as long as inflating a few of them.
const worthThread = 4;

/** Adjacent lines of one page, newest first: `from` (inclusive) to `to` (exclusive). */
interface Stretch {
  page: CompressedPage;
  from: number;
  to: number;
}

/** The caches that lines are read through. */
interface LineSources {
  objects: ObjectCache;
  derived: Derived;
}

/** The markets of one response, in order, and the stored runs that hold them. */
export class Lines {
  readonly #stretches: readonly Stretch[];
  readonly #stored: StoredRuns;
  readonly #derived: Derived;

  private constructor(stretches: readonly Stretch[], stored: StoredRuns, derived: Derived) {
    this.#stretches = stretches;
    this.#stored = stored;
    this.#derived = derived;
  }

  /** Fetches the runs that hold these ordinals, which descend. */
  static async read(
    archive: Archive,
    ordinals: readonly number[],
    { objects, derived }: LineSources,
  ): Promise<Lines> {
    const stretches = stretchesOf(archive, ordinals);
    return new Lines(stretches, await StoredRuns.read(objects, neededOf(stretches)), derived);
  }

  all(): Promise<Buffer[]> {
    return this.#linesOf(this.#stretches);
  }

  /** Throws RangeError for a response without markets. */
  async lastId(): Promise<string> {
    const stretch = this.#stretches.at(-1);
    if (!stretch) throw new RangeError("there is no last market");
    const { page, to } = stretch;
    return this.#derived.ids.get(`${page.hash}/${to - 1}`, async () => {
      const [line] = await this.#linesOf([{ ...stretch, from: to - 1 }]);
      return idOfLine(line!);
    });
  }

  /**
   * All markets with separators, as part of a gzip member. Whole runs are copied as they are stored; only parts of runs
   * at the ends of a stretch are compressed here.
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
        for (const piece of this.#stored.pieces(part.page, ...part.runs)) add(piece);
      } else loose.push(part);
    }
    flush();
    return splice(await Promise.all(pieces));
  }

  /**
   * Compresses parts of runs into one piece. A single part is cached: the next client with this page size needs it too.
   */
  #compressed(parts: readonly Stretch[]): Promise<DeflatePiece> {
    const make = async () => {
      const text = await separated(this.#linesOf(parts));
      const piece = await compressPiece(text, constants.Z_BEST_SPEED);
      release(text);
      return piece;
    };
    const [{ page, from, to }] = parts as [Stretch];
    return parts.length > 1 ? make() : this.#derived.pieces.get(`${page.hash}/${from}-${to}`, make);
  }

  /** The uncompressed body, with separators between the markets. */
  async identity(head: Buffer, tail: Buffer): Promise<Buffer[]> {
    return [head, await separated(this.all()), tail];
  }

  async #linesOf(stretches: readonly Stretch[]): Promise<Buffer[]> {
    const read = (runs: NeededLines[]) =>
      runs.length < worthThread ? this.#readHere(runs) : this.#readAside(runs);
    return (await inParallel(batchesOf(neededOf(stretches)), read, batchesAtOnce)).flat();
  }

  /** Inflates each run on this thread, as far as its lines are needed. */
  async #readHere(runs: readonly NeededLines[]): Promise<Buffer[]> {
    const lines: Buffer[] = [];
    for (const run of runs) {
      await awaitBudget();
      const markets = Math.min(runMarkets, run.page.markets - run.run * runMarkets);
      lines.push(...linesIn(run, readRunStart(this.#stored.run(run), markets, countOf(run))));
    }
    return lines;
  }

  /** Inflates the runs together, on another thread. */
  async #readAside(runs: readonly NeededLines[]): Promise<Buffer[]> {
    const stored = runs.map((run) => this.#stored.run(run));
    await awaitBudget();
    const raw = await inflateRuns(stored);
    await awaitBudget();
    let end = 0;
    const lines = runs.flatMap((run, index) => {
      const start = end;
      end += stored[index]!.piece.rawBytes;
      return linesIn(run, splitLines(raw.subarray(start, end), countOf(run)));
    });
    const copied = copiesOf(lines);
    release(raw);
    return copied;
  }
}

/** The needed lines of a run, in ascending parts `from` (inclusive) to `to` (exclusive). */
interface NeededLines {
  page: CompressedPage;
  run: number;
  parts: { from: number; to: number }[];
}

const countOf = ({ parts }: NeededLines) => parts.at(-1)!.to;

function linesIn(needed: NeededLines, lines: readonly Buffer[]): Buffer[] {
  if (lines.length < countOf(needed))
    throw new CorruptObjectError(layout.page(needed.page.hash), `run ${needed.run} has too few markets`);
  return needed.parts.flatMap(({ from, to }) => lines.slice(from, to));
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

function neededOf(stretches: readonly Stretch[]): NeededLines[] {
  const needed: NeededLines[] = [];
  for (const { page, from, to } of stretches) {
    for (let line = from; line < to; ) {
      const run = Math.floor(line / runMarkets);
      const [first, end] = [run * runMarkets, Math.min(to, (run + 1) * runMarkets)];
      const part = { from: line - first, to: end - first };
      const last = needed.at(-1);
      if (last?.run === run && last.page.hash === page.hash) last.parts.push(part);
      else needed.push({ page, run, parts: [part] });
      line = end;
    }
  }
  return needed;
}

/** Groups runs that are inflated together. */
function batchesOf(runs: readonly NeededLines[]): NeededLines[][] {
  const batches: NeededLines[][] = [];
  let bytes = Number.POSITIVE_INFINITY;
  for (const needed of runs) {
    const { rawBytes } = needed.page.runs[needed.run]!;
    bytes += rawBytes;
    if (bytes > batchBytes || batches.at(-1)?.length === batchRuns) {
      batches.push([]);
      bytes = rawBytes;
    }
    batches.at(-1)!.push(needed);
  }
  return batches;
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

/** Whole runs from `first` to `last`, or lines within one run. */
type Part = (Stretch & { runs?: undefined }) | { page: Stretch["page"]; runs: [first: number, last: number] };

/** Parts runs that are whole from those that are not. */
function splitAtRuns({ page, from, to }: Stretch): Part[] {
  const parts: Part[] = [];
  for (let line = from; line < to; ) {
    const run = Math.floor(line / runMarkets);
    const [first, end] = [run * runMarkets, Math.min((run + 1) * runMarkets, page.markets)];
    const last = parts.at(-1);
    if (line > first || end > to) parts.push({ page, from: line, to: Math.min(end, to) });
    else if (last?.runs) last.runs[1] = run;
    else parts.push({ page, runs: [run, run] });
    line = end;
  }
  return parts;
}

// Joining a page of 1.7 MB and computing its checksum takes as long as inflating this many runs.
const stepsToJoin = 16;

/** Nothing else may use the lines: their memory is released. */
async function separated(reading: Promise<readonly Buffer[]>): Promise<Buffer> {
  const lines = await reading;
  if (lines.length > runMarkets) await awaitBudget(stepsToJoin);
  const text = Buffer.concat(
    lines.flatMap((line, position) => (position === 0 ? [line] : [separator, line])),
  );
  release(...lines);
  return text;
}
