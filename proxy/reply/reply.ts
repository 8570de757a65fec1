import { promisify } from "node:util";
import { gzip, type ZlibOptions } from "node:zlib";
import { LRUCache } from "lru-cache";
import { apiHeaders, negotiatedVary, originHeaders, securityHeaders, vary } from "../../schemas/headers.ts";
import type { Asked, Stream } from "../../snapshots/read/answer.ts";
import type { Catalog } from "../../snapshots/read/catalog/catalog.ts";
import { sha256 } from "../../snapshots/store/layout.ts";
import { joined } from "../../snapshots/store/storage.ts";
import type { Exchange, Request, Response } from "../exchange.ts";
import { rateLimitLines } from "../quota/quota.ts";

/** The headers of an address where the caller chooses the media type. */
export const negotiatedHeaders = { ...apiHeaders, Vary: negotiatedVary };

/** The headers that do not depend on the request, as text. Node would check and join them for each answer. */
const headTexts = new Map<Exchange["addressHeaders"], string>(
  [apiHeaders, negotiatedHeaders, securityHeaders].map((headers) => {
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
    return [headers, lines.join("")];
  }),
);

type HeaderSource = Pick<Exchange, "id" | "snapshotId" | "addressHeaders" | "receipt">;

/** The headers of every answer to one request. They name the snapshot that was current when it arrived. */
export function exchangeHeaders(exchange: HeaderSource, now: number): Record<string, string> {
  const lines = requestLines(exchange, exchange.snapshotId, now).trimEnd().split("\r\n");
  return { ...exchange.addressHeaders, ...Object.fromEntries(lines.map((line) => line.split(": ", 2))) };
}

/** The headers of one request as lines of a head. All values are our own, so Node need not check them. */
function requestLines({ id, receipt }: HeaderSource, snapshotId: string | undefined, now: number): string {
  const snapshot = snapshotId === undefined ? "" : `X-Snapshot-Id: ${snapshotId}\r\n`;
  return `${snapshot}X-Request-Id: ${id}\r\n${receipt ? rateLimitLines(receipt, now) : ""}`;
}

const loopback = ["localhost", "127.0.0.1", "[::1]"];

/** Headers that let pages on loopback addresses and at the service's own address read an answer, and no others. */
export function ownPageHeaders(origin: string | undefined, apiUrl: URL | undefined): Record<string, string> {
  const page = URL.parse(origin ?? "");
  const own = page && (loopback.includes(page.hostname) || page.origin === apiUrl?.origin);
  return { Vary: `${vary}, Origin`, ...(origin && own && originHeaders(origin)) };
}

// An endpoint's Answer makes a Reply of what is known of a request. `prepare` settles its status, coding and body, and
// `send` sends what that gives; a body of any length goes out by stream.ts.

/** An answer that is sent while it is read, and its price. */
export interface Streamed {
  stream: Stream;
  price: "rows" | "bytes";
}

type Headers = Record<string, string | number>;

interface Head {
  /** Entity tag of the body in a coding. Without one the answer is never 304. */
  etag?: (coding: Coding) => string;
  /** The snapshot of the answer. It may differ from the one that was current when the request arrived. */
  snapshotId: string | undefined;
  /** `private, no-cache` if left out. */
  cacheControl?: string;
  headers?: Headers;
}

export interface Content {
  /** In several buffers, which saves joining them; JSON by default. Left out where a `stream` takes its place. */
  body?: readonly Buffer[];
  stream?: Stream;
  /** Headers about the body, which a 304 does not have. */
  headers?: Headers;
  /** Whether it is a range of the whole. */
  partial?: boolean;
  /** The head of another answer, which is sent in place of the one asked for. */
  instead?: Head;
}

/** An endpoint's answer, before it is known whether and in which coding the body is wanted. */
export interface Reply extends Head {
  content: (coding: Coding) => Promise<Content> | Content;
  price?: Streamed["price"];
  /** The only coding, for a body that must not be compressed. */
  coding?: Coding;
  /**
   * Whether the snapshot can still be read, so that a caller who names the tag gets 304 without any work. Replies have
   * it where the caller pays for the work.
   */
  stands?: () => Promise<boolean>;
}

