import { CorruptObjectError, requireEncoding } from "../store/errors.ts";
import { maxRunBytes } from "../store/layout.ts";
import { compressPiece, type DeflatePiece } from "./gzip.ts";
import type { MarketKey } from "./market-line.ts";
import { keyOfLine } from "./market-line.ts";
import { inflatePiece, type Run } from "./page.ts";
import { leafHash } from "./tree.ts";

/** The most lines of a part. */
export const partLines = 512;
/**
 * The last run of a part may have fewer. Answers nearly always take whole runs, so these are longer than those of a
 * page: the first lines of a run have nothing to refer back to.
 */
export const runLines = 64;
const runLevel = 6;

const magic = Buffer.from("PRSCHG\r\n");
const headBytes = magic.length + 8;
const [idBytes, leafBytes, timeBytes, runBytes] = [16, 32, 8, 12];

const [opening, closing] = [Buffer.from('{"op":"put","market":'), Buffer.from("}\n")];
const maxBytes = maxRunBytes(runLines, opening.length + closing.length);

/** The line of an answer that puts this market into a copy. */
export function putLine(market: Buffer): Buffer {
  return Buffer.concat([opening, market, closing]);
}

/** Encodes markets, newest first (snapshots/SPEC.md, "Change records"). */
export async function encodeChangePart(markets: readonly (MarketKey & { line: Buffer })[]): Promise<Buffer> {
  const lengths = Buffer.alloc(8);
  lengths.writeUInt32LE(markets.length, 0);
  const ids = markets.map(({ id }) => Buffer.from(id.replaceAll("-", ""), "hex"));
  const leaves = markets.map(({ line }) => leafHash(line));
  const times = Buffer.alloc(markets.length * timeBytes);
  for (const [position, { resolvedAt }] of markets.entries())
    times.writeBigUInt64LE(BigInt(resolvedAt), position * timeBytes);
  const raws = Array.from({ length: runsOf(markets.length) }, (_, run) =>
    Buffer.concat(markets.slice(run * runLines, (run + 1) * runLines).map(({ line }) => putLine(line))),
  );
  const pieces = await Promise.all(raws.map((raw) => compressPiece(raw, runLevel)));
  const table = Buffer.from(
    Uint32Array.from(pieces.flatMap(({ bytes, rawBytes, crc }) => [bytes.length, rawBytes, crc])).buffer,
  );
  return Buffer.concat([
    magic,
    lengths,
    ...ids,
    ...leaves,
    times,
    table,
    ...pieces.map(({ bytes }) => bytes),
  ]);
}

const runsOf = (lines: number) => Math.ceil(lines / runLines);

/** Undefined when the text lacks the time. */
function keyIn(market: Buffer): MarketKey | undefined {
  try {
    return keyOfLine(market);
  } catch {
    return undefined;
  }
}

/** Lines are counted from 0, newest first. */
export class ChangePart {
  readonly lines: number;
  readonly #key: string;
  readonly #stored: Buffer;
  readonly #runs: readonly Run[];
  readonly #firstRun: number;

  /** `key` is the object's, for errors. */
  constructor(key: string, stored: Buffer) {
    this.#key = key;
    this.#stored = stored;
    if (stored.length < headBytes || !stored.subarray(0, magic.length).equals(magic))
      throw this.#corrupt("it does not begin as a part of a change record does");
    requireEncoding(key, stored.readUInt32LE(magic.length + 4));
    this.lines = stored.readUInt32LE(magic.length);
    const runTable = headBytes + this.lines * (idBytes + leafBytes + timeBytes);
    this.#firstRun = runTable + runsOf(this.lines) * runBytes;
    const sound = this.lines > 0 && this.lines <= partLines && this.#firstRun <= stored.length;
    if (!sound) throw this.#corrupt("its number of lines is wrong");
    this.#runs = Array.from({ length: runsOf(this.lines) }, (_, run) => {
      const at = runTable + run * runBytes;
      const [compressedBytes, rawBytes, crc] = [0, 4, 8].map((offset) => stored.readUInt32LE(at + offset));
      return { compressedBytes: compressedBytes!, rawBytes: rawBytes!, crc: crc! };
    });
    const end = this.#runs.reduce((sum, { compressedBytes }) => sum + compressedBytes, this.#firstRun);
    if (end !== stored.length || this.#runs.some(({ rawBytes }) => rawBytes > maxBytes))
      throw this.#corrupt("its table of runs is wrong");
  }

  market(line: number): MarketKey {
    const hex = this.#stored.toString("hex", headBytes + line * idBytes, headBytes + (line + 1) * idBytes);
    const id = hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
    const times = headBytes + this.lines * (idBytes + leafBytes);
    return { id, resolvedAt: Number(this.#stored.readBigUInt64LE(times + line * timeBytes)) };
  }

  leaf(line: number): Buffer {
    const leaves = headBytes + this.lines * idBytes;
    return this.#stored.subarray(leaves + line * leafBytes, leaves + (line + 1) * leafBytes);
  }

  /** The lines in the form of an answer; they can be copied into any deflate stream. */
  run(index: number): DeflatePiece {
    const before = this.#runs.slice(0, index).reduce((sum, { compressedBytes }) => sum + compressedBytes, 0);
    const { compressedBytes, rawBytes, crc } = this.#runs[index]!;
    const start = this.#firstRun + before;
    return { bytes: this.#stored.subarray(start, start + compressedBytes), rawBytes, crc };
  }

  /** Each line keeps its line feed. */
  runLines(index: number): Buffer[] {
    const piece = this.run(index);
    const raw = inflatePiece(this.#key, index, piece);
    const lines: Buffer[] = [];
    for (let start = 0; start < raw.length; ) {
      const end = raw.indexOf(10, start) + 1;
      if (end === 0) throw this.#corrupt(`run ${index} ends within a line`);
      lines.push(raw.subarray(start, end));
      start = end;
    }
    if (lines.length !== Math.min(runLines, this.lines - index * runLines))
      throw this.#corrupt(`run ${index} does not have as many lines as the table`);
    return lines;
  }

  checked(): Buffer[] {
    const lines = this.#runs
      .keys()
      .flatMap((run) => this.runLines(run))
      .toArray();
    for (const [position, line] of lines.entries()) {
      const market = line.subarray(opening.length, -closing.length);
      const { id, resolvedAt } = this.market(position);
      const key = keyIn(market);
      const sound =
        key?.id === id && key.resolvedAt === resolvedAt && leafHash(market).equals(this.leaf(position));
      if (!sound || !line.equals(putLine(market)))
        throw this.#corrupt(`line ${position} is not the market of the table`);
    }
    return lines;
  }

  #corrupt(what: string): CorruptObjectError {
    return new CorruptObjectError(this.#key, what);
  }
}
