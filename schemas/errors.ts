import type { Nearest } from "./records.ts";

export interface ErrorRow {
  title: string;
  /**
   * The HTTP status of answers (INTERFACE 7). A code without one is shown under another, which `publicError` in
   * proxy/reply/problem.ts chooses.
   */
  status?: number;
  /** The exit code of a command that ends with it (scripts/cli.ts). Without one, the error counts as unexpected. */
  exit?: "unexpected" | "usage" | "refused" | "lost" | "unreachable" | "mismatch";
}

/** This module imports no library, so that readers can load it, too. */
export const errors = {
  BAD_REQUEST: { status: 400, title: "Not a well-formed HTTP request" },
  INVALID_PARAMETER: { status: 400, exit: "usage", title: "Invalid parameter" },
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
  NOT_FOUND: { status: 404, title: "Not found" },
  PROTOCOL_NOT_FOUND: { status: 404, title: "No such protocol" },
  MARKET_NOT_FOUND: { status: 404, title: "No such market" },
  SECTION_NOT_FOUND: { status: 404, title: "No such part of an index" },
  SNAPSHOT_NOT_FOUND: { status: 404, exit: "usage", title: "No such snapshot" },
  SHARE_NOT_FOUND: { status: 404, title: "No such share, schema or table" },
  VERSION_NOT_FOUND: { status: 404, title: "The table has no such version" },
  METHOD_NOT_ALLOWED: { status: 405, title: "Method not allowed" },
  REQUEST_TIMEOUT: { status: 408, title: "The request took too long to arrive" },
  CURSOR_EXPIRED: { status: 410, title: "The cursor's snapshot is gone" },
  SNAPSHOT_EXPIRED: { status: 410, exit: "usage", title: "The snapshot is no longer kept" },
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

  USAGE: { exit: "usage", title: "The command line is wrong" },
  KEY_REFUSED: { exit: "usage", title: "The key opens nothing, though the command line is right" },
  KEY_FILE: { exit: "usage", title: "A file of keys, or a policy, cannot be used" },
  KEY_ENDED: { exit: "usage", title: "The key has ended already" },
  STORE_ADDRESS: { exit: "usage", title: "No store can have such an address" },
  ROLLBACK_REFUSED: { exit: "usage", title: "The snapshot cannot be rolled back to" },
  EXPORT_REFUSED: { exit: "usage", title: "The snapshot cannot be exported" },
  RUN_MISMATCH: { exit: "usage", title: "What is asked for does not fit what the store has of the run" },
  COPY_FOLDER: { exit: "usage", title: "The folder cannot hold a copy, or another sync is at work in it" },
  SOURCES_REFUSED: { exit: "refused", title: "The sources break the contract" },
  GUARD_REFUSED: { exit: "refused", title: "More would change than an ordinary run explains" },
  PUBLISHING_ON_HOLD: {
    exit: "refused",
    title: "A rollback puts publishing on hold, or the next run would undo it",
  },
  UNTRUSTED_PREDECESSOR: {
    exit: "refused",
    title: "The run would have counted on what nobody whom it trusts has signed",
  },
  BROKEN_LOG: { exit: "refused", title: "The log does not lead back to where it begins" },
  FOREIGN_FORMAT: { exit: "refused", title: "An object is of a format that this program does not know" },
  COMMIT_LOST: {
    exit: "lost",
    title: "Another publisher made the commit first; the next run goes on from there",
  },
  COMMIT_TOO_LARGE: { exit: "refused", title: "The commit would be larger than readers take" },
  COLLECTED_MEANWHILE: { exit: "lost", title: "A collection deletes what a new commit needs; run again" },
  COMMIT_UNKNOWN: {
    exit: "unreachable",
    title: "Nobody can tell whether the commit was stored; clean nothing up",
  },
  PARTS_MISSING: { exit: "unreachable", title: "The plan of a run, or some of its parts, are missing" },
  STORE_UNREACHABLE: { exit: "unreachable", title: "The store cannot be reached, or refuses a request" },
  SERVICE_UNREACHABLE: { exit: "unreachable", title: "The service cannot be asked, or refuses the request" },
  LOCAL_FOLDER: { exit: "unreachable", title: "A local folder is full or cannot be used" },
  CHECKPOINT_FILE: { exit: "unreachable", title: "The file of the newest checkpoint cannot be used" },
  MISMATCH: { exit: "mismatch", title: "What came does not match its root or signature" },
  FORKED_LOG: { exit: "mismatch", title: "A log shows two faces" },
  WRONG_INDEX: { exit: "mismatch", title: "The index of a snapshot does not follow from its markets" },
  CORRUPT_OBJECT: { exit: "unexpected", title: "A stored object does not hold what it promises" },
  MISSING_OBJECT: { exit: "unexpected", title: "The store lacks an object that another one names" },
  CONFIG: { exit: "unexpected", title: "The environment cannot be used" },
  FAILED_STEP: { exit: "unexpected", title: "A program that the command started has failed, and said why" },

  EXPORT_WRONG: { title: "A file that was written for an export does not hold what it should" },
  UNREAD_FILES: { title: "The files that were not read may matter, so all must be read" },
  DEADLINE: { title: "Work did not finish in time" },
  DAMAGED_LOG: { title: "It lies behind a damaged commit, so nobody can tell whether it was there" },
} as const satisfies Record<string, ErrorRow>;

type Table = typeof errors;
export type AnyErrorCode = keyof Table;
/** The codes that the service answers with. */
export type ErrorCode = {
  [Code in AnyErrorCode]: Table[Code] extends { status: number } ? Code : never;
}[AnyErrorCode];
export const isPublic = (code: string): code is ErrorCode => "status" in errors[code as AnyErrorCode];

interface Extras {
  /** The query parameter at fault. */
  parameter?: string | undefined;
  /** Goes on in the current snapshot; null when nothing follows, undefined when there is no such place. */
  resumeCursor?: string | null | undefined;
  nearest?: Nearest | undefined;
  /** The bytes of a file that has no such range. */
  size?: number | undefined;
  /** The numbers to allow with which the same sources pass the guards. */
  needed?: Partial<Record<"added" | "changed" | "removed", number>> | undefined;
}

/** A request that cannot be fulfilled. The message is for whoever asked, the code for whoever catches it. */
export class Fault<Code extends AnyErrorCode = AnyErrorCode> extends Error {
  override readonly name = "Fault";
  readonly code: Code;
  readonly extras: Extras;

  constructor(code: Code, message: string, { cause, ...extras }: Extras & ErrorOptions = {}) {
    super(message, { cause });
    this.code = code;
    this.extras = extras;
  }
}

export function isFault<Code extends AnyErrorCode>(thrown: unknown, ...codes: Code[]): thrown is Fault<Code> {
  return thrown instanceof Fault && codes.some((code) => code === thrown.code);
}

/** A foreign text as errors show it, whatever its length. */
export const shorten = (text: string) => (text.length > 120 ? `${text.slice(0, 117)}...` : text);
