import type { Filters } from "../../../schemas/filters.ts";
import type { HistoricalMarket } from "../../../schemas/records.ts";
import { ApiError, broken, check, VerificationError } from "./errors.ts";
import { timeIn } from "./proofs.ts";
import { maxLine } from "./trees.ts";
import type { Vouched } from "./types.ts";

/** @internal What is asked with a request. */
export type Query = Record<string, string | number | boolean | readonly string[] | undefined>;

/** @internal Does a part of the work on an answer, in time. */
export type Step = <T>(work: () => Promise<T>) => Promise<T>;

/** @internal What is parsed of a body that is read whole. */
export type ReadText = <T>(parse: (text: string) => T) => Promise<T>;

/** @internal Reads the lines of an answer. */
type Open<A extends Answer> = (answer: A) => AsyncGenerator<string, void, void>;

/** One market of an answer in lines. */
export class Row {
  /** The market's JSON text, byte for byte as in the archive. */
  declare text: string;
  #csvOf: ((text: string) => Promise<string>) | undefined;

  constructor(text: string, csvOf?: ((text: string) => Promise<string>) | undefined) {
    this.text = text;
    this.#csvOf = csvOf;
  }

  /**
   * The market as the service writes it in CSV, with the line's end, below `csvHead` of the rows. Of verified rows
   * only.
   */
  get csv(): Promise<string> | undefined {
    return this.#csvOf?.(this.text);
  }

  /** The market, parsed whenever it is read. */
  get market(): HistoricalMarket {
    return JSON.parse(this.text);
  }
}

/** An answer in lines. Its members are known when the first line has come. It can be iterated over once. */
export class Answer {
  /** Snapshot of the answer. */
  snapshotId = "";
  /** Number of lines of the whole answer, also of those skipped. */
  count = -1;
  /** Whole lines received, also those skipped. */
  declare skip: number;
  /** @internal */
  declare query: Query;

  /** @internal */
  constructor(query: Query, skip: number) {
    this.query = query;
    this.skip = skip;
  }

  /** @internal */
  opened(headers: Headers, end: number): void {
    const snapshotId = headers.get("X-Snapshot-Id") ?? "";
    check(
      this.count < 0 || (snapshotId === this.snapshotId && end === this.count),
      `The answer goes on as ${end} lines of ${snapshotId}.`,
    );
    [this.snapshotId, this.count] = [snapshotId, end];
  }
}

/** The rows of Client.rows. */
export class Rows extends Answer implements AsyncIterable<Row> {
  #asOf: string | undefined;
  #open: Open<Rows>;
  /** Cursor of the place where the answer begins. With `skip` it leads to where the rows received end. */
  declare cursor: string | undefined;
  /** Number of markets that match. */
  total = -1;
  /** Of verified rows: what they were checked against. */
  declare vouched: Vouched | undefined;
  /** Of verified rows: the first line of the service's CSV, with its end. */
  declare csvHead: string | undefined;
  /** @internal */
  declare csvOf: ((text: string) => Promise<string>) | undefined;

  /** @internal */
  constructor({ skip = 0, ...query }: Filters, open: Open<Rows>) {
    super(query, skip);
    this.#asOf = query.asOf;
    this.cursor = query.cursor;
    this.#open = open;
  }

