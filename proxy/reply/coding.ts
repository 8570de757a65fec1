import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { joined } from "../../snapshots/store/storage.ts";
import type { Request } from "../exchange.ts";

const codings = ["gzip", "identity"] as const;
export type Coding = (typeof codings)[number];

export const compress = promisify(gzip);

/** For a body that is kept for several callers. */
export async function inEachCoding(identity: Buffer): Promise<Record<Coding, Buffer>> {
  return { identity, gzip: joined([await compress(identity)]) };
}

/** Strong entity tags of a body with this digest. They differ by coding, as the bytes do. */
export const tagsOf = (hash: string) => (coding: Coding) =>
  coding === "gzip" ? `"${hash}-gzip"` : `"${hash}"`;

/** gzip for clients that name it, identity for all others, even if they accept neither. */
export function preferredCoding(request: Request): Coding {
  return request.headers["accept-encoding"] !== undefined && request.acceptsEncodings("gzip")
    ? "gzip"
    : "identity";
}

/** The codings that a client accepts: all of them if it sends no Accept-Encoding. */
function acceptedCodings(request: Request): readonly Coding[] {
  if (request.headers["accept-encoding"] === undefined) return codings;
  return codings.filter((coding) => request.acceptsEncodings(coding));
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
