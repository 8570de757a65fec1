/**
 * Every code of an error. Those with a status are what the service answers with (INTERFACE 7). This module needs no
 * library, so that readers can use it, too.
 */
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
  DAMAGED_LOG: {
    title: "What was asked for lies behind a damaged commit, so nobody can tell whether it was ever there",
  },
} as const satisfies Record<string, { title: string; status?: number }>;

type Table = typeof errors;
export type AnyErrorCode = keyof Table;
/** The codes that the service answers with. */
export type ErrorCode = {
  [Code in AnyErrorCode]: Table[Code] extends { status: number } ? Code : never;
}[AnyErrorCode];

interface SnapshotRef {
  snapshotId: string;
  publishedAt: string;
}

/** The snapshots before and after one that is no longer kept; null where there is none. */
export interface Nearest {
  before: SnapshotRef | null;
  after: SnapshotRef | null;
}

/** What an error tells beside its message. */
interface Extras {
  /** The query parameter at fault. */
  parameter?: string | undefined;
  /** Goes on in the current snapshot; null when nothing follows, and undefined when there is no such place. */
  resumeCursor?: string | null | undefined;
  nearest?: Nearest | undefined;
  /** The bytes of a file that has no such range. */
  size?: number | undefined;
}

/** What was asked for cannot be done. The message is for whoever asked, the code for whoever catches it. */
export class CodedError<Code extends AnyErrorCode = AnyErrorCode> extends Error {
  override readonly name = "CodedError";
  readonly code: Code;
  readonly extras: Extras;

  constructor(code: Code, message: string, { cause, ...extras }: Extras & ErrorOptions = {}) {
    super(message, { cause });
    this.code = code;
    this.extras = extras;
  }
}

/** Whether what was thrown is a CodedError with one of these codes. */
export function isCoded<Code extends AnyErrorCode>(
  thrown: unknown,
  ...codes: Code[]
): thrown is CodedError<Code> {
  return thrown instanceof CodedError && codes.some((code) => code === thrown.code);
}
