// Generated from the client's modules by test/proxy/client/types.test.ts, with `vitest -u`.
// A new method goes into client.ts.

/** A client of the service. Between calls it keeps no connection or timer, and only what was recomputed from. */
export declare class Client {
  #private;
  constructor({ url, key, fetch, timeout, retries, maxWait, maxBytes, keepBytes }: ClientOptions);
  /** All scored protocols, the highest BRI first. */
  scores(options?: ReadOptions): Promise<ScoreList>;
  /** The score of one protocol. Throws ApiError `PROTOCOL_NOT_FOUND`. */
  score(slug: string, options?: ReadOptions): Promise<ProtocolScore>;
  /** The scores of up to 50 protocols, in the order asked. */
  batch(slugs: readonly string[], options?: CallOptions): Promise<ScoreBatch>;
  /** Seven days of a protocol's scores, oldest first. Needs the Developer plan. */
  history(slug: string, options?: ReadOptions): Promise<ScoreHistory>;
  /** A protocol's dimensions with change and percentile. Needs the Developer plan. */
  dimensions(slug: string, options?: ReadOptions): Promise<ScoreDimensions>;
  /** Which snapshot is served and how fresh it is. Needs no key and no quota. */
  status(options?: CallOptions): Promise<Status>;
  /** The plan of the key and what is left of the day's quota. */
  usage(options?: CallOptions): Promise<Usage>;
  /**
   * One page of the archive. Needs the Aegis plan, as all of the archive does. With `verified` it is shown to have
   * exactly the markets that match, as by rows.
   */
  page(filters?: Filters, options?: Verifying): Promise<ArchivePage>;
  /**
   * Walks through the archive page by page, from `filters.cursor` on if there is one. All pages are of one snapshot.
   * When the store no longer keeps it, ApiError `CURSOR_EXPIRED` is thrown, and its `resumeCursor` leads on in the
   * current snapshot. With `verified` each is shown to have exactly the markets that match, as by rows.
   */
  pages(filters?: Filters, options?: Verifying): AsyncGenerator<ArchivePage, void, void>;
  /**
   * Every market that matches, as one answer in lines: `for await (const { text, market } of client.rows(filters))`. An
   * answer that breaks off is taken up again. `page` and `pageSize` do not apply. To go on in another process, keep
   * `cursor` and `skip` of the result and pass them as filters. Units are counted as rows are sent, one for every 500.
   * With `verified` the rows are shown to be exactly the markets that match, in order and none left out, by what
   * `recompute` takes and the hashes of the markets of their pages. Throws VerificationError.
   */
  rows(filters?: Filters, options?: Verifying): Rows;
  /**
   * Counts the markets that match by one or several of their fields:
   * `client.facets(["tier", "month"], { disputed: true })`.
   */
  facets(by: readonly string[], filters?: FacetFilters, options?: CallOptions): Promise<MarketFacets>;
  /**
   * How many markets match, and their facets, evaluated here on those sections of the archive's index that it takes.
   * Each is checked against the index root that the log's entry names, so nothing of it is the service's word:
   * `client.recompute({ filters: { disputed: true }, by: ["tier"], trust: { key } })`. Sections are kept for later
   * calls. Throws VerificationError.
   */
  recompute(options?: Recomputing): Promise<Recomputed>;
  /**
   * Shows that an id is not in the archive, by what the archive's index has in its place. Throws VerificationError, and
   * ApiError `NOT_FOUND` when the service says that the id is there.
   */
  absent(id: string, options?: Proving & ReadOptions): Promise<Absence>;
  /** The tier of each protocol, and which tiers changed in the last 30 days, newest first. */
  tiers(options?: CallOptions): Promise<Tiers>;
  /** The snapshots that can be read, newest first, each with its archive's root. */
  snapshots(options?: CallOptions): Promise<SnapshotList>;
  /**
   * The exports of the archive as Parquet files, newest first. Files are fetched by their `url`, with the key, and may
   * be in ranges.
   */
  exports(options?: CallOptions): Promise<ExportList>;
  /** One market. Throws ApiError `MARKET_NOT_FOUND`. */
  market(id: string, options?: ReadOptions): Promise<HistoricalMarket>;
  /** One market with the proof that it belongs to its snapshot. `verifyProof` checks it. */
  proof(id: string, options?: ReadOptions): Promise<MarketProof>;
  /** The score of one protocol with the proof that it belongs to its snapshot. `verifyScoreProof` checks it. */
  scoreProof(slug: string, options?: ReadOptions): Promise<ScoreProof>;
  /**
   * The newest signed checkpoint of the log, as text. `verifyCheckpoint` checks it. Needs no key and no quota. Keep it,
   * and pass it the next time as `since`: then it is also checked that the log only grew. Throws ForkedLogError when it
   * did not.
   */
  checkpoint({ since, ...options }?: CheckpointOptions): Promise<string>;
  /**
   * Checks that the log of one checkpoint is the beginning of that of another, by tiles of the service's log
   * (c2sp.org/tlog-tiles). Their signatures are checked by `verifyCheckpoint`. Throws ForkedLogError.
   */
  requireSameLog(before: string, after: string, options?: CallOptions): Promise<void>;
  /**
   * What differs between two snapshots: `{ op: "delete", id }` by id, then `{ op: "put", text, market }` in the
   * archive's order, each id once. Applied to an exact copy of `since` it gives an exact copy of `until`. An answer
   * that breaks off is taken up again; to go on in another process, pass the result's `snapshotId` as `until` and its
   * `skip`. Throws ApiError `SNAPSHOT_EXPIRED` when the difference is no longer known.
   */
  changes(since: string, { until, skip, ...options }?: ChangesOptions): Changes;
}
/** One market of an answer in lines. */
export declare class Row {
  #private;
  /** The market's JSON text, byte for byte as in the archive. */
  text: string;
  constructor(text: string, csvOf?: ((text: string) => Promise<string>) | undefined);
  /**
   * The market as the service writes it in CSV, with the line's end, below `csvHead` of the rows. Of verified rows
   * only.
   */
  get csv(): Promise<string> | undefined;
  /** The market, parsed whenever it is read. */
  get market(): HistoricalMarket;
}
/** An answer in lines. Its members are known when the first line has come. It can be iterated over once. */
export declare class Answer {
  /** Snapshot of the answer. */
  snapshotId: string;
  /** Number of lines of the whole answer, also of those skipped. */
  count: number;
  /** Whole lines received, also those skipped. */
  skip: number;
}
/** The rows of Client.rows. */
export declare class Rows extends Answer implements AsyncIterable<Row> {
  #private;
  /** Cursor of the place where the answer begins. With `skip` it leads to where the rows received end. */
  cursor: string | undefined;
  /** Number of markets that match. */
  total: number;
  /** Of verified rows: what they were checked against. */
  vouched: Vouched | undefined;
  /** Of verified rows: the first line of the service's CSV, with its end. */
  csvHead: string | undefined;
  [Symbol.asyncIterator](): AsyncGenerator<Row, void, unknown>;
}
/** One line of the difference between two snapshots. */
export declare class Change extends Row {
  op: "delete" | "put";
  /** Id of the market. */
  id: string;
  /** The line as it came. */
  line: string;
  constructor(line: string);
}
/** The lines of Client.changes. */
export declare class Changes extends Answer implements AsyncIterable<Change> {
  #private;
  /** Snapshot from which the difference leads to `snapshotId`. */
  since: string;
  /** The archive's root of `snapshotId`. */
  archiveRoot: string;
  [Symbol.asyncIterator](): AsyncGenerator<Change, void, unknown>;
}
/** What is known of a request that failed. */
export type ErrorDetails = Partial<
  Pick<
    ApiError,
    "title" | "status" | "requestId" | "parameter" | "resumeCursor" | "retryAfter" | "nearest" | "cause"
  >
