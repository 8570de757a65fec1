import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { constants, createGzip } from "node:zlib";
import { Fault } from "../../schemas/errors.ts";
import { paging } from "../../schemas/filters.ts";
import { chunkBytes } from "../../snapshots/format/bytes.ts";
import { beginStream, type StoredFile, type StreamChunk } from "../../snapshots/read/answer.ts";
import { within } from "../../snapshots/store/deadline.ts";
import type { ByteRange } from "../../snapshots/store/storage.ts";
import type { Request, Response } from "../exchange.ts";
import { quotaExceeded, type Receipt } from "../quota/quota.ts";
import type { ProxyServices } from "../services.ts";
import { noteError } from "./problem.ts";
import { heldTag, type Prepared, type Reply, type Streamed, writeHead } from "./reply.ts";

/**
 * How many rows or bytes a unit pays for (as many rows as the largest page has), and how many such answers an owner may
 * have at a time. Readers of Parquet ask for several ranges at once.
 */
const prices = {
  rows: { perUnit: paging.maxPageSize, atOnce: 1, answers: "one answer with all rows" },
  bytes: { perUnit: chunkBytes.file, atOnce: 8, answers: "8 downloads" },
} as const;

/** Refuses a stream that the units left today do not pay for as a whole. */
export function requireUnits(
  { stream: { count, advice }, price }: Streamed,
  { plan, limit, remaining, resetAt, units: taken }: Receipt,
): void {
  const { perUnit } = prices[price];
  const units = Math.max(1, Math.ceil(count / perUnit));
  const balance = remaining + taken;
  if (units <= balance) return;
  // The number of rows stays unsaid, because totals have a price.
  const detail =
    `These ${price} take a unit for every ${perUnit}, more than the ${balance} left of the ${plan} plan's ` +
    `${limit} until ` +
    `${new Date(resetAt).toISOString()}. ${advice}`;
  throw new Fault("QUOTA_EXCEEDED", detail);
}

/** Sends answers of any length, and to each owner a bounded number at a time. */
export function createStreamSender({ quota, metrics, limits, now }: ProxyServices) {
  /** By price and owner. */
  const open = new Map<string, number>();

  /**
   * Takes units as a stream is sent. The units that the request took before pay for its beginning. Breaks the answer
   * off when the caller's key has ended.
   */
  async function* paid(chunks: AsyncIterable<StreamChunk>, perUnit: number, response: Response) {
    const { locals: exchange } = response;
    let [sent, covered] = [0, perUnit * (exchange.receipt?.units ?? 1)];
    try {
      for await (const { count, text } of chunks) {
        const caller = exchange.identify!();
        sent += count;
        let taken: Receipt | undefined;
        if (sent > covered) {
          taken = await quota.take(caller, 1);
          if (!taken.allowed) throw quotaExceeded(taken);
          covered += perUnit;
          response.deadline?.refresh();
        }
        try {
          yield text;
          taken = undefined;
        } finally {
          // A caller who went away was not sent this chunk.
          await taken?.giveBack();
        }
      }
    } catch (thrown) {
      // Noted here because the request is logged as soon as its connection is gone.
      const error = noteError(thrown, exchange);
      metrics.brokenOff.inc({ code: error.code });
      throw error;
    }
  }

  const groupOf = (price: Streamed["price"], owner: string) => `${price} ${owner}`;

  function requireRoom(price: Streamed["price"], owner: string): void {
    const { atOnce, answers } = prices[price];
    if ((open.get(groupOf(price, owner)) ?? 0) < atOnce) return;
    throw new Fault("TOO_MANY_CONNECTIONS", `One owner may have ${answers} at a time.`);
  }

  async function sendStream({ stream, price, ...answer }: Prepared & Streamed, response: Response) {
    const { locals: exchange } = response;
    const { perUnit } = prices[price];
    const { owner } = exchange.identify!();
    requireRoom(price, owner);
    const group = groupOf(price, owner);
    open.set(group, (open.get(group) ?? 0) + 1);
    try {
      const gzip = answer.headers["Content-Encoding"] === "gzip";
      // Before the head is written, so that a store that cannot be read is still answered with a problem.
      const { chunks, compressed } = await within(limits.answerSeconds, () => beginStream(stream, { gzip }));
      writeHead(response, answer, now());
      const steps = gzip && !compressed ? [createGzip(speed)] : [];
      const source = Readable.from(paid(chunks, perUnit, response));
      // An early end destroys the connection, so that no client takes the answer for complete. `paid` has reported our
      // faults.
      await pipeline([source, ...steps, response]).catch(() => {});
    } finally {
      const remaining = open.get(group)! - 1;
      if (remaining > 0) open.set(group, remaining);
      else open.delete(group);
    }
  }

  return { requireRoom, sendStream };
}

// Stored pages separate rows with commas and NDJSON does not, so rows are decompressed and compressed again.
const speed = { level: constants.Z_BEST_SPEED, chunkSize: 64 * 1024 };

/** A reply with a file, or with the range of it that a request asks for. */
export function fileReply(request: Request, file: StoredFile, snapshotId?: string): Reply {
  const { bytes, hash, contentType, ranges } = file;
  const tag = `"${hash}"`;
  const etag = () => tag;
  // A caller who has the file gets 304, whatever range it wants (RFC 9110, 13.2.2).
  const range = !ranges || heldTag(request, etag) ? undefined : rangeOf(request, { bytes, tag });
  const part = range ?? { offset: 0, bytes };
  return {
    etag,
    snapshotId,
    coding: "identity",
    price: "bytes",
    content: () => ({
      headers: {
        "Content-Type": contentType,
        "Content-Length": part.bytes,
        ...(ranges && { "Accept-Ranges": "bytes" }),
        ...(range && { "Content-Range": `bytes ${part.offset}-${part.offset + part.bytes - 1}/${bytes}` }),
      },
      partial: range !== undefined,
      // HEAD also tells the size to a caller whose units do not pay for the whole file.
      ...(request.method !== "HEAD" && { stream: file.read(part) }),
    }),
  };
}

/**
 * The one range that a request asks for. Undefined stands for the whole file, also where a request asks for several
 * ranges or If-Range names another file (RFC 9110, 14.2). HEAD has ranges too, as in S3: DuckDB in a browser reads the
 * whole file unless a HEAD with Range is answered 206.
 */
function rangeOf(
  { headers }: Request,
  { bytes, tag }: { bytes: number; tag: string },
): ByteRange | undefined {
  const [, first, last] = /^bytes=(\d*)-(\d*)$/i.exec(headers.range ?? "") ?? [];
  if ((headers["if-range"] ?? tag) !== tag || !(first || last)) return undefined;
  const from = first ? Number(first) : Math.max(0, bytes - Number(last));
  const to = first && last ? Math.min(bytes, Number(last) + 1) : bytes;
  if (first && last && Number(last) < from) return undefined;
  if (from < to) return { offset: from, bytes: to - from };
  throw new Fault("RANGE_NOT_SATISFIABLE", "Content-Range says how many bytes the file has.", {
    size: bytes,
  });
}
