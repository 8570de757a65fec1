import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { LRUCache } from "lru-cache";
import type { Request } from "../exchange.ts";

const codings = ["gzip", "identity"] as const;
/** The content codings a response comes in. */
export type Coding = (typeof codings)[number];

const compress = promisify(gzip);

/** A body in a coding. */
export async function encode(body: Buffer, coding: Coding): Promise<Buffer> {
  return coding === "gzip" ? await compress(body) : body;
}

/** Strong tags of bytes by their digest; they differ by coding, since the bytes do. */
export function tagsOf(hash: string): (coding: Coding) => string {
  return (coding) => (coding === "gzip" ? `"${hash}-gzip"` : `"${hash}"`);
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
export function preferredCoding(request: Request): Coding {
  const asked = request.headers["accept-encoding"] !== undefined;
  return asked && acceptedCodings(request).includes("gzip") ? "gzip" : "identity";
}

/**
 * The tag that If-None-Match names, by weak comparison (RFC 9110, 13.1.2). Any coding the client accepts will do: of the
 * representations it accepts we choose the one it holds. `*` matches whatever there is, also for a client that `named`
 * none of it.
 */
export function heldTag(
  request: Request,
  tagOf: (coding: Coding) => string,
): { tag: string; named: boolean } | undefined {
  const field = request.headers["if-none-match"];
  if (field === undefined) return undefined;
  const tags = acceptedCodings(request).map(tagOf);
  const named = field.trim() !== "*";
  const held = new Set(field.match(/"[^"]*"/g));
  const tag = named ? tags.find((candidate) => held.has(candidate.replace(/^W\//, ""))) : tags[0];
  return tag === undefined ? undefined : { tag, named };
}
