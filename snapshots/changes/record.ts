import { crc32 } from "node:zlib";
import type {
  ChangeCounts,
  ChangePartRef,
  ChangeRecord,
  Commit,
  ObjectRef,
} from "../../schemas/store/stored-objects.ts";
import { formatVersion } from "../../schemas/versions.ts";
import { cuts } from "../format/bytes.ts";
import { crcIn, type DeflatePiece, gzipHeader, headerWith, tableIn } from "../format/gzip.ts";
import { type MarketLine, marketOfLine } from "../format/market-line.ts";
import {
  compressLines,
  inflatePiece,
  joinRuns,
  marketsInRun,
  type Run,
  rangeOfRuns,
  readRunTable,
  runMarkets,
  runsOf,
  runsPiece,
  runTable,
  runTableBytes,
  splitLines,
} from "../format/page.ts";
import { leafHash } from "../format/tree.ts";
import { CorruptObjectError, unlessSync } from "../store/errors.ts";
import { inOrder } from "../store/in-parallel.ts";
import { layout, maxRunBytes } from "../store/layout.ts";
import { readManifest } from "../store/manifest.ts";
import { objectsIn, type ReadObject, readParsed, referTo } from "../store/objects.ts";
import type { Storage } from "../store/storage.ts";
import { type ChangedLines, countsOf, difference, Entries, type Sides } from "./difference.ts";
import { differingRows } from "./walk.ts";

/**
 * No change record with more lines is made. This allows an upgrade that changes each of 1,000,000 markets. Readers take
 * about 100 bytes a line, so they had better take a larger archive whole, which is half as many bytes
 * (snapshots/SPEC.md).
 */
export const maxRecordLines = 2_000_000;

/** The content decides the key. */
interface Writer {
  write(key: string, bytes: Buffer): Promise<void>;
}

/** Writes a change record while two archives are compared. Memory holds one part of each side. */
export function changeRecordWriter(objects: Writer) {
  const [lost, gained] = [sideWriter(objects), sideWriter(objects)];
  return {
    /** Places come from the oldest to the newest. */
    async add({ before, after }: ChangedLines): Promise<void> {
      if (before) await lost.add(before);
      if (after) await gained.add(after);
    },
    async finish(named: Pick<ChangeRecord, "since" | "until" | "counts">): Promise<ObjectRef> {
      const { since, until } = named;
      const { added, changed, removed } = named.counts;
      const counts = { added, changed, removed };
      const [before, after] = [await lost.finish(), await gained.finish()];
      const record: ChangeRecord = { formatVersion, since, until, counts, before, after };
      const bytes = Buffer.from(JSON.stringify(record));
      const ref = referTo(bytes);
      await objects.write(layout.changeRecord(ref.hash), bytes);
      return ref;
    },
  };
}

function sideWriter(objects: Writer) {
  const parts: ChangePartRef[] = [];
  let texts: MarketLine[] = [];
  async function endPart(): Promise<void> {
    const bytes = await encodeChangePart(texts.reverse());
    const ref = { ...referTo(bytes), lines: texts.length };
    texts = [];
    await objects.write(layout.changePart(ref.hash), bytes);
    parts.push(ref);
  }
  return {
    async add({ id, resolvedAt, line }: MarketLine): Promise<void> {
      // Copies, since the line may be a view of a whole page or file.
      texts.push({ id, resolvedAt, line: Buffer.from(line) });
      if (texts.length === partLines) await endPart();
    },
    async finish(): Promise<ChangePartRef[]> {
      if (texts.length > 0) await endPart();
      return parts;
    },
  };
}

/** Records what differs between two snapshots of a store; undefined when that is too much. */
export async function recordBetween(
  storage: Storage,
  objects: Writer,
  since: Commit,
  until: Commit,
): Promise<{ ref: ObjectRef; counts: ChangeCounts } | undefined> {
  const writer = changeRecordWriter(objects);
  const sides: Sides = { before: new Entries(), after: new Entries() };
  const older = await readManifest(storage, since);
  const newer = await readManifest(storage, until, older);
  for await (const rows of differingRows(objectsIn(storage), older, newer)) {
    for (const side of ["before", "after"] as const) if (rows[side]) sides[side].add(rowOf(rows[side]));
    await writer.add(rows);
    if (sides.before.size + sides.after.size > maxRecordLines) return undefined;
  }
  const counts = countsOf(await difference(sides));
  const names = { since: since.entry.snapshotId, until: until.entry.snapshotId, counts };
  return { ref: await writer.finish(names), counts };
}

/** Parts of change records, read side by side. */
export function changeParts(
  read: ReadObject,
  parts: ChangeRecord["before"],
  bounds: { concurrency?: number } = {},
): AsyncGenerator<ChangePart, void, void> {
  const readPart = async (ref: ChangePartRef) => {
    const key = layout.changePart(ref.hash);
    return new ChangePart(key, await read(key, ref), ref.lines);
  };
  return inOrder(parts, readPart, { bytes: ({ bytes }) => bytes, ...bounds });
}

/** A change record's own key and those of its parts. */
export async function changeObjects(storage: Storage, ref: ObjectRef): Promise<string[]> {
  const { before, after } = await readParsed(objectsIn(storage), layout.changeRecord, ref);
  return [layout.changeRecord(ref.hash), ...[...before, ...after].map(({ hash }) => layout.changePart(hash))];
}

/** The most lines of a part. */
export const partLines = cuts.pageMax;

const [opening, closing] = [Buffer.from('{"op":"put","market":'), Buffer.from("}\n")];
const maxBytes = maxRunBytes(runMarkets, opening.length + closing.length);

/** The line of an answer that puts this market into a copy. */
export function putLine(market: Buffer): Buffer {
  return Buffer.concat([opening, market, closing]);
}

const rowBytes = 40;

/** The market's id, the first half of its leaf hash, and its time. Comparing snapshots takes no more of it. */
export function rowOf({ id, resolvedAt, line }: MarketLine): Buffer {
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
  const { stored } = await compressLines(lines, partFrame, { headerOf });
  return stored;
}

/**
 * Lines are counted from 0, newest first. A table that lies gives a wrong difference: only `checked` compares it with
 * the lines, and whoever applies a difference checks the root of what comes out.
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
    if (others.length !== marketsInRun(this.lines, run))
      throw this.#corrupt(`run ${run} does not have as many lines as the table`);
    // Splitting has taken the closing bracket.
    return others.reverse().map((line) => line.subarray(opening.length));
  }

  /** All markets. Checks that each stored byte follows from them. */
  checked(): (MarketLine & { row: Buffer })[] {
    const markets = this.#runs
      .flatMap((_, run) => this.markets(run))
      .map((line, position) => {
        const market = unlessSync(CorruptObjectError, () => marketOfLine(this.#key, line));
        const row = this.row(position);
        if (market && rowOf(market).equals(row)) return { ...market, row };
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
