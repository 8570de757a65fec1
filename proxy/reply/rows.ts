import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { constants, createGzip } from "node:zlib";
import { csv, ndjson } from "../../schemas/endpoints.ts";
import { paging } from "../../schemas/filters.ts";
import type { ChangesPlan } from "../../snapshots/read/changes.ts";
import { csvForm } from "../../snapshots/read/csv.ts";
import {
  beginRows,
  ndjsonForm,
  type RowsChunk,
  type RowsForm,
  type RowsPlan,
  type RowsStream,
} from "../../snapshots/read/rows.ts";
import { within } from "../../snapshots/store/deadline.ts";
import type { Identity } from "../access/identity.ts";
import { ServiceError } from "../errors/service-error.ts";
import type { Exchange, Request, Response } from "../exchange.ts";
import type { ProxyParts } from "../parts.ts";
import { quotaExceeded, type Receipt } from "../quota/quota.ts";
import { vary } from "./headers.ts";
import { noteError } from "./problem.ts";
import { type Prepared, type Reply, writeHead } from "./reply.ts";

/** Rows that a unit of the quota pays for: as many as the largest page has. */
const rowsPerUnit = paging.maxPageSize;

const forms = new Map<string | false, { form: RowsForm; contentType: string }>([
  [ndjson, { form: ndjsonForm, contentType: ndjson }],
  [csv, { form: csvForm, contentType: `${csv}; charset=utf-8; header=present` }],
]);

/**
 * The form of rows that a request prefers to JSON (RFC 9110, 12.5.1). One that prefers nothing gets JSON. Throws ServiceError
 * BAD_REQUEST for HTTP/1.0, in which a client could not tell a complete answer from one that was cut off.
 */
export function preferredRows(request: Request) {
  const preferred = request.accepts("application/json", ndjson, csv);
  const found = forms.get(preferred);
  if (found) requireChunks(request, found.contentType);
  return found;
}

/** Throws ServiceError BAD_REQUEST for HTTP/1.0, in which a client could not tell a complete answer from one that was cut off. */
export function requireChunks({ httpVersion }: Request, contentType: string): void {
  if (httpVersion !== "1.0") return;
  const detail = `${contentType.split(";")[0]} needs HTTP/1.1, where the end of an answer can be told.`;
  throw new ServiceError("BAD_REQUEST", detail);
}

/** Headers that tell caches that the media type is negotiated. */
export const negotiated = { Vary: `${vary}, Accept` };

/** A reply that streams rows. */
function streamReply(rows: RowsStream, snapshotId: string, bodyHeaders: Reply["headers"]): Reply {
  return { etag: () => rows.etag, snapshotId, bodyHeaders: { "X-Count": rows.count, ...bodyHeaders }, rows };
}

/** A reply with all rows of a plan. */
export function rowsReply(plan: RowsPlan, contentType: string): Reply {
  const { commit } = plan.snapshot;
  const reply = streamReply(plan, commit.snapshotId, {
    "Content-Type": contentType,
    "X-Total-Count": plan.total,
    "X-Cursor": plan.cursor,
    "X-Archive-Root": commit.archiveRoot,
  });
  return { ...reply, headers: negotiated };
}

/** A reply with what differs between two snapshots. */
export function changesReply(plan: ChangesPlan): Reply {
  return streamReply(plan, plan.until, {
    "Content-Type": ndjson,
    "X-Since-Snapshot-Id": plan.since,
    "X-Archive-Root": plan.archiveRoot,
  });
}

/** Throws ServiceError QUOTA_EXCEEDED when the units left today do not pay for all rows. */
export function requireUnits(
  { count, advice }: RowsStream,
  { plan, limit, remaining, resetAt }: Receipt,
): void {
  const units = Math.max(1, Math.ceil(count / rowsPerUnit));
  // The request took one.
  const left = remaining + 1;
  if (units <= left) return;
  // The number of rows is not told: the unit is given back, and totals have a price.
  const detail =
    `These rows take a unit for every ${rowsPerUnit}, more than the ${left} left of the ${plan} plan's ${limit} until ` +
    `${new Date(resetAt).toISOString()}. ${advice}`;
  throw new ServiceError("QUOTA_EXCEEDED", detail);
}

/** Sends answers of any number of rows, to each owner one at a time. */
export function createRowsSender({ quota, metrics, limits, now }: ProxyParts) {
  const owners = new Set<string>();

  /** Takes units as rows are sent. The request has paid for the first ones. */
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
      // Noted here because the request is logged as soon as its connection is gone.
      const error = noteError(thrown, exchange);
      metrics.brokenOff.inc({ code: error.code });
      throw error;
    }
  }

  return async ({ rows, ...answer }: Prepared & { rows: RowsStream }, response: Response) => {
    const { locals: exchange } = response;
    const identify = exchange.identify!;
    const { owner } = identify();
    if (owners.has(owner)) {
      const detail = "One owner may have one answer with all rows at a time.";
      throw new ServiceError("TOO_MANY_CONNECTIONS", detail);
    }
    owners.add(owner);
    try {
      const gzip = answer.headers["Content-Encoding"] === "gzip";
      // Before the head is written, so that a store that cannot be read is still answered with a problem.
      const { chunks, compressed } = await within(limits.answerSeconds, () => beginRows(rows, { gzip }));
      writeHead(response, answer, now());
      const steps = gzip && !compressed ? [createGzip(speed)] : [];
      const sent = pipeline([Readable.from(paid(chunks, exchange, identify)), ...steps, response]);
      // What ends it early destroys the connection, so that no client takes it for complete. `paid` has reported our faults.
      await sent.catch(() => {});
    } finally {
      owners.delete(owner);
    }
  };
}

// Stored pages separate rows with commas and NDJSON does not, so rows are decompressed and compressed again.
const speed = { level: constants.Z_BEST_SPEED, chunkSize: 64 * 1024 };
