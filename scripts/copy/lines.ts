import { type FileHandle, open, stat, truncate } from "node:fs/promises";
import { crc32 } from "node:zlib";
import { Change, linesFromEnd } from "../../proxy/site/client/client.ts";
import { maxLine, segmentsOf } from "../../proxy/site/client/trees.ts";
import { hexOf, leafHash, rootOf, rootOver, type Subtree } from "../../snapshots/format/tree.ts";

const piece = 2 ** 20;
/** How many bytes are written at a time, and so how many a kill can cost. */
const written = 2 ** 16;
const lineEnd = 10;
/** Of one UTF-16 code unit. */
const maxUtf8Bytes = 3;

/**
 * Reads the lines of a file from the first to the last, without their ends. Use a line before you ask for the next one:
 * all of them come in one buffer, which grows to the longest line. With `torn` the last one need not have an end, and
 * is left out then.
 */
export async function* linesOf(path: string, { torn = false } = {}): AsyncGenerator<Buffer, void, void> {
  await using file = await open(path);
  // Room for a piece of the file, or for all of a short one and the end of line after it.
  const { size } = await stat(path);
  let bytes = Buffer.allocUnsafe(Math.min(piece, size + 1));
  let held = 0;
  for (;;) {
    const { bytesRead } = await file.read(bytes, held, bytes.length - held, null);
    if (bytesRead === 0) break;
    held += bytesRead;
    const all = bytes.subarray(0, held);
    let from = 0;
    for (let end = all.indexOf(lineEnd); end >= 0; end = all.indexOf(lineEnd, from)) {
      yield all.subarray(from, end);
      from = end + 1;
    }
    held -= from;
    if (held < bytes.length) bytes.copyWithin(0, from, from + held);
    // After a power cut a file may end in any number of zeros.
    else if (held > maxUtf8Bytes * maxLine) break;
    else bytes = Buffer.concat([bytes], 2 * bytes.length);
  }
  if (held > 0 && !torn) throw new Error(`the last line of ${path} has no end`);
}

/** Cuts off a last line that has no end, and returns the number of lines; 0 when there is no file. */
export async function wholeLines(path: string): Promise<number> {
  // Makes the file where there is none.
  await (await open(path, "a")).close();
  let [lines, end] = [0, 0];
  for await (const line of linesOf(path, { torn: true })) {
    lines += 1;
    end += line.length + 1;
  }
  await truncate(path, end);
  return lines;
}

/**
 * Writes lines to a file that is open for it, in large pieces, and closes it. Memory holds one piece, in a buffer that
 * grows to the longest line.
 */
export class LineWriter {
  readonly #file: FileHandle;
  #waiting = Buffer.allocUnsafe(2 * written);
  #bytes = 0;
  #busy = false;

  constructor(file: FileHandle) {
    this.#file = file;
  }

  /** Takes a line without its end. Returns a promise when the disk must catch up: await it before the next line. */
  write(line: Buffer | string): Promise<void> | undefined {
    if (this.#busy) throw new Error("a line came while earlier ones are being written");
    const most = this.#bytes + line.length * (typeof line === "string" ? maxUtf8Bytes : 1) + 1;
    if (most > this.#waiting.length) this.#waiting = Buffer.concat([this.#waiting], 2 * most);
    this.#bytes +=
      typeof line === "string"
        ? this.#waiting.write(line, this.#bytes)
        : line.copy(this.#waiting, this.#bytes);
    this.#waiting[this.#bytes] = lineEnd;
    this.#bytes += 1;
    return this.#bytes >= written ? this.#flush() : undefined;
  }

  async #flush(): Promise<void> {
    this.#busy = true;
    for (let at = 0; at < this.#bytes; )
      at += (await this.#file.write(this.#waiting, at, this.#bytes - at)).bytesWritten;
    this.#bytes = 0;
    this.#busy = false;
  }

  async close(): Promise<void> {
    try {
      if (!this.#busy) await this.#flush();
    } finally {
      await this.#file.close();
    }
  }
}

/** A file for `linesFromEnd`. Pieces of one length share memory: use one before you ask for the next. */
export async function fileOf(path: string) {
  const file = await open(path);
  const { size } = await file.stat();
  let bytes = new ArrayBuffer(0);
  return {
    size,
    slice: (start: number, end: number) => ({
      async arrayBuffer(): Promise<ArrayBuffer> {
        if (bytes.byteLength !== end - start) bytes = new ArrayBuffer(end - start);
        const { bytesRead } = await file.read(new Uint8Array(bytes), 0, end - start, start);
        if (bytesRead < end - start) throw new Error(`${path} became shorter while it was read`);
        return bytes;
      },
    }),
    [Symbol.asyncDispose]: () => file.close(),
  };
}

/** Archives are sorted by this key, descending: by time, then by id. */
function sortKeyOf(text: Buffer): string {
  // No string in a record can hold these characters unescaped, and free-form JSON comes after them.
  const at = text.indexOf(resolvedAt) + resolvedAt.length;
  return text.toString("latin1", at, at + 24) + idOf(text);
}

const resolvedAt = Buffer.from(',"resolvedAt":"');
const idOf = (text: Buffer) => text.toString("latin1", 7, 43);

/**
 * Writes a new archive: the old one without the markets that `changes` names, and with the markets that it puts, each
 * in its place. All three files hold lines. Memory grows with the number of changes only.
 */
export async function mergeChanges(archive: string, changes: string, into: string): Promise<void> {
  const named = new Set<string>();
  for await (const { id } of changesIn(changes)) {
    // A copy, because a slice would keep the whole line in memory.
    named.add(Buffer.from(id).toString("latin1"));
  }
  const puts = putsIn(changes);
  const writer = new LineWriter(await open(into, "w"));
  try {
    let put = await puts.next();
    for await (const line of linesOf(archive)) {
      if (named.has(idOf(line))) continue;
      for (; !put.done && put.value.key > sortKeyOf(line); put = await puts.next())
        await writer.write(put.value.text);
      const full = writer.write(line);
      if (full) await full;
    }
    for (; !put.done; put = await puts.next()) await writer.write(put.value.text);
  } finally {
    await writer.close();
    await puts.return();
  }
}

async function* changesIn(path: string): AsyncGenerator<Change, void, void> {
  for await (const line of linesOf(path)) yield new Change(line.toString());
}

async function* putsIn(changes: string) {
  for await (const { op, text } of changesIn(changes))
    if (op === "put") yield { text, key: sortKeyOf(Buffer.from(text)) };
}

/** The tree over the lines of a copy. `segments` are from the oldest up. */
export interface CopyTree {
  archiveRoot: string;
  lines: number;
  bytes: number;
  segments: CopySegment[];
}

/** Its lines are the bytes of the file from `start` to `end`, which is exclusive. */
interface CopySegment extends Subtree {
  pages: Subtree[];
  start: number;
  end: number;
}

/** The tree over a file of lines in the archive's order. Memory holds the roots of its pages. */
export async function treeOf(path: string): Promise<CopyTree> {
  await using file = await fileOf(path);
  const segments: CopySegment[] = [];
  let [lines, end] = [0, file.size];
  for await (const { root, markets, pages, bytes } of segmentsOf(
    { leafHash, rootOf, crc32 },
    linesFromEnd(file),
  )) {
    const named = pages.map((page) => ({ root: hexOf(page.root), markets: page.markets }));
    segments.push({ root: hexOf(root), markets, pages: named, start: end - bytes, end });
    lines += markets;
    end -= bytes;
  }
  return { archiveRoot: hexOf(rootOver("archive", segments)), lines, bytes: file.size, segments };
}
