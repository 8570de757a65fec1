import { promisify } from "node:util";
import { gzip } from "node:zlib";
import type { Request, Response } from "express";
import { LRUCache } from "lru-cache";
import { ServiceError } from "../../schemas/errors.ts";
import type { RowsPlan } from "../../snapshots/read/rows.ts";

const codings = ["gzip", "identity"] as const;
/** The content codings a response comes in. */
export type Coding = (typeof codings)[number];

const compress = promisify(gzip);

/** What an endpoint answers, before it is known in which coding, or whether at all, the body is wanted. */
export interface Reply {
  /** Entity tag of the body in a coding; left out, the answer is never 304. */
  etag?: (coding: Coding) => string;
  cacheControl: string;
  /** The snapshot answered from; it may be another than the one current when the request came. */
  snapshotId: string | undefined;
  /** In parts, which are not copied together. */
  body: (coding: Coding) => Promise<readonly Buffer[]>;
  headers?: Record<string, string | number>;
  /** Headers that tell of the body: an answer without one, 304, has none of them. */
  bodyHeaders?: Record<string, string | number>;
  /** In place of a body: what is sent while it is read, however much it is. */
  rows?: RowsPlan;
  /** Another reply, for when the origin does not give the body. */
  instead?: () => Reply | undefined;
}

/** A small JSON answer of the moment; a buffer holds the JSON itself. */
export function momentary(value: object, snapshotId?: string): Reply {
  const json = Buffer.isBuffer(value) ? value : Buffer.from(JSON.stringify(value));
  return { snapshotId, cacheControl: "no-store", body: async (coding) => [await encode(json, coding)] };
}

/** Strong tags of bytes by their digest; they differ by coding, since the bytes do. */
export function tagsOf(hash: string): (coding: Coding) => string {
  return (coding) => (coding === "gzip" ? `"${hash}-gzip"` : `"${hash}"`);
}

/** A body in a coding. */
export async function encode(body: Buffer, coding: Coding): Promise<Buffer> {
  return coding === "gzip" ? await compress(body) : body;
}

/** A reply made ready for one request: nothing can fail any more, but for rows that are still to be read. */
export interface Prepared {
  status: 200 | 304;
  headers: Record<string, string | number>;
  body: readonly Buffer[];
  rows?: RowsPlan;
  /** Whether the caller named what it would have got, and so pays nothing. */
  known: boolean;
}

/** Settles status, coding and body of a reply for a request. Throws what the body throws. */
export async function prepare(request: Request, reply: Reply): Promise<Prepared> {
  const held = reply.etag && heldTag(request, acceptedCodings(request).map(reply.etag));
  if (held) {
    const { tag: ETag, known } = held;
    return { status: 304, headers: { ...headersOf(reply), ETag }, body: [], known };
  }

  const coding = preferredCoding(request);
  const { body, sent } = await bodyOf(reply, coding);
  return {
    status: 200,
    headers: {
      "Content-Type": "application/json",
      ...headersOf(sent),
      ...sent.bodyHeaders,
      ...(sent.etag && { ETag: sent.etag(coding) }),
      ...(coding === "gzip" && { "Content-Encoding": coding }),
      ...(!sent.rows && { "Content-Length": body.reduce((sum, part) => sum + part.length, 0) }),
    },
    body,
    ...(sent.rows && { rows: sent.rows }),
    known: false,
  };
}

function headersOf({ cacheControl, snapshotId, headers }: Reply) {
  return {
    "Cache-Control": cacheControl,
    ...(snapshotId !== undefined && { "X-Snapshot-Id": snapshotId }),
    ...headers,
  };
}

/** The body of a reply, or of the one that takes its place. */
async function bodyOf(reply: Reply, coding: Coding): Promise<{ body: readonly Buffer[]; sent: Reply }> {
  try {
    return { body: await reply.body(coding), sent: reply };
  } catch (error) {
    const other = isUpstream(error) ? reply.instead?.() : undefined;
    if (!other) throw error;
    return { body: await other.body(coding), sent: other };
  }
}

function isUpstream(error: unknown): boolean {
  return error instanceof ServiceError && /^UPSTREAM_/.test(error.code);
}

/** Sends a prepared reply; a HEAD request gets its headers alone. */
export function send(request: Request, response: Response, { status, headers, body }: Prepared): void {
  response.writeHead(status, headers);
  if (request.method !== "HEAD") {
    // All in one system call, the head among them.
    response.cork();
    for (const part of body) response.write(part);
  }
  response.end();
}

// Clients send a handful of different fields, and reading one takes as long as counting the request.
const knownFields = new LRUCache<string, readonly Coding[]>({
  maxSize: 64 * 1024,
  sizeCalculation: (_codings, field) => field.length + 200,
});

/** Every coding a client accepts: all, when it says nothing. */
function acceptedCodings(request: Request): readonly Coding[] {
  const field = request.headers["accept-encoding"];
  if (field === undefined) return codings;
  const known = knownFields.get(String(field));
  if (known) return known;
  const accepted = codings.filter((coding) => request.acceptsEncodings(coding));
  knownFields.set(String(field), accepted);
  return accepted;
}

/** gzip for a client that names it, identity for every other, also for one that accepts neither. */
function preferredCoding(request: Request): Coding {
  const asked = request.headers["accept-encoding"] !== undefined;
  return asked && acceptedCodings(request).includes("gzip") ? "gzip" : "identity";
}

/**
 * The tag out of `tags` that If-None-Match names, by weak comparison (RFC 9110, 13.1.2). Any coding the
 * client accepts will do: of the representations it accepts we choose the one it holds. `*` matches whatever there is,
 * also for a client that knows nothing of it.
 */
function heldTag(request: Request, tags: string[]): { tag: string; known: boolean } | undefined {
  const field = request.headers["if-none-match"];
  if (field === undefined) return undefined;
  const known = field.trim() !== "*";
  const named = new Set(field.match(/"[^"]*"/g));
  const tag = known ? tags.find((candidate) => named.has(candidate.replace(/^W\//, ""))) : tags[0];
  return tag === undefined ? undefined : { tag, known };
}