/** Makes a reply from the exchange. The request itself is for answers that depend on more of HTTP. */
export interface Answer {
  (exchange: Exchange, request: Request, response: Response): Promise<Reply> | Reply;
  /** What makes it in other forms than JSON, by media type. */
  others?: ReadonlyMap<string, Answer>;
}

export async function textContent(text: Buffer, coding: Coding, contentType?: string): Promise<Content> {
  const body = [coding === "gzip" ? await compress(text) : text];
  return { body, ...(contentType !== undefined && { headers: { "Content-Type": contentType } }) };
}

export const jsonContent = (value: object, coding: Coding) =>
  textContent(Buffer.from(JSON.stringify(value)), coding);

export function uncachedText(text: Buffer, snapshotId?: string, contentType?: string): Reply {
  return {
    snapshotId,
    cacheControl: "no-store",
    content: (coding) => textContent(text, coding, contentType),
  };
}

export const uncachedJson = (value: object, snapshotId?: string) =>
  uncachedText(Buffer.from(JSON.stringify(value)), snapshotId);

/** A text that is the same for every caller who may have it. */
export function textReply(text: Buffer, snapshotId: string, hash = sha256(text)): Reply {
  return { etag: tagsOf(hash), snapshotId, content: (coding) => textContent(text, coding) };
}

/** A reply whose content is worked out only for a caller who does not have it yet. */
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
  status: number;
  snapshotId?: string | undefined;
  headers: Headers;
  body: readonly Buffer[];
  streamed?: Streamed | undefined;
  /** Whether the caller already has the body and named its tag. Then it pays nothing. */
  known: boolean;
}

/**
 * Decides status, coding and body of a reply to a request. Before content is worked out that the caller pays for, it
 * calls `beforeWork` with the price of a stream. What that throws ends the request.
 */
export async function prepare(
  request: Request,
  reply: Reply,
  beforeWork: (price: Reply["price"]) => void = () => {},
): Promise<Prepared> {
  const held = reply.etag && heldTag(request, reply.etag);
  const coding = reply.coding ?? preferredCoding(request);
  const confirmed = held && (!reply.stands || (held.named && (await reply.stands())));
  if (!confirmed && reply.stands) beforeWork(held || request.method === "HEAD" ? undefined : reply.price);
  // A tag whose snapshot may be gone, and `*`, are confirmed by the content: what fails must not end as a 304.
  const content = confirmed ? {} : await reply.content(coding);
  if (held) {
    const headers = { ...ownHeaders(reply), ETag: held.tag };
    return { status: 304, snapshotId: reply.snapshotId, headers, body: [], known: held.named };
  }
  const { body = [], stream, partial, instead: head = reply } = content;
  return {
    status: partial ? 206 : 200,
    snapshotId: head.snapshotId,
    headers: {
      ...(body.length > 0 && { "Content-Type": "application/json" }),
      ...(!stream && { "Content-Length": body.reduce((sum, part) => sum + part.length, 0) }),
      // nginx must not read ahead of the client, who pays for what is sent.
      ...(stream && { "X-Accel-Buffering": "no" }),
      ...ownHeaders(head),
      ...content.headers,
      ...(head.etag && { ETag: head.etag(coding) }),
      ...(coding === "gzip" && { "Content-Encoding": coding }),
    },
    body,
    streamed: stream && { stream, price: reply.price ?? "rows" },
    known: false,
  };
}

const ownHeaders = ({ cacheControl = "private, no-cache", headers }: Head): Headers => ({
  "Cache-Control": cacheControl,
  ...headers,
});

