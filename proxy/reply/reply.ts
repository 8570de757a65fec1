import { isFault } from "../../schemas/errors.ts";
import type { Asked } from "../../snapshots/read/asked.ts";
import type { Catalog } from "../../snapshots/read/catalog/catalog.ts";
import type { Stream } from "../../snapshots/read/stream.ts";
import { sha256 } from "../../snapshots/store/layout.ts";
import type { Request, Response } from "../exchange.ts";
import { rateLimitHeaders } from "../quota/quota.ts";
import { type Coding, encoded, heldTag, preferredCoding, tagsOf } from "./coding.ts";

/** An answer that is sent as it is read, and what it costs. */
export interface Streamed {
  stream: Stream;
  price: "rows" | "bytes";
}

/** What an endpoint answers, before it is known whether and in which coding the body is wanted. */
export interface Reply extends Partial<Streamed> {
  /** Entity tag of the body in a coding. Without one the answer is never 304. */
  etag?: (coding: Coding) => string;
  /** What is worked out only for a caller who does not name the tag: the whole reply. */
  work?: () => Promise<Reply>;
  /** Whether the caller who names it gets 304 without that work. */
  stands?: () => Promise<boolean>;
  /** `private, no-cache` unless it says otherwise. */
  cacheControl?: string;
  /** The snapshot of the answer. It may differ from the one that was current when the request arrived. */
  snapshotId: string | undefined;
  /** The body in parts, which saves copying them together. Left out where a `stream` comes in its place. */
  body?: (coding: Coding) => Promise<readonly Buffer[]>;
  headers?: Record<string, string | number>;
  /** Headers about the body, which a 304 does not have. */
  bodyHeaders?: Record<string, string | number>;
  /** The stream is a part of the whole. */
  partial?: boolean;
  /** The one coding of a body that is not to be made smaller. */
  coding?: Coding;
  /** A reply for when the origin does not deliver the body. */
  instead?: () => Reply | undefined;
}

/** Answers a request that passed its checks. Throws what publicError translates. */
export type Answer = (request: Request, response: Response) => Promise<Reply> | Reply;

/** A small JSON answer that is not cached. A buffer is taken as JSON text. */
export function uncachedJson(value: object, snapshotId?: string): Reply {
  const json = Buffer.isBuffer(value) ? value : Buffer.from(JSON.stringify(value));
  return { snapshotId, cacheControl: "no-store", body: encoded(() => json) };
}

/** The body of a reply that is a JSON text. */
export const jsonBody = (value: object) => ({ body: encoded(() => Buffer.from(JSON.stringify(value))) });

/** A text that every caller gets alike who may have it. */
export function textReply(text: Buffer, snapshotId: string): Reply {
  return { etag: tagsOf(sha256(text)), snapshotId, body: encoded(() => text) };
}

/** A reply that is worked out only for a caller who does not have it. `replyOf` tells what is made of the plan. */
export function lately<Plan>(
  catalog: Catalog,
  { commit, etag, plan }: Asked<Plan>,
  replyOf: (plan: Plan) => Partial<Reply>,
  more: Partial<Reply> = {},
): Reply {
  const known: Reply = { etag: () => etag, snapshotId: commit.snapshotId, ...more };
  return {
    ...known,
    stands: () => catalog.isReadable(commit),
    work: async () => ({ ...known, ...replyOf(await plan()) }),
  };
}

/** A reply ready to be sent to one request. Only reading a stream can still fail. */
export interface Prepared {
  status: 200 | 206 | 304;
  headers: Record<string, string | number>;
  body: readonly Buffer[];
  streamed?: Streamed | undefined;
  /** Whether the caller already has the body, named it by its tag, and so pays nothing. */
  known: boolean;
}

/**
 * Decides status, coding and body of a reply to a request. `begin` is told before anything is worked out, with the
 * price of what would be streamed. Throws what that
 * and the body throw.
 */
export async function prepare(
  request: Request,
  reply: Reply,
  begin: (price: Reply["price"]) => void,
): Promise<Prepared> {
  const held = reply.etag && heldTag(request, reply.etag);
  const atOnce = !reply.work || (held?.named && (await reply.stands?.()) !== false);
  if (!atOnce) begin(held || request.method === "HEAD" ? undefined : reply.price);
  const whole = atOnce ? reply : await reply.work!();
  if (held)
    return { status: 304, headers: { ...headersOf(whole), ETag: held.tag }, body: [], known: held.named };
  const coding = whole.coding ?? preferredCoding(request);
  const { body, sent } = await bodyOf(whole, coding);
  const { stream, price = "rows" } = sent;
  return {
    status: sent.partial ? 206 : 200,
    headers: {
      "Content-Type": "application/json",
      ...(!stream && { "Content-Length": body.reduce((sum, part) => sum + part.length, 0) }),
      // nginx must not read ahead of the client, who pays for what is sent.
      ...(stream && { "X-Accel-Buffering": "no" }),
      ...headersOf(sent),
      ...sent.bodyHeaders,
      ...(sent.etag && { ETag: sent.etag(coding) }),
      ...(coding === "gzip" && { "Content-Encoding": coding }),
    },
    body,
    streamed: stream && { stream, price },
    known: false,
  };
}

function headersOf({ cacheControl = "private, no-cache", snapshotId, headers }: Reply) {
  return {
    "Cache-Control": cacheControl,
    ...(snapshotId !== undefined && { "X-Snapshot-Id": snapshotId }),
    ...headers,
  };
}

/** The body of a reply, or of the reply that replaces it. */
async function bodyOf(reply: Reply, coding: Coding): Promise<{ body: readonly Buffer[]; sent: Reply }> {
  try {
    return { body: (await reply.body?.(coding)) ?? [], sent: reply };
  } catch (error) {
    const other = isFault(error, "UPSTREAM_ERROR", "UPSTREAM_TIMEOUT") && reply.instead?.();
    if (!other) throw error;
    return bodyOf(other, coding);
  }
}

/** Writes the head of an answer: the common headers, the rate limit's and its own. */
export function writeHead(response: Response, { status, headers }: Prepared, now: number): void {
  const { receipt, commonHeaders } = response.locals;
  // All at once: Node takes several times as long for headers that are set one by one.
  response.writeHead(status, {
    ...commonHeaders,
    ...(receipt && rateLimitHeaders(receipt, now)),
    ...headers,
  });
}

/** Sends a prepared reply; to HEAD its headers alone. */
export function send(request: Request, response: Response, prepared: Prepared, now: number): void {
  writeHead(response, prepared, now);
  const { body } = prepared;
  if (request.method === "HEAD") return void response.end();
  // Head and body in one system call.
  if (body.length > 1) response.cork();
  for (const part of body.slice(0, -1)) response.write(part);
  response.end(body.at(-1));
}