>;
/**
 * A request that failed. `code` is the service's error code (`QUOTA_EXCEEDED`, `CURSOR_EXPIRED`, …) or one of the
 * client's own: `UNREACHABLE` (no answer came), `TIMEOUT` (none came in time), `BROKEN_ANSWER` (it broke off or cannot
 * be read), `UNEXPECTED_ANSWER` (an error that the service did not write, such as a gateway's), `MISMATCH` (see
 * IntegrityError), `FORKED_LOG` (see ForkedLogError), `INVALID_URL` (the client was given no address of a service).
 */
export declare class ApiError extends Error {
  name: string;
  code: string;
  /** What went wrong, in a few fixed words. The message says more. */
  title: string;
  /** HTTP status; 0 when no answer came. */
  status: number;
  /** Names the request in the service's log. */
  requestId: string | undefined;
  /** The query parameter that was refused. */
  parameter: string | undefined;
  /** With `CURSOR_EXPIRED`: the cursor of the same place in the current snapshot; null when nothing follows there. */
  resumeCursor: string | null | undefined;
  /** With `SNAPSHOT_EXPIRED`: the snapshots before and after that can still be read. */
  nearest: Problem["nearest"];
  /** Seconds after which the service wants to be asked again. */
  retryAfter: number | undefined;
  constructor(code: string, detail: string, { cause, ...about }?: ErrorDetails);
}
/** An answer that contradicts itself, an earlier answer or its proof. Asking again does not help. */
export declare class IntegrityError extends ApiError {
  name: string;
  constructor(detail: string);
}
/**
 * What is served does not follow from what you trust, or does not belong to it: at least one byte of it is wrong.
 * `what` names the part: `checkpoint`, `entry`, `inclusion` (that the log has the entry), `index root`, `archive root`,
 * `header` (of a segment's index), `section`, `words`, `page` (the leaf hashes of its markets), `page roots`, `total`,
 * `row`, `rows`, `absence` or `answer`. The message says which one.
 */
