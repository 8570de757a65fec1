import { type FileHandle, open, stat, truncate } from "node:fs/promises";

const piece = 2 ** 20;
/** So much is written at a time; it is what a kill can cost. */
const written = 2 ** 16;
const lineEnd = 10;

/** Reads the lines of a file from the first to the last, without their ends, in constant memory. */
export async function* linesOf(path: string): AsyncGenerator<Buffer, void, void> {
  const file = await open(path);
  try {
    let rest = Buffer.alloc(0);
    for (;;) {
      const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(piece), 0, piece, null);
      if (bytesRead === 0) break;
      const bytes = Buffer.concat([rest, buffer.subarray(0, bytesRead)]);
      let from = 0;
      for (let end = bytes.indexOf(lineEnd); end >= 0; end = bytes.indexOf(lineEnd, from)) {
        yield bytes.subarray(from, end);
        from = end + 1;
      }
      rest = bytes.subarray(from);
    }
    if (rest.length > 0) throw new Error(`the last line of ${path} has no end`);
  } finally {
    await file.close();
  }
}

/** Cuts off a last line that has no end, and returns the number of lines; 0 when there is no file. */
export async function wholeLines(path: string): Promise<number> {
  const file = await open(path, "a+");
  try {
    let [lines, end, at] = [0, 0, 0];
    for (;;) {
      const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(piece), 0, piece, at);
      if (bytesRead === 0) break;
      const bytes = buffer.subarray(0, bytesRead);
      for (let next = bytes.indexOf(lineEnd); next >= 0; next = bytes.indexOf(lineEnd, next + 1)) {
        lines += 1;
        end = at + next + 1;
      }
      at += bytesRead;
    }
    await truncate(path, end);
    return lines;
  } finally {
    await file.close();
  }
}

/** Appends lines to a file, in large pieces. */
export class LineWriter {
  readonly #file: FileHandle;
  #waiting: Buffer[] = [];
  #bytes = 0;
  /** Lines written so far. */
  lines = 0;

  private constructor(file: FileHandle) {
    this.#file = file;
  }

  /** With `fresh` an earlier file is replaced. */
  static async open(path: string, { fresh }: { fresh: boolean }): Promise<LineWriter> {
    return new LineWriter(await open(path, fresh ? "w" : "a"));
  }

  /** Takes a line without its end. Returns a promise when it is time to wait for the disk. */
  write(line: Buffer | string): Promise<void> | undefined {
    const bytes = typeof line === "string" ? Buffer.from(`${line}\n`) : line;
    this.#waiting.push(bytes);
    if (typeof line !== "string") this.#waiting.push(newline);
    this.#bytes += bytes.length + 1;
    this.lines += 1;
    return this.#bytes >= written ? this.flush() : undefined;
  }

  async flush(): Promise<void> {
    const bytes = Buffer.concat(this.#waiting);
    [this.#waiting, this.#bytes] = [[], 0];
    for (let at = 0; at < bytes.length; ) at += (await this.#file.write(bytes, at)).bytesWritten;
  }

  async close(): Promise<void> {
    try {
      await this.flush();
    } finally {
      await this.#file.close();
    }
  }
}

const newline = Buffer.of(lineEnd);

/** A file as `linesFromEnd` takes it. */
export async function fileOf(path: string) {
  const file = await open(path);
  const { size } = await stat(path);
  return {
    size,
    slice: (start: number, end: number) => ({
      async arrayBuffer(): Promise<ArrayBuffer> {
        const bytes = new ArrayBuffer(end - start);
        const { bytesRead } = await file.read(new Uint8Array(bytes), 0, end - start, start);
        if (bytesRead < end - start) throw new Error(`${path} became shorter while it was read`);
        return bytes;
      },
    }),
    [Symbol.asyncDispose]: () => file.close(),
  };
}
