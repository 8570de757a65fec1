import { common, ofLines, rateLimit } from "./openapi/headers.ts";

/** The headers of helmet for answers that are data. Pages have a policy of their own. */
export const securityHeaders = {
  // JSON opened in a browser loads, frames and submits nothing.
  "content-security-policy": "default-src 'none';base-uri 'none';form-action 'none';frame-ancestors 'none'",
  "cross-origin-opener-policy": "same-origin",
  // Every site may use the API (see CORS below). same-origin would forbid embedding its answers.
  "cross-origin-resource-policy": "cross-origin",
  "origin-agent-cluster": "?1",
  "referrer-policy": "no-referrer",
  "strict-transport-security": "max-age=31536000; includeSubDomains",
  "x-content-type-options": "nosniff",
  "x-dns-prefetch-control": "off",
  "x-download-options": "noopen",
  "x-frame-options": "SAMEORIGIN",
  "x-permitted-cross-domain-policies": "none",
  "x-xss-protection": "0",
} as const;

/** Headers of answers that pages of other sites may read. */
const exposed = [
  ...[...common, ...rateLimit, ...ofLines],
  "X-Since-Snapshot-Id, Accept-Ranges, Content-Range, Delta-Table-Version, Delta-Sharing-Capabilities, MCP-Session-Id",
  "Retry-After, WWW-Authenticate, Link, ETag, Age, Cache-Status",
].join(", ");

/** Request headers that they may send, one list for all addresses. An address ignores those that mean nothing to it. */
const sendable = [
  "authorization, x-api-key, content-type, if-none-match, if-modified-since, cache-control, pragma, range, if-range",
  "traceparent, tracestate, x-requested-with, delta-sharing-capabilities",
  "mcp-protocol-version, mcp-session-id, mcp-method, mcp-name, last-event-id",
].join(", ");

/** Vary of answers that depend on what the caller accepts and who it is. */
export const vary = "Accept-Encoding, Authorization, X-Api-Key";

/** Vary of answers whose media type the caller chooses. */
export const negotiatedVary = `${vary}, Accept`;

/** Lets pages of an origin read an answer; `*` stands for all. */
export const originHeaders = (origin: string) => ({
  "Access-Control-Allow-Origin": origin,
  "Access-Control-Expose-Headers": exposed,
});

/** Headers of answers that are open to every site, and never shared between callers by a cache. */
export const apiHeaders = { ...securityHeaders, ...originHeaders("*"), Vary: vary };

/** Headers of the answer to a preflight request for an address with these methods. */
export function preflightHeaders(methods: string): Record<string, string> {
  return {
    "Access-Control-Allow-Methods": methods,
    "Access-Control-Allow-Headers": sendable,
    "Access-Control-Max-Age": "86400",
  };
}

/** The subprotocol of the live feed. A browser offers its key beside it, as `bearer.KEY` (INTERFACE 6). */
export const feedProtocol = "scores.v1";
export const keyProtocolPrefix = "bearer.";
