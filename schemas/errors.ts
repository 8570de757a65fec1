import { z } from "zod";
import { Digest, Timestamp } from "./primitives.ts";

/** Status and title of every error that the service answers with (INTERFACE 7). */
export const errors = {
  BAD_REQUEST: { status: 400, title: "Not a well-formed HTTP request" },
  INVALID_PARAMETER: { status: 400, title: "Invalid parameter" },
  INVALID_BODY: { status: 400, title: "Invalid request body" },
  BATCH_TOO_LARGE: { status: 400, title: "Too many slugs in one batch" },
  CURSOR_MISMATCH: {
    status: 400,
    title: "The filters differ from the cursor's",
  },
  INVALID_CURSOR: { status: 400, title: "Invalid cursor" },
  CONFLICTING_CREDENTIALS: { status: 400, title: "Two different API keys" },
  INVALID_API_KEY: { status: 401, title: "Invalid API key" },
  API_KEY_REQUIRED: { status: 401, title: "An API key is required" },
  DEVELOPER_REQUIRED: { status: 403, title: "The Developer plan is required" },
  AEGIS_REQUIRED: { status: 403, title: "The Aegis plan is required" },
  INVALID_FILE_ADDRESS: { status: 403, title: "The address of the file is not good any more" },
  NOT_FOUND: { status: 404, title: "No such address" },
  PROTOCOL_NOT_FOUND: { status: 404, title: "No such protocol" },
  MARKET_NOT_FOUND: { status: 404, title: "No such market" },
  SECTION_NOT_FOUND: { status: 404, title: "No such part of an index" },
  SNAPSHOT_NOT_FOUND: { status: 404, title: "No such snapshot" },
  SHARE_NOT_FOUND: { status: 404, title: "No such share, schema or table" },
  VERSION_NOT_FOUND: { status: 404, title: "The table has no such version" },
  METHOD_NOT_ALLOWED: { status: 405, title: "Method not allowed" },
  REQUEST_TIMEOUT: { status: 408, title: "The request took too long to arrive" },
  CURSOR_EXPIRED: { status: 410, title: "The cursor's snapshot is gone" },
  SNAPSHOT_EXPIRED: { status: 410, title: "The snapshot is no longer kept" },
  BODY_TOO_LARGE: { status: 413, title: "Request body too large" },
  UNSUPPORTED_MEDIA_TYPE: { status: 415, title: "Unsupported media type" },
  RANGE_NOT_SATISFIABLE: { status: 416, title: "The range is not within the file" },
  UPGRADE_REQUIRED: { status: 426, title: "This address speaks WebSocket" },
  TOO_MANY_CONNECTIONS: { status: 429, title: "Too many connections" },
  QUOTA_EXCEEDED: { status: 429, title: "Daily quota used up" },
  HEADERS_TOO_LARGE: { status: 431, title: "Request head too large" },
  INTERNAL: { status: 500, title: "Internal error" },
  COMING_SOON: { status: 501, title: "Announced, not yet available" },
  UPSTREAM_ERROR: { status: 502, title: "The origin failed" },
  SNAPSHOT_UNAVAILABLE: { status: 503, title: "No snapshot to serve" },
  QUOTA_UNAVAILABLE: { status: 503, title: "The quota store is unavailable" },
  UPSTREAM_TIMEOUT: { status: 504, title: "The origin did not answer in time" },
} as const;

export type ErrorCode = keyof typeof errors;
const codes = Object.keys(errors) as [ErrorCode, ...ErrorCode[]];

const SnapshotRef = z.strictObject({ snapshotId: Digest, publishedAt: Timestamp }).nullable();

/** The snapshots before and after one that is no longer kept; null where there is none. */
export const Nearest = z.strictObject({ before: SnapshotRef, after: SnapshotRef });
export type Nearest = z.infer<typeof Nearest>;

/** Body of every error on every path, `application/problem+json` (RFC 9457, INTERFACE 7). */
export const Problem = z.strictObject({
  type: z.string().describe("urn:prs:error: and the code."),
  title: z.string().describe("What the code means."),
  status: z.int().min(400).max(599),
  code: z
    .enum(codes)
    .describe(codes.map((code) => `${code} (${errors[code].status}): ${errors[code].title}.`).join(" ")),
  detail: z.string().describe("What is wrong with this request, and what to do about it."),
  requestId: z.string().describe("As in X-Request-Id."),
  parameter: z.string().optional().describe("The query parameter that was refused."),
  nearest: Nearest.optional().describe(
    "Only with SNAPSHOT_EXPIRED: the snapshots that can be read which were published before and after that one.",
  ),
  resumeCursor: z
    .string()
    .nullable()
    .optional()
    .describe(
      "Only with CURSOR_EXPIRED: cursor of the same place in the current snapshot; null when nothing follows.",
    ),
});
export type Problem = z.infer<typeof Problem>;
