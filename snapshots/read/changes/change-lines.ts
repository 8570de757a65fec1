import type { ChangePartRef } from "../../../schemas/store/stored-objects.ts";
import {
  comparisonsPerTurn,
  difference,
  idColumn,
  idCount,
  idText,
  putsOf,
  type Sides,
} from "../../changes/difference.ts";
import { ChangePart, partLines, putLine } from "../../changes/record.ts";
import { compressPiece, type DeflatePiece, gzipEnd, gzipHeader, measureOf } from "../../format/gzip.ts";
import { type CompressedPage, readRun, runMarkets } from "../../format/page.ts";
import type { Turn } from "../../store/in-parallel.ts";
import { layout } from "../../store/layout.ts";
import type { StreamChunk } from "../answer.ts";
import { awaitBudget, budgets, Memo } from "../budgets.ts";
import type { ObjectCache } from "../catalog/caches.ts";

/** The net difference between two snapshots. */
export interface NetChanges {
  /** A column of ids, ascending. */
  deletes: Uint32Array;
  /** Where the text of each market to be put is, newest first. */
  puts: Uint32Array;
  texts: ChangeTexts;
  /** Bytes of memory. */
  bytes: number;
}

/** Tags of the newer side must be those of `tagOf`. */
export async function netOf(sides: Sides, texts: ChangeTexts, turn: Turn): Promise<NetChanges> {
  const changes = await difference(sides, turn);
  const puts = await putsOf(changes, sides.after, turn);
  const deletes = idColumn(changes.removed.length);
  for (const [position, index] of puts.entries()) {
    if (position % comparisonsPerTurn === 0) await turn();
    puts[position] = sides.after.tag(index);
  }
  for (const [position, index] of changes.removed.entries()) {
    if (position % comparisonsPerTurn === 0) await turn();
    sides.before.copyId(index, deletes, position);
  }
  return { deletes, puts, texts, bytes: deletes.byteLength + puts.byteLength + texts.bytes };
}

export const linesOf = ({ deletes, puts }: NetChanges) => idCount(deletes) + puts.length;

/** The most deletes of a chunk, and the most puts of one that is not a stored run. */
const [deletesAtOnce, putsAtOnce] = [500, 64];
const level = 6;

/** Lines that are sent together. `piece` is there when they are stored in the form that is sent. */
interface Chunk {
  count: number;
  text: () => Promise<Buffer>;
  piece?: () => Promise<DeflatePiece>;
}

/** Leaves out the first `skip` lines. */
export async function* readChanges(net: NetChanges, skip: number): AsyncGenerator<StreamChunk, void, void> {
  for (const { count, text } of chunksOf(net, skip)) yield { count, text: await text() };
}

/** One gzip member. Whole runs are copied as they are stored. */
export async function* readChangesGzip(
  net: NetChanges,
  skip: number,
): AsyncGenerator<StreamChunk, void, void> {
  let [head, sent] = [gzipHeader, measureOf([])];
  for (const { count, text, piece } of chunksOf(net, skip)) {
    const deflated = piece ? await piece() : await compressPiece(await text(), level);
    yield { count, text: Buffer.concat([head, deflated.bytes]) };
    [head, sent] = [Buffer.alloc(0), measureOf([sent, deflated])];
  }
  yield { count: 0, text: Buffer.concat([head, gzipEnd(sent)]) };
}

function* chunksOf({ deletes, puts, texts }: NetChanges, skip: number): Generator<Chunk> {
  const read = marketReader(texts);
  const gone = idCount(deletes);
  for (let at = skip; at < gone; at += deletesAtOnce) {
    const count = Math.min(deletesAtOnce, gone - at);
    const lines = () =>
      Array.from({ length: count }, (_, position) => deleteLine(idText(deletes, at + position)));
    yield { count, text: async () => Buffer.from(lines().join("")) };
  }
  for (let at = Math.max(0, skip - gone); at < puts.length; ) {
    const whole = wholeRunAt(puts, at, texts);
    const count = whole || looseFrom(puts, at, texts);
    const some = puts.subarray(at, at + count);
    const { source, line } = sourceOf(some[0]!);
    const { piece } = texts;
    yield {
      count,
      async text() {
        const lines: Buffer[] = [];
        for (const tag of some) lines.push(putLine(await read(tag)));
        return Buffer.concat(lines);
      },
      ...(whole && piece && { piece: () => texts.piece!(source, line / runMarkets) }),
    };
    at += count;
  }
}

