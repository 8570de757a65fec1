// What calls take and what they give: written by hand, and served between the declarations and the records, without
// this comment. A new option goes here, and so does what a call gives that is no record of the service's.

import type { MarketFacets, MarketPage } from "../../../schemas/envelopes.ts";
import type { Filters } from "../../../schemas/filters.ts";

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
   * Milliseconds within which the head of an answer must come, then its body; of answers in lines and of parts of the
   * archive's index, every next piece. 30,000 if left out.
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
 * answer is only shown to agree with itself. `since` is a checkpoint that you have, such as `vouched.checkpoint.text`
 * of an earlier call: the log must go on from it, or the call throws ForkedLogError.
 *
 * Unless you say which snapshot you mean, by `entry`, `snapshotId`, `asOf` or a cursor, the entry must be the last one
 * of the checkpoint's log, which no rollback has withdrawn.
 */
export interface Trust {
  key?: string | readonly string[] | undefined;
  entry?: string | undefined;
  snapshotId?: string | undefined;
  since?: string | undefined;
}

/** What can be said with calls that recompute: what you trust. */
export interface Proving extends CallOptions {
  trust?: Trust | undefined;
}

/** What can be said with calls whose answers can be shown to be right: `verified`, when they are to be. */
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

/** What was checked, and against what. */
export interface Vouched {
  /** What of yours it was checked against. */
  by: ("key" | "policy" | "entry" | "snapshotId" | "since")[];
  /** SHA-256 of the text of the log's entry, in hexadecimal, to be pinned. */
  entry: string;
  /** Hash of this entry as a leaf of the log's tree, in hexadecimal, to be looked up in the log. */
  leaf: string;
  /** When the entry says that its snapshot was published. */
  publishedAt: string;
  /**
   * Of the log that has the entry, if there is one: its name, how many commits it has, whether your key or a log's of
   * your policy signed it, how many witnesses of your policy did, and the whole text, to be kept and given as
   * `trust.since`.
   */
  checkpoint: { origin: string; size: number; signed: boolean; cosigners: number; text: string } | null;
  /**
   * Whether it is shown that no market is left out. With a `snapshotId` alone it is not, nor where something was not
   * judged.
   */
  complete: boolean;
  /**
   * What nobody can judge on this platform, in sentences: words that another version of Unicode made, or markets of a
   * later version of the feed. No fault of the service.
   */
  unjudged: string[];
}

/** What a checkpoint says of its log. */
export interface CheckpointHead {
  origin: string;
  size: number;
  root: string;
}

/** The same of one whose signatures were checked, and how many witnesses of the policy cosigned it. */
export interface CheckedHead extends CheckpointHead {
  cosigners: number;
}

/** What the log says of a commit. */
export interface Entry {
  commit: number;
  feedVersion: string;
  snapshotId: string;
  archiveRoot: string;
  scoresRoot: string;
  indexRoot: string;
  counts: { markets: number; protocols: number };
  publishedAt: string;
  /** Commits that were taken back. */
  withdrawn: [first: number, last: number][];
  /** SHA-256 of the commit record. */
  record: string;
}

/**
 * What you know when you check a proof: the `snapshotId` if you hold one that you trust; the publisher's `key`, or a
 * policy with witnesses (c2sp.org/tlog-policy) in its place, to have the checkpoint's signatures checked too. Without
 * them, a proof only shows that the answer agrees with itself. `asOf` is what you asked with. Without it and a
 * `snapshotId`, the entry must be the last one of the checkpoint's log.
 */
export interface Known {
  snapshotId?: string | undefined;
  key?: string | readonly string[] | undefined;
  asOf?: string | undefined;
}

/** The same of a market's proof, and the id that you asked for. */
export interface KnownMarket extends Known {
  id?: string;
}

/** The same of a score's proof, and the slug that you asked for. */
export interface KnownScore extends Known {
  slug?: string;
}

/**
 * A hash function in the place of the platform's: that of Node, or Web Crypto, which browsers have in secure contexts
 * only. It must have read the bytes when it returns.
 */
export type Sha256 = (bytes: Uint8Array<ArrayBuffer>) => Uint8Array | Promise<Uint8Array>;

/** The root over the lines of a copy, and how many there are. */
export interface CopyRoot {
  archiveRoot: string;
  markets: number;
}

/** What is read of a file. */
export interface CopyFile {
  size: number;
  /** The bytes from `start` to `end`, without the one at `end`. */
  slice(start: number, end: number): Pick<Blob, "arrayBuffer">;
}
