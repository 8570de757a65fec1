import { difference, putsOf, type Sides } from "../../changes/difference.ts";
import { idColumn, idCount, idText } from "../../changes/entries.ts";
import { atOnce, type YieldLoop } from "../../changes/sort.ts";
import { compressPiece, type DeflatePiece, GzipMember } from "../../format/gzip.ts";
import type { StreamChunk } from "../stream.ts";
import { type ChangeTexts, KeptRuns, sourceOf } from "./change-texts.ts";

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

/** The texts of the newer side must be tagged. */
export async function netOf(sides: Sides, texts: ChangeTexts, yieldLoop: YieldLoop): Promise<NetChanges> {
  const found = await difference(sides, yieldLoop);
  const puts = await putsOf(found, sides.after, yieldLoop);
  const deletes = idColumn(found.removed.length);
  for (const [position, index] of puts.entries()) {
    if (position % atOnce === 0) await yieldLoop();
    puts[position] = sides.after.tag(index);
  }
  for (const [position, index] of found.removed.entries()) {
    if (position % atOnce === 0) await yieldLoop();
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
  const member = new GzipMember();
  for (const { count, text, piece } of chunksOf(net, skip)) {
    const deflated = piece ? await piece() : await compressPiece(await text(), level);
    yield { count, text: member.add(deflated) };
  }
  yield { count: 0, text: member.end() };
}

function* chunksOf({ deletes, puts, texts }: NetChanges, skip: number): Generator<Chunk> {
  const runs = new KeptRuns(texts);
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
      text: () => textOf(some, runs),
      ...(whole && piece && { piece: () => texts.piece!(source, line / texts.runLines) }),
    };
    at += count;
  }
}

const deleteLine = (id: string) => `{"op":"delete","id":"${id}"}\n`;

/** The lines of the stored run that begins here and is wanted whole; 0 when there is none. */
function wholeRunAt(puts: Uint32Array, at: number, texts: ChangeTexts): number {
  const { source, line } = sourceOf(puts[at]!);
  const count = Math.min(texts.runLines, texts.lines(source) - line);
  const last = at + count - 1;
  const begins = line % texts.runLines === 0 && last < puts.length;
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

async function textOf(tags: Uint32Array, runs: KeptRuns): Promise<Buffer> {
  const lines: Buffer[] = [];
  for (const tag of tags) lines.push(await runs.line(tag));
  return Buffer.concat(lines);
}