const deleteLine = (id: string) => `{"op":"delete","id":"${id}"}\n`;

/** The lines of the stored run that begins here and is wanted whole; 0 when there is none. */
function wholeRunAt(puts: Uint32Array, at: number, texts: ChangeTexts): number {
  const { source, line } = sourceOf(puts[at]!);
  const count = Math.min(runMarkets, texts.lines(source) - line);
  const last = at + count - 1;
  const begins = line % runMarkets === 0 && last < puts.length;
  if (!begins) return 0;
  for (let next = at + 1; next <= last; next += 1) if (puts[next] !== puts[next - 1]! + 1) return 0;
  return count;
}

function looseFrom(puts: Uint32Array, at: number, texts: ChangeTexts): number {
  let end = at + 1;
  while (end < puts.length && end - at < putsAtOnce && !(texts.piece && wholeRunAt(puts, end, texts)))
    end += 1;
  return end - at;
}

/** Where the texts of changed markets are stored: in objects of at most 512 lines, in runs. */
export interface ChangeTexts {
  /** Bytes of memory. */
  readonly bytes: number;
  lines(source: number): number;
  /** The texts of a run's markets. */
  run(source: number, run: number): Promise<Buffer[]>;
  /** The compressed puts of a run, where they are stored in this form. */
  piece?(source: number, run: number): Promise<DeflatePiece>;
}

/** One number for a line of an object: a page has at most as many as a part. */
export const tagOf = (source: number, line: number) => source * partLines + line;
const sourceOf = (tag: number) => ({ source: Math.floor(tag / partLines), line: tag % partLines });

// Bytes of memory for a part, and for a page table entry with up to 32 runs.
const [partBytes, pageBytes] = [300, 4000];

/** The place of an object among those that have texts. It is added unless it came last. */
export function placeIn<Source>(sources: Source[], source: Source): number {
  if (sources.at(-1) !== source) sources.push(source);
  return sources.length - 1;
}

export function partTexts(objects: ObjectCache, parts: readonly ChangePartRef[]): ChangeTexts {
  const partAt = async (source: number) => {
    const ref = parts[source]!;
    const key = layout.changePart(ref.hash);
    const stored = await objects.get(key, ref);
    await awaitBudget();
    return new ChangePart(key, stored, ref.lines);
  };
  return {
    bytes: parts.length * partBytes,
    lines: (source) => parts[source]!.lines,
    run: async (source, run) => (await partAt(source)).markets(run),
    piece: async (source, run) => (await partAt(source)).piece(run),
  };
}

export function pageTexts(objects: ObjectCache, pages: readonly CompressedPage[]): ChangeTexts {
  return {
    bytes: pages.length * pageBytes,
    lines: (source) => pages[source]!.markets,
    async run(source, run) {
      const page = pages[source]!;
      const key = layout.page(page.hash);
      return readRun(key, await objects.get(key, page), page, run);
    },
  };
}

/** Reads markets by their tags. Keeps the runs that were read last: several records may take turns. */
function marketReader(texts: ChangeTexts): (tag: number) => Promise<Buffer> {
  const runs = new Memo<Buffer[]>(budgets.changeRuns, (markets) =>
    markets.reduce((sum, { length }) => sum + length, 1),
  );
  return async (tag) => {
    const { source, line } = sourceOf(tag);
    const run = Math.floor(line / runMarkets);
    const markets = await runs.get(`${source}/${run}`, async () => {
      await awaitBudget();
      return texts.run(source, run);
    });
    return markets[line % runMarkets]!;
  };
}
