import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { constants, createGzip } from "node:zlib";
import { ndjson } from "../../schemas/endpoints.ts";
import { errors } from "../../schemas/errors.ts";
import { paging } from "../../schemas/filters.ts";
import type { RowsChunk, RowsPlan } from "../../snapshots/read/rows.ts";
import type { Identity } from "../access/identity.ts";
import type { Exchange, Request, Response } from "../exchange.ts";
import { type Quota, quotaExceeded, type Receipt } from "../quota/quota.ts";
import type { InTime } from "../routes/deadline.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import { serviceErrorOf } from "./errors-of.ts";
import { vary } from "./headers.ts";
import { type Prepared, type Reply, writeHead } from "./reply.ts";
import { ServiceError } from "./service-error.ts";

/** What a unit of the quota pays for: as many rows as the largest page has. */
const rowsPerUnit = paging.maxPageSize;

/**
 * Whether a request prefers NDJSON to JSON (RFC 9110, 12.5.1); JSON is what it gets when it says nothing, or accepts
 * neither. Throws ServiceError BAD_REQUEST when it could not tell a whole answer from one that broke off.
 */
export function prefersRows(request: Request): boolean {
  if (request.accepts("application/json", ndjson) !== ndjson) return false;
  if (request.httpVersion !== "1.0") return true;
  throw new ServiceError("BAD_REQUEST", `${ndjson} needs HTTP/1.1, where the end of an answer can be told.`);
}

/** Every address that is negotiated says so to caches. */
export const negotiated = { Vary: `${vary}, Accept` };

/** All rows of a plan in one answer. */
export function rowsReply(plan: RowsPlan): Reply {
  return {
    etag: () => plan.etag,
    cacheControl: "private, no-cache",
    snapshotId: plan.snapshot.manifest.snapshotId,
    headers: negotiated,
    bodyHeaders: {
      "Content-Type": ndjson,
      "X-Count": plan.count,
      "X-Total-Count": plan.total,
      "X-Cursor": plan.cursor,
    },
    body: async () => [],
    rows: plan,
  };
}

/** Throws ServiceError QUOTA_EXCEEDED when what is left of the day does not pay for all rows. */
export function requireUnits({ count }: RowsPlan, { plan, limit, remaining, resetAt }: Receipt): void {
  const units = Math.max(1, Math.ceil(count / rowsPerUnit));
  // One was taken with the request.
  const left = remaining + 1;
  if (units <= left) return;
  // Without a number of rows: the unit is given back, and totals are paid for.
  const detail =
    `These rows take a unit for every ${rowsPerUnit}, more than the ${left} left of the ${plan} plan's ${limit} until ` +
    `${new Date(resetAt).toISOString()}. Narrow the filters, or walk the archive by pages, each of which tells the total.`;
  throw new ServiceError("QUOTA_EXCEEDED", detail);
}

/** Sends answers of any number of rows, one at a time to an owner. */
export type SendRows = (answer: Prepared & { rows: RowsPlan }, response: Response) => Promise<void>;

/** What rows are sent by. */
export interface RowsParts {
  quota: Quota;
  /** Hears of every answer broken off from our side. */
  brokeOff: Metrics["brokeOff"];
  inTime: InTime;
  /** Epoch milliseconds. */
  now: () => number;
}

/** A sender of this process. */
export function createRowsSender({ quota, brokeOff, inTime, now }: RowsParts): SendRows {
  const owners = new Set<string>();

  /** Takes the units as rows go out; a request has paid for the first ones. */
  async function* paid(chunks: AsyncIterable<RowsChunk>, exchange: Exchange, identify: () => Identity) {
    let [sent, covered] = [0, rowsPerUnit];
    try {
      for await (const { count, text } of chunks) {
        const caller = identify();
        sent += count;
        if (sent > covered) {
          const receipt = await quota.take(caller, 1);
          if (!receipt.allowed) throw quotaExceeded(receipt);
          covered += rowsPerUnit;
          exchange.prolong?.();
        }
        yield text;
      }
    } catch (thrown) {
      // Here and not where the answer ends: it is logged as soon as its connection is gone.
      const error = serviceErrorOf(thrown);
      exchange.code = error.code;
      if (errors[error.code].status >= 500) exchange.error = error;
      brokeOff(error.code);
      throw error;
    }
  }

  return async ({ rows, ...answer }, response) => {
    const { locals: exchange } = response;
    const identify = exchange.identify!;
    const { owner } = identify();
    if (owners.has(owner))
      throw new ServiceError("TOO_MANY_CONNECTIONS", "One owner may have one answer in NDJSON at a time.");
    // Gone while its answer was planned: nothing would tell any more that the place is free.
    if (response.destroyed) return;
    owners.add(owner);
    response.once("close", () => owners.delete(owner));
    const chunks = rows.read();
    // Before the head: a store that cannot be read can still be told of.
    const first = await inTime(() => chunks.next());
    writeHead(response, answer, now());
    const source = Readable.from(paid(from(first, chunks), exchange, identify));
    const gzip = answer.headers["Content-Encoding"] === "gzip";
    const sent = gzip ? pipeline(source, createGzip(speed), response) : pipeline(source, response);
    // Whatever ends it early destroys the connection, which no client takes for the end; `paid` has told our faults.
    await sent.catch(() => {});
  };
}

/** A sequence whose first element was taken already. */
async function* from<T>(first: IteratorResult<T, void>, others: AsyncIterable<T>) {
  if (first.done) return;
  yield first.value;
  yield* others;
}

// Stored runs have commas where NDJSON has none: they are inflated and compressed anew.
const speed = { level: constants.Z_BEST_SPEED, chunkSize: 64 * 1024 };