  /** @internal */
  override opened(headers: Headers, end: number): void {
    super.opened(headers, end);
    const asOf = this.#asOf;
    const matches = asOf === undefined || !Number.isNaN(timeIn(asOf)) || this.snapshotId === asOf;
    check(matches, `The rows are of snapshot ${this.snapshotId}, not of ${asOf}.`);
    this.total = Number(headers.get("X-Total-Count"));
    // The cursor of a later answer begins behind the rows skipped.
    this.cursor ??= headers.get("X-Cursor") ?? undefined;
    this.query = { ...(this.cursor !== undefined && { cursor: this.cursor }) };
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Row, void, unknown> {
    for await (const text of this.#open(this)) yield new Row(text, this.csvOf);
  }
}

/** One line of the difference between two snapshots. */
export class Change extends Row {
  declare op: "delete" | "put";
  /** Id of the market. */
  declare id: string;
  /** The line as it came. */
  declare line: string;

  constructor(line: string) {
    // The market is not parsed and written again: its text must stay what it is, byte for byte.
    const put = /^\{"op":"put","market":(\{"id":"([0-9a-f-]{36})".*\})\}$/s.exec(line);
    const id = put?.[2] ?? /^\{"op":"delete","id":"([0-9a-f-]{36})"\}$/.exec(line)?.[1];
    check(id !== undefined, "A line is no change.");
    super(put?.[1] ?? "");
    this.line = line;
    this.op = put ? "put" : "delete";
    this.id = id;
  }
}

/** The lines of Client.changes. */
export class Changes extends Answer implements AsyncIterable<Change> {
  #open: Open<Changes>;
  /** Snapshot from which the difference leads to `snapshotId`. */
  declare since: string;
  /** The archive's root of `snapshotId`. */
  archiveRoot = "";
  #until: string | undefined;

  /** @internal */
  constructor(
    { since, until, skip }: { since: string; until: string | undefined; skip: number },
    open: Open<Changes>,
  ) {
    super({ since, until }, skip);
    this.since = since;
    this.#until = until;
    this.#open = open;
  }

  /** @internal */
  override opened(headers: Headers, end: number): void {
    super.opened(headers, end);
    const { since, snapshotId: until } = this;
    check((this.#until ?? until) === until, `The changes lead to another snapshot, ${until}.`);
    this.query = { since, until };
    this.archiveRoot = headers.get("X-Archive-Root") ?? "";
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Change, void, unknown> {
    for await (const line of this.#open(this)) yield new Change(line);
  }
}

/** @internal */
export const utf8 = () => new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** @internal Whole lines of an answer without their ends. What follows the last end is left out. */
export async function* linesOf({ body }: Response, step: Step): AsyncGenerator<string[], void, void> {
  if (!body) return;
  const reader = body.getReader();
  const decoder = utf8();
  let rest = "";
  for (;;) {
    const piece = await step(async () => {
      const { done, value } = await reader.read();
      return done ? undefined : decoder.decode(value, { stream: true });
    });
    if (piece === undefined) {
      if (rest) throw broken("The last line has no end.");
      return;
    }
    const lines = (rest + piece).split("\n");
    rest = lines.pop() ?? "";
    check(rest.length <= maxLine, `A line is longer than ${maxLine} characters.`);
    yield lines;
  }
}

/**
 * @internal The bytes of an answer. More than `most` of them would belie what is known of it, and `maxBytes` is what
 * the caller takes of any. They are copied into one buffer: a piece can be a single byte, and would cost hundreds.
 */
export async function bytesIn(
  { body, headers, type }: Response,
  { path, most = Infinity, maxBytes }: { path: string; most?: number; maxBytes: number },
  step: Step = (work) => work(),
) {
  const reader = body?.getReader();
  const bound = Math.min(most, maxBytes);
  let bytes = new Uint8Array(Math.min(bound, 2 ** 16));
  let came = 0;
  while (reader) {
    const { done, value } = await step(() => reader.read());
    if (done) break;
    const before = came;
    came += value.length;
    if (came > bound) {
      await reader.cancel();
      const detail = `More than ${bound} bytes came for ${path}.`;
      throw bound < most
        ? new ApiError("UNEXPECTED_ANSWER", detail)
        : new VerificationError("answer", detail);
    }
    if (came > bytes.length) {
      const larger = new Uint8Array(Math.min(bound, Math.max(came, 2 * before)));
      larger.set(bytes);
      bytes = larger;
    }
    bytes.set(value, before);
  }
  // Of a compressed body the length says nothing, and scripts of other origins do not see whether it was compressed.
  const length =
    type === "cors" || headers.has("Content-Encoding") ? 0 : Number(headers.get("Content-Length"));
  if (came < length) throw broken(`${came} of ${length} bytes came.`);
  return bytes.subarray(0, came);
}

/** @internal The error of an answer that is none of success. */
export async function refusalOf(response: Response, text: ReadText): Promise<ApiError> {
  const { status, headers } = response;
  const retryAfter = Number(headers.get("Retry-After") || "none");
  const about = {
    status,
    requestId: headers.get("X-Request-Id") ?? undefined,
    retryAfter: retryAfter >= 0 ? retryAfter : undefined,
  };
  if (headers.get("Content-Type")?.startsWith("application/problem+json")) {
    const { code, detail, title, parameter, resumeCursor, nearest } = await text(JSON.parse);
    return new ApiError(code, detail, { ...about, title, parameter, resumeCursor, nearest });
  }
  await response.body?.cancel();
  const missing = status === 404 || status === 403;
  return new ApiError(
    "UNEXPECTED_ANSWER",
    missing ? "There is nothing at this address." : "Try again later.",
    { ...about, title: missing ? "Not found" : `Error ${status}` },
  );
}
