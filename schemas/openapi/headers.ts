import type { ErrorCode, errors } from "../errors.ts";

const text = { type: "string" } as const;
const number = { type: "integer", minimum: 0 } as const;

/** Response headers, each a component under its name. */
export const headers = {
  "X-Request-Id": {
    description: "Identifies this request in the service's log.",
    schema: { type: "string", format: "uuid" },
  },
  "X-Snapshot-Id": {
    description: "Snapshot answered from; missing before the first one is loaded.",
    schema: { $ref: "#/components/schemas/Digest" },
  },
  ETag: {
    description: "For If-None-Match; 304 costs no unit, unless it was asked for with *.",
    schema: text,
  },
  "Accept-Ranges": { description: "bytes", schema: text },
  "Content-Range": {
    description: "Which bytes of the file came, and how many it has; with 416 the latter alone.",
    schema: text,
  },
  "Cache-Control": { description: "How long it may be kept, and by whom.", schema: text },
  "X-RateLimit-Limit": { description: "Units of the caller's UTC day.", schema: number },
  "X-RateLimit-Remaining": { description: "Units left.", schema: number },
  "X-RateLimit-Reset": { description: "When counting starts anew, in epoch seconds.", schema: number },
  RateLimit: { description: 'IETF form of the same: "plan";r=REMAINING;t=SECONDS.', schema: text },
  "RateLimit-Policy": { description: 'IETF form of the quota: "plan";q=LIMIT;w=86400.', schema: text },
  "Retry-After": {
    description: "Seconds after which to try again; of QUOTA_EXCEEDED those until counting starts anew.",
    schema: number,
  },
  "WWW-Authenticate": { description: "How to present a key.", schema: text },
  Link: {
    description: 'Where a page follows: <?cursor=CURSOR>; rel="next", relative to the address asked for.',
    schema: text,
  },
  Age: { description: "While the origin is away: seconds since the data was superseded.", schema: number },
  "Cache-Status": { description: "While the origin is away: says so.", schema: text },
  "X-Since-Snapshot-Id": {
    description: "Snapshot from which the changes lead.",
    schema: { $ref: "#/components/schemas/Digest" },
  },
  "X-Archive-Root": {
    description: "Root of the archive of the snapshot answered from: a copy of it has the same.",
    schema: { $ref: "#/components/schemas/Digest" },
  },
  "X-Count": {
    description: "In NDJSON and CSV: markets in this answer; of changes, its lines.",
    schema: number,
  },
  "X-Total-Count": { description: "In NDJSON and CSV: all markets that match.", schema: number },
  "X-Cursor": {
    description: "In NDJSON and CSV: the place where this answer begins, as a cursor.",
    schema: text,
  },
  Upgrade: { description: "websocket", schema: text },
  "Sec-WebSocket-Accept": { description: "As RFC 6455 has it.", schema: text },
  "Sec-WebSocket-Version": { description: "The one version spoken, 13.", schema: text },
  "Sec-WebSocket-Protocol": { description: "The protocol that was taken of those offered.", schema: text },
} as const;

export type HeaderName = keyof typeof headers;

export const common = ["X-Request-Id", "X-Snapshot-Id", "Cache-Control"] as const satisfies HeaderName[];

export const rateLimit = [
  "X-RateLimit-Limit",
  "X-RateLimit-Remaining",
  "X-RateLimit-Reset",
  "RateLimit",
  "RateLimit-Policy",
] as const satisfies HeaderName[];

/** Headers of answers with all rows. */
export const ofLines = [
  "X-Count",
  "X-Total-Count",
  "X-Cursor",
  "X-Archive-Root",
] as const satisfies HeaderName[];

export const ofStatus: Partial<Record<(typeof errors)[ErrorCode]["status"], readonly HeaderName[]>> = {
  401: ["WWW-Authenticate"],
  416: ["Content-Range"],
  426: ["Upgrade", "Sec-WebSocket-Version"],
  429: ["Retry-After"],
  503: ["Retry-After"],
};

export function references(names: readonly HeaderName[]): Record<string, { $ref: string }> {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
}
