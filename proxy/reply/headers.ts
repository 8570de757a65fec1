/** Headers of every response to a request for a path; an empty one stands for what is no request. */
export type CommonHeaders = (path: string, requestId: string) => Map<string, string>;

/** What helmet recommends for answers that are data; a test compares. Pages have a policy of their own. */
export const securityHeaders = {
  // JSON opened in a browser may load, frame and submit nothing.
  "content-security-policy": "default-src 'none';base-uri 'none';form-action 'none';frame-ancestors 'none'",
  "cross-origin-opener-policy": "same-origin",
  // The API is for every site (CORS below); same-origin would undo that for embedded requests.
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

const exposed = [
  "X-RateLimit-Limit",
  "X-RateLimit-Remaining",
  "X-RateLimit-Reset",
  "RateLimit",
  "RateLimit-Policy",
  "Retry-After",
  "X-Snapshot-Id",
  "X-Request-Id",
  "ETag",
  "Age",
  "Cache-Status",
  "X-Count",
  "X-Total-Count",
  "X-Cursor",
];

/** Of responses that differ by what a caller accepts and who it is. */
export const vary = "Accept-Encoding, Authorization, X-Api-Key";

/** Under /api/v1: open to every site, and never shared between callers by a cache. */
const apiHeaders = {
  ...securityHeaders,
  "Access-Control-Allow-Origin": "*",
  "Access-Control-Expose-Headers": exposed.join(", "),
  Vary: vary,
};

/** Whether a path belongs to the API, also one that nothing answers. */
export function isApiPath(path: string): boolean {
  return path === "/api/v1" || path.startsWith("/api/v1/");
}

/** Common headers over the snapshot that is current when a request comes; an answer may name another one. */
export function createCommonHeaders(snapshotId: () => string | undefined): CommonHeaders {
  const [api, other] = [Object.entries(apiHeaders), Object.entries(securityHeaders)];
  return (path, requestId) => {
    const headers = new Map<string, string>(isApiPath(path) ? api : other);
    const current = snapshotId();
    if (current !== undefined) headers.set("X-Snapshot-Id", current);
    return headers.set("X-Request-Id", requestId);
  };
}

/** Headers of the answer to a preflight of an address with these methods. */
export function preflightHeaders(methods: string): Map<string, string> {
  return new Map([
    ["Access-Control-Allow-Methods", methods],
    ["Access-Control-Allow-Headers", "authorization, x-api-key, content-type, if-none-match"],
    ["Access-Control-Max-Age", "86400"],
  ]);
}