export declare class VerificationError extends IntegrityError {
  name: string;
  what: string;
  constructor(what: string, detail: string);
}
/**
 * The publisher signed two logs of which neither is the beginning of the other, or what is served is older than what
 * was seen before. Keep both checkpoints: together they show it to everybody.
 */
export declare class ForkedLogError extends IntegrityError {
  name: string;
  code: string;
  /** The one seen before, and the one that came now. */
  checkpoints: readonly [string, string];
  constructor(before: string, after: string);
}
/**
 * What a checkpoint says (c2sp.org/tlog-checkpoint): the log's origin, how many commits it has, and the root of its
 * tree. Checks no signature. Throws IntegrityError.
 */
export declare function checkpointIn(checkpoint: string | null): CheckpointHead;
/**
 * Checks that a checkpoint satisfies a policy (the text of c2sp.org/tlog-policy), or that one of these keys, each
 * `NAME+ID+BASE64`, signed it, and returns what it says and how many of the policy's witnesses did. Cosignatures that
 * the platform cannot check do not count: those with ML-DSA-44 outside Node 24.7 and later. Throws IntegrityError;
 * ApiError INVALID_PARAMETER when a key or the policy is not one; a DOMException in browsers without Ed25519.
 */
export declare function verifyCheckpoint(
  checkpoint: string | null,
  keys: string | readonly string[],
): Promise<CheckedHead>;
/**
 * Checks that a market belongs to its snapshot, and that snapshot to the publisher's log, and returns its record. `id`
 * is the one you asked for. Throws as verifyCheckpoint does.
 */
export declare function verifyProof(
  answer: MarketProof,
  { id, ...known }?: KnownMarket,
): Promise<HistoricalMarket>;
/** The same for the score of a protocol. `slug` is the one you asked for. */
export declare function verifyScoreProof(
  answer: ScoreProof,
  { slug, ...known }?: KnownScore,
): Promise<ProtocolScore>;
/**
 * Checks that a copy's root and number of markets are those of the snapshot of a proof, and that the publisher's log
 * has that. Throws as verifyCheckpoint does.
 */
export declare function verifyCopy(
  answer: MarketProof,
  { archiveRoot, markets }: CopyRoot,
  known?: Known,
): Promise<Entry>;
/**
 * The archive's root over its lines, as `archiveRoot` of a snapshot states it (snapshots/SPEC.md, "Roots").
 * Trees count from the oldest market, so the lines must come oldest first: the reverse of the archive's order. For a
 * copy in a file, use `linesFromEnd`. Memory does not grow with the number of lines, except for 32 bytes for every
 * segment of some 20,000 markets.
 */
export declare function archiveRoot(
  lines: AsyncIterable<string | Uint8Array> | Iterable<string | Uint8Array>,
  {
    sha256,
  }?: {
    sha256?: Sha256;
  },
): Promise<CopyRoot>;
/**
 * The lines of a file from the last to the first, without their ends: those of `archive.ndjson` oldest first. Takes a
 * Blob, such as a browser's File or `fs.openAsBlob(path)` in Node. Throws IntegrityError when the last line has no end.
 */
export declare function linesFromEnd(file: CopyFile): AsyncGenerator<Uint8Array, void, void>;