/** Writes the head of an answer: the headers of its address, of the request, and its own, which overrule those. */
export function writeHead(
  response: Response,
  { status, snapshotId, headers }: Pick<Prepared, "status" | "snapshotId" | "headers">,
  now: number,
): void {
  const { locals } = response;
  const { addressHeaders } = locals;
  const overruled = Object.keys(headers).some((name) => name in addressHeaders);
  const text = overruled ? undefined : headTexts.get(addressHeaders);
  response.headText = (text ?? "") + requestLines(locals, snapshotId ?? locals.snapshotId, now);
  // In one call, because Node takes several times as long for headers that are set one by one.
  response.writeHead(status, text ? headers : { ...addressHeaders, ...headers });
}

// Node sends a text of less than 16 KiB, head included, from its stack.
const smallBody = 8 * 1024;

/** Sends a prepared reply; to HEAD its headers alone. */
export function send(request: Request, response: Response, prepared: Prepared, now: number): void {
  writeHead(response, prepared, now);
  const { body } = prepared;
  if (request.method === "HEAD") return void response.end();
  const [only] = body;
  // Head and body as one text take less time to send than two buffers.
  if (only && body.length === 1 && only.length < smallBody)
    return void response.end(only.toString("latin1"), "latin1");
  // Sends head and body in one system call.
  if (body.length > 1) response.cork();
  for (const part of body.slice(0, -1)) response.write(part);
  response.end(body.at(-1));
}

const codings = ["gzip", "identity"] as const;
export type Coding = (typeof codings)[number];

const compress = promisify(gzip);

/** For a body that is kept for several callers. */
export async function inEachCoding(
  identity: Buffer,
  options: ZlibOptions = {},
): Promise<Record<Coding, Buffer>> {
  return { identity, gzip: joined([await compress(identity, options)]) };
}

/** Strong entity tags of a body with this digest. They differ by coding, as the bytes do. */
export const tagsOf = (hash: string) => (coding: Coding) =>
  coding === "gzip" ? `"${hash}-gzip"` : `"${hash}"`;

/** The accepted codings, by the value of Accept-Encoding. Few values occur, and weighing one takes long. */
const accepted = new LRUCache<string, readonly Coding[], Request>({
  max: 100,
  memoMethod: (_field, _stale, { context }) => codings.filter((coding) => context.acceptsEncodings(coding)),
});

/** The codings that a client accepts: all of them if it sends no Accept-Encoding. */
function acceptedCodings(request: Request): readonly Coding[] {
  const field = request.headers["accept-encoding"];
  return field === undefined ? codings : accepted.memo(field, { context: request });
}

/** gzip for clients that name it, identity for all others, even if they accept neither. */
export function preferredCoding(request: Request): Coding {
  const named = request.headers["accept-encoding"] !== undefined;
  return named && acceptedCodings(request).includes("gzip") ? "gzip" : "identity";
}

/**
 * The tag that If-None-Match names, by weak comparison (RFC 9110, 13.1.2), in any coding that the client accepts. `*`
 * matches everything, but then the client `named` nothing.
 */
export function heldTag(request: Request, tagOf: (coding: Coding) => string) {
  const field = request.headers["if-none-match"];
  if (field === undefined) return undefined;
  const tags = acceptedCodings(request).map(tagOf);
  const named = field.trim() !== "*";
  const held = new Set(field.match(/"[^"]*"/g));
  const tag = named ? tags.find((candidate) => held.has(candidate.replace(/^W\//, ""))) : tags[0];
  return tag === undefined ? undefined : { tag, named };
}

/** The form of an answer that a request prefers (RFC 9110, 12.5.1). */
export function preferred(request: Request, answer: Answer): Answer {
  // Most callers accept anything, and weighing media types would cost as much as finding a score.
  if (!answer.others || (request.headers.accept ?? "*/*") === "*/*") return answer;
  return answer.others.get(String(request.accepts("application/json", ...answer.others.keys()))) ?? answer;
}

export const inForms = <Form>(
  answer: Answer,
  forms: ReadonlyMap<string, Form>,
  answerIn: (form: Form, contentType: string) => Answer,
): Answer =>
  Object.assign(answer, { others: new Map([...forms].map(([type, form]) => [type, answerIn(form, type)])) });
