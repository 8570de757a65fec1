import type { Query, ReadText, Shown, Step, Vouched } from "./answers.ts";
import type { Filters, MarketFacets, MarketPage } from "./declarations.d.ts";
import { ApiError, broken, IntegrityError, VerificationError } from "./errors.ts";
import { checkpointIn, ForkedLogError, verifyCheckpoint, verifyEntry } from "./proofs.ts";

/** What can be said with any call. */
export interface CallOptions {
  /** Ends the call, its waits and its connection. */
  signal?: AbortSignal | undefined;
}

/** What can be said with calls that read from a snapshot. */
export interface ReadOptions extends CallOptions {
  /** The snapshot to read from: its id, or a time. The current one if left out. */
  asOf?: string | undefined;
}

/** How a client is set up. */
export interface ClientOptions {
  /** Address of the service, with or without `/api/v1`. */
  url: string | URL;
  /** API key. It is sent to this address only, and redirects are refused. */
  key?: string | undefined;
  /** Sends the requests; for proxies, logging and tests. */
  fetch?: typeof globalThis.fetch;
  /**
   * Milliseconds within which the head of an answer must come, then its body; of answers in lines, every next piece.
   * 30,000 if left out.
   */
  timeout?: number;
  /**
   * How often a request is repeated that failed for a reason that may pass: a network error, an answer that broke off,
   * 502, 503, 504, or 429. 6 if left out. Answers in lines may fail so often without a new line.
   */
  retries?: number;
  /**
   * The most milliseconds to wait before such a repetition. When `Retry-After` says more, the error is thrown. 60,000
   * if left out.
   */
  maxWait?: number;
  /** The most bytes of an answer, other than one in lines. 2^28 if left out. */
  maxBytes?: number;
  /**
   * The most bytes of the archive's index that are kept for later recomputations, checked. 2^26 if left out. Browsers
   * keep as many more in their Cache API, where they have it.
   */
  keepBytes?: number;
}

/**
 * What you trust when you recompute: the publisher's `key`, or a policy with witnesses (c2sp.org/tlog-policy) in its
 * place, as for verifyProof; or, without keys, `entry`: the SHA-256 of the text of the log's entry, in hexadecimal. A
 * `snapshotId` alone shows that markets belong to the snapshot, but not that none is left out. Without all of them an
 * answer is only shown to agree with itself. `since` is a checkpoint that you have, such as `vouched.checkpoint.text` of
 * an earlier call: the log must go on from it, or the call throws ForkedLogError.
 *
 * Unless you say which snapshot you mean, by `entry`, `snapshotId`, `asOf` or a cursor, the entry must be the last one of
 * the checkpoint's log, which no rollback has withdrawn.
 */
export interface Trust {
  key?: string | readonly string[] | undefined;
  entry?: string | undefined;
  snapshotId?: string | undefined;
  since?: string | undefined;
}

export interface Proving extends CallOptions {
  trust?: Trust | undefined;
}

export interface Verifying extends Proving {
  verified?: boolean | undefined;
}

/** What can be said when a checkpoint is asked for: `since` is one that you have, which its log must go on from. */
export interface CheckpointOptions extends CallOptions {
  since?: string | undefined;
}

/** Which changes, and how many of their lines are here already. */
export interface ChangesOptions extends CallOptions {
  /** The current snapshot if left out. */
  until?: string | undefined;
  skip?: number;
}

/** A page of the archive, and what vouches for it where it was verified. */
export interface ArchivePage extends MarketPage {
  vouched?: Vouched;
}

/** Which markets are counted. */
export interface FacetFilters extends Filters {
  /** The most values listed of each facet. */
  limit?: number;
}

/** What is recomputed. */
export interface Recomputing extends Proving {
  filters?: Omit<Filters, "page" | "pageSize" | "cursor" | "skip" | "asOf">;
  by?: readonly string[];
  /** The most values listed of each facet. */
  limit?: number | undefined;
  asOf?: string | undefined;
}

/** A total and facets that were recomputed; `bytes` and `requests` are what it took. */
export interface Recomputed extends MarketFacets {
  commit: number;
  bytes: number;
  requests: number;
  vouched: Vouched;
}

/** That an id is not among the `markets` of a snapshot; `bytes` and `requests` are what it took to show. */
export interface Absence {
  snapshotId: string;
  commit: number;
  markets: number;
  bytes: number;
  requests: number;
  vouched: Vouched;
}

/** @internal A request. */
export interface Asked extends CallOptions {
  query?: Query;
  accept?: string;
  body?: string;
}

/** @internal What is read of an answer, whose `step` keeps to the time that it may take. */
export type Read<T> = (answer: { response: Response; text: ReadText; step: Step }) => Promise<T>;

/** @internal What recompute.mjs has from here: with a copy of its own, errors would be of another class. */
export const shared = {
  ApiError,
  ForkedLogError,
  IntegrityError,
  VerificationError,
  broken,
  checkpointIn,
  verifyCheckpoint,
  verifyEntry,
};

/** @internal What recompute.mjs asks the service with, so that its requests are counted, timed and repeated alike. */
export interface Lent {
  ask: <T>(path: string, how: Asked, read: Read<T>) => Promise<T>;
  requireSameLog: (before: string, after: string, options?: CallOptions) => Promise<void>;
  rows: (
    query: Filters,
    options: CallOptions,
  ) => { answer: Shown; lines: AsyncGenerator<string, void, void> };
}

/** @internal */
export type Tools = typeof shared & Lent;
