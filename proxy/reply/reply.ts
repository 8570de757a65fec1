import type { Asked } from "../../snapshots/read/asked.ts";
import type { Catalog } from "../../snapshots/read/catalog/catalog.ts";
import type { Stream } from "../../snapshots/read/stream.ts";
import { sha256 } from "../../snapshots/store/layout.ts";
import type { Request, Response } from "../exchange.ts";
import { rateLimitHeaders } from "../quota/quota.ts";
import { type Coding, compress, heldTag, preferredCoding, tagsOf } from "./coding.ts";

/** An answer that is sent as it is read, and what it costs. */
export interface Streamed {
  stream: Stream;
  price: "rows" | "bytes";
}

type Headers = Record<string, string | number>;

/** What is known of an answer before its body. */
interface Head {
  /** Entity tag of the body in a coding. Without one the answer is never 304. */
  etag?: (coding: Coding) => string;
  /** The snapshot of the answer. It may differ from the one that was current when the request arrived. */
  snapshotId: string | undefined;
  /** `private, no-cache` unless it says otherwise. */
  cacheControl?: string;
  headers?: Headers;
}

/** The body of an answer. */
export interface Content {
  /** In parts, which saves copying them together. Left out where a `stream` comes in its place. */
  body?: readonly Buffer[];
  stream?: Stream;
  /** Headers about the body, which a 304 does not have. */
  headers?: Headers;
  /** It is a part of the whole. */
  partial?: boolean;
  /** The head of the answer that comes in the place of the one that was asked for. */
  instead?: Head;
}

/** What an endpoint answers, before it is known whether and in which coding the body is wanted. */
export interface Reply extends Head {
  /** Works out the body in a coding. */
  content: (coding: Coding) => Promise<Content> | Content;
  /** The price of a stream. */
  price?: Streamed["price"];
  /** The one coding of a body that is not to be made smaller. */
  coding?: Coding;
  /**
   * Whether the caller who names the tag gets 304 without the content. Replies have it whose content is work that the
   * caller pays for.
   */
  stands?: () => Promise<boolean>;
}

/** Answers a request that passed its checks. */
export type Answer = (request: Request, response: Response) => Promise<Reply> | Reply;

/** A text as the body. */
export const textContent = async (text: Buffer, coding: Coding): Promise<Content> => ({
  body: [coding === "gzip" ? await compress(text) : text],
});

/** The JSON of a value as the body. */
export const jsonContent = (value: object, coding: Coding) =>
  textContent(Buffer.from(JSON.stringify(value)), coding);

/** A small JSON answer that is not cached. A buffer is taken as JSON text. */
export function uncachedJson(value: object, snapshotId?: string): Reply {
  const json = Buffer.isBuffer(value) ? value : Buffer.from(JSON.stringify(value));
  return { snapshotId, cacheControl: "no-store", content: (coding) => textContent(json, coding) };
}

/** A text that every caller gets alike who may have it. */
export function textReply(text: Buffer, snapshotId: string): Reply {
  return { etag: tagsOf(sha256(text)), snapshotId, content: (coding) => textContent(text, coding) };
}

/** A reply whose content is worked out only for a caller who does not have it. */
export function askedReply<Plan>(
  catalog: Catalog,
  { commit, etag, plan }: Asked<Plan>,
  contentOf: (plan: Plan, coding: Coding) => Promise<Content> | Content,
): Reply {
  return {
    etag: () => etag,
    snapshotId: commit.snapshotId,
    stands: () => catalog.isReadable(commit),
    content: async (coding) => contentOf(await plan(), coding),
  };
}

/** A reply ready to be sent to one request. Only reading a stream can still fail. */
export interface Prepared {
  status: 200 | 206 | 304;
  headers: Headers;
  body: readonly Buffer[];
  streamed?: Streamed | undefined;
  /** Whether the caller already has the body, named it by its tag, and so pays nothing. */
  known: boolean;
}

/**
 * Decides status, coding and body of a reply to a request. `begin` is told before anything is worked out, with the
 * price of what would be streamed. Throws what that and the content throw.
 */
export async function prepare(
  request: Request,
  reply: Reply,
  begin: (price: Reply["price"]) => void,
): Promise<Prepared> {
  const held = reply.etag && heldTag(request, reply.etag);
  const coding = reply.coding ?? preferredCoding(request);
  const has = held && (!reply.stands || (held.named && (await reply.stands())));
  if (!has && reply.stands) begin(held || request.method === "HEAD" ? undefined : reply.price);
  const content = has ? {} : await reply.content(coding);
  if (held)
    return { status: 304, headers: { ...headersOf(reply), ETag: held.tag }, body: [], known: held.named };
  const { body = [], stream, partial, instead: head = reply } = content;
  return {
    status: partial ? 206 : 200,
    headers: {
      "Content-Type": "application/json",
      ...(!stream && { "Content-Length": body.reduce((sum, part) => sum + part.length, 0) }),
      // nginx must not read ahead of the client, who pays for what is sent.
      ...(stream && { "X-Accel-Buffering": "no" }),
      ...headersOf(head),
      ...content.headers,
      ...(head.etag && { ETag: head.etag(coding) }),
      ...(coding === "gzip" && { "Content-Encoding": coding }),
    },
    body,
    streamed: stream && { stream, price: reply.price ?? "rows" },
    known: false,
  };
}

function headersOf({ cacheControl = "private, no-cache", snapshotId, headers }: Head): Headers {
  return {
    "Cache-Control": cacheControl,
    ...(snapshotId !== undefined && { "X-Snapshot-Id": snapshotId }),
    ...headers,
  };
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
