import { IncomingMessage, ServerResponse } from "node:http";
import { Socket } from "node:net";
import helmet from "helmet";

/** Security headers of every response. They do not depend on the request, so helmet is asked once. */
export const securityHeaders: Readonly<Record<string, string>> = helmetHeaders();

function helmetHeaders(): Record<string, string> {
  const request = new IncomingMessage(new Socket());
  const response = new ServerResponse(request);
  const setHeaders = helmet({
    // Nothing here is a page: JSON opened in a browser may load, frame and submit nothing.
    contentSecurityPolicy: {
      useDefaults: false,
      directives: {
        defaultSrc: ["'none'"],
        baseUri: ["'none'"],
        formAction: ["'none'"],
        frameAncestors: ["'none'"],
      },
    },
    // The API is for every site (CORS below); same-origin would undo that for embedded requests.
    crossOriginResourcePolicy: { policy: "cross-origin" },
  });
  setHeaders(request, response, (error?: unknown) => {
    if (error) throw error;
  });
  return Object.fromEntries(
    Object.entries(response.getHeaders()).map(([name, value]) => [name, String(value)]),
  );
}

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

/**
 * Headers of every response under /api/v1, the security headers among them: open to every site, and never shared between callers by a cache.
 */
export const apiHeaders: Readonly<Record<string, string>> = {
  ...securityHeaders,
  "Access-Control-Allow-Origin": "*",
  "Access-Control-Expose-Headers": exposed.join(", "),
  Vary: "Accept-Encoding, Authorization, X-Api-Key",
};

/** Headers of the answer to a preflight of an address with these methods. */
export function preflightHeaders(methods: string): Record<string, string> {
  return {
    "Access-Control-Allow-Methods": methods,
    "Access-Control-Allow-Headers": "authorization, x-api-key, content-type, if-none-match",
    "Access-Control-Max-Age": "86400",
  };
}

/** Whether a raw target belongs to the API, also one that matches nothing there. */
export function isApiTarget(raw: string): boolean {
  return raw === "/api/v1" || raw.startsWith("/api/v1/") || raw.startsWith("/api/v1?");
}
