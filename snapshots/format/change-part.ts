import { crc32 } from "node:zlib";
import { CorruptObjectError, unlessSync } from "../store/errors.ts";
import { maxRunBytes } from "../store/layout.ts";
import { cuts } from "./cuts.ts";
import { crcIn, type DeflatePiece, gzipHeader, headerWith, tableIn } from "./gzip.ts";
import { keyOfLine, type MarketKey } from "./market-line.ts";
import {
  compressLines,
  inflatePiece,
  joinRuns,
  type Run,
  rangeOfRuns,
  readRunTable,
  runMarkets,
  runsOf,
  runsPiece,
  runTable,
  runTableBytes,
  splitLines,
} from "./page.ts";
import { leafHash } from "./tree.ts";

/** The most lines of a part. */
export const partLines = cuts.pageMax;

const [opening, closing] = [Buffer.from('{"op":"put","market":'), Buffer.from("}\n")];
const maxBytes = maxRunBytes(runMarkets, opening.length + closing.length);

/** The line of an answer that puts this market into a copy. */
export function putLine(market: Buffer): Buffer {
  return Buffer.concat([opening, market, closing]);
}

/** A market's JSON text, with what it says of itself. */
export interface MarketLine extends MarketKey {
  line: Buffer;
}

const rowBytes = 40;

/** The market's id, the first half of its leaf hash, and its time. Comparing snapshots takes no more of it. */
export function rowOf({ id, resolvedAt, line }: MarketKey & { line: Uint8Array }): Buffer {
  const row = Buffer.alloc(rowBytes);
  row.write(id.replaceAll("-", ""), "hex");
  leafHash(line).copy(row, 16, 0, 16);
  row.writeBigUInt64LE(BigInt(resolvedAt), 32);
  return row;
}

// Every line has its line feed, so nothing stands around lines and between them.
const nothing = Buffer.alloc(0);
const partFrame = { opening: nothing, separator: nothing, closing: nothing };

/** Encodes markets, newest first (snapshots/SPEC.md, "Change records"). */
export async function encodeChangePart(markets: readonly MarketLine[]): Promise<Buffer> {
  const lines = markets.map(({ line }) => putLine(line));
  const headerOf = (runs: readonly Run[]) =>
    headerWith(Buffer.concat([...markets.map(rowOf), Buffer.from(runTable(runs).buffer)]));
  const { stored } = await compressLines(lines, partFrame, headerOf);
  return stored;
}

/**
 * Lines are counted from 0, newest first. A table that lies gives a wrong difference: only `checked` compares it with the
 * lines, and whoever applies a difference checks the root of what comes out.
 */
export class ChangePart {
  readonly lines: number;
  readonly #key: string;
  readonly #stored: Buffer;
  readonly #header: Buffer;
  readonly #rows: Buffer;
  readonly #runs: readonly Run[];

  /** `key` is the object's, for errors, and `lines` is what its record says. */
  constructor(key: string, stored: Buffer, lines: number) {
    this.#key = key;
    this.#stored = stored;
    this.lines = lines;
    const tableBytes = lines * rowBytes + runsOf(lines) * runTableBytes;
    const table = lines <= partLines ? tableIn(stored, tableBytes) : undefined;
    if (!table) throw this.#corrupt("it does not begin with a table of as many lines");
    this.#rows = table.subarray(0, lines * rowBytes);
    this.#runs = readRunTable(table.subarray(lines * rowBytes));
    this.#header = headerWith(table);
    const { offset, bytes } = rangeOfRuns(this.#runs, 0, this.#runs.length - 1, partFrame);
    const tooLong = this.#runs.some(({ rawBytes }) => rawBytes > maxBytes);
    if (tooLong || offset + bytes > this.#plain.length) throw this.#corrupt("its table of runs is wrong");
  }

  /** As rowOf gives it. */
  row(line: number): Buffer {
    return this.#rows.subarray(line * rowBytes, (line + 1) * rowBytes);
  }

  /** The lines of a run in the form of an answer; they can be copied into any deflate stream. */
  piece(run: number): DeflatePiece {
    return runsPiece(this.#plain, this.#runs, run, run, partFrame);
  }

  /** The texts of a run's markets. */
  markets(run: number): Buffer[] {
    const [last, ...others] = splitLines(inflatePiece(this.#key, run, this.piece(run))).reverse();
    if (last!.length > 0) throw this.#corrupt(`run ${run} ends within a line`);
    if (others.length !== Math.min(runMarkets, this.lines - run * runMarkets))
      throw this.#corrupt(`run ${run} does not have as many lines as the table`);
    // Splitting has taken the closing bracket.
    return others.reverse().map((line) => line.subarray(opening.length));
  }

  /** All markets. Checks that each stored byte follows from them. */
  checked(): (MarketLine & { row: Buffer })[] {
    const markets = this.#runs
      .flatMap((_, run) => this.markets(run))
      .map((line, position) => {
        const market = unlessSync(SyntaxError, () => ({ ...keyOfLine(line), line }));
        const row = this.row(position);
        // A row has no place for a time before 1970, or for none.
        if (market && market.resolvedAt >= 0 && rowOf(market).equals(row)) return { ...market, row };
        throw this.#corrupt(`line ${position} is not the market of the table`);
      });
    const pieces = this.#runs.map((_, run) => this.piece(run));
    const text = Buffer.concat(markets.map(({ line }) => putLine(line)));
    if (
      crcIn(this.#stored) !== crc32(text) ||
      !this.#stored.equals(joinRuns(pieces, partFrame, this.#header))
    )
      throw this.#corrupt("it is not the gzip file of its lines");
    return markets;
  }

  /** As it would be behind a header without a table. */
  get #plain(): Buffer {
    return this.#stored.subarray(this.#header.length - gzipHeader.length);
  }

  #corrupt(what: string): CorruptObjectError {
    return new CorruptObjectError(this.#key, what);
  }
}
