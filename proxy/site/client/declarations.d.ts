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
  checkpoint: {
    origin: string;
    size: number;
    signed: boolean;
    cosigners: number;
    text: string;
  } | null;
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
/** One market of an answer in lines. */
export declare class Row {
  #private;
  /** The market's JSON text, byte for byte as in the archive. */
  text: string;
  constructor(text: string, csvOf?: ((text: string) => Promise<string>) | undefined);
  /** The market as the service writes it in CSV, with the line's end, below `csvHead` of the rows. Of verified rows only. */
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
/**
 * What a checkpoint says (c2sp.org/tlog-checkpoint): the log's origin, how many commits it has, and the root of its
 * tree. Checks no signature. Throws IntegrityError.
 */
export declare function checkpointIn(checkpoint: string | null): CheckpointHead;
/**
 * Checks that a checkpoint satisfies a policy (the text of c2sp.org/tlog-policy), or that one of these keys, each
 * `NAME+ID+BASE64`, signed it, and returns what it says and how many of the policy's witnesses did. Cosignatures that
 * the platform cannot check do not count: those with ML-DSA-44 outside Node 24.7 and later. Throws IntegrityError; ApiError
 * INVALID_PARAMETER when a key or the policy is not one; a DOMException in browsers without Ed25519.
 */
export declare function verifyCheckpoint(
  checkpoint: string | null,
  keys: string | readonly string[],
): Promise<CheckedHead>;
/** What the log says of a commit. */
export interface Entry {
  commit: number;
  feedVersion: string;
  snapshotId: string;
  archiveRoot: string;
  scoresRoot: string;
  indexRoot: string;
  counts: {
    markets: number;
    protocols: number;
  };
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
 * A hash function. In Node, `(bytes) => crypto.hash("sha256", bytes, "buffer")` of `node:crypto` is several times as
 * fast as the default, Web Crypto, which browsers have in secure contexts only. It must have read the bytes when it
 * returns.
 */
export type Sha256 = (bytes: Uint8Array<ArrayBuffer>) => Uint8Array | Promise<Uint8Array>;
/** The root over the lines of a copy, and how many there are. */
export interface CopyRoot {
  archiveRoot: string;
  markets: number;
}
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
/** What is read of a file. */
export interface CopyFile {
  size: number;
  slice(start: number, end: number): Pick<Blob, "arrayBuffer">;
}
/**
 * The lines of a file from the last to the first, without their ends: those of `archive.ndjson` oldest first. Takes a
 * Blob, such as a browser's File or `fs.openAsBlob(path)` in Node. Throws IntegrityError when the last line has no end.
 */
export declare function linesFromEnd(file: CopyFile): AsyncGenerator<Uint8Array, void, void>;
/** BAD_REQUEST (400): Not a well-formed HTTP request. INVALID_PARAMETER (400): Invalid parameter. INVALID_BODY (400): Invalid request body. BATCH_TOO_LARGE (400): Too many slugs in one batch. CURSOR_MISMATCH (400): The filters differ from the cursor's. INVALID_CURSOR (400): Invalid cursor. CONFLICTING_CREDENTIALS (400): Two different API keys. INVALID_API_KEY (401): Invalid API key. API_KEY_REQUIRED (401): An API key is required. DEVELOPER_REQUIRED (403): The Developer plan is required. AEGIS_REQUIRED (403): The Aegis plan is required. INVALID_FILE_ADDRESS (403): The address of the file is not good any more. NOT_FOUND (404): No such address. PROTOCOL_NOT_FOUND (404): No such protocol. MARKET_NOT_FOUND (404): No such market. SECTION_NOT_FOUND (404): No such part of an index. SNAPSHOT_NOT_FOUND (404): No such snapshot. SHARE_NOT_FOUND (404): No such share, schema or table. VERSION_NOT_FOUND (404): The table has no such version. METHOD_NOT_ALLOWED (405): Method not allowed. REQUEST_TIMEOUT (408): The request took too long to arrive. CURSOR_EXPIRED (410): The cursor's snapshot is gone. SNAPSHOT_EXPIRED (410): The snapshot is no longer kept. BODY_TOO_LARGE (413): Request body too large. UNSUPPORTED_MEDIA_TYPE (415): Unsupported media type. RANGE_NOT_SATISFIABLE (416): The range is not within the file. UPGRADE_REQUIRED (426): This address speaks WebSocket. TOO_MANY_CONNECTIONS (429): Too many connections. QUOTA_EXCEEDED (429): Daily quota used up. HEADERS_TOO_LARGE (431): Request head too large. INTERNAL (500): Internal error. COMING_SOON (501): Announced, not yet available. UPSTREAM_ERROR (502): The origin failed. SNAPSHOT_UNAVAILABLE (503): No snapshot to serve. QUOTA_UNAVAILABLE (503): The quota store is unavailable. UPSTREAM_TIMEOUT (504): The origin did not answer in time. */
export type ErrorCode =
  | "BAD_REQUEST" | "INVALID_PARAMETER" | "INVALID_BODY" | "BATCH_TOO_LARGE" | "CURSOR_MISMATCH" | "INVALID_CURSOR"
  | "CONFLICTING_CREDENTIALS" | "INVALID_API_KEY" | "API_KEY_REQUIRED" | "DEVELOPER_REQUIRED" | "AEGIS_REQUIRED"
  | "INVALID_FILE_ADDRESS" | "NOT_FOUND" | "PROTOCOL_NOT_FOUND" | "MARKET_NOT_FOUND" | "SECTION_NOT_FOUND"
  | "SNAPSHOT_NOT_FOUND" | "SHARE_NOT_FOUND" | "VERSION_NOT_FOUND" | "METHOD_NOT_ALLOWED" | "REQUEST_TIMEOUT"
  | "CURSOR_EXPIRED" | "SNAPSHOT_EXPIRED" | "BODY_TOO_LARGE" | "UNSUPPORTED_MEDIA_TYPE" | "RANGE_NOT_SATISFIABLE"
  | "UPGRADE_REQUIRED" | "TOO_MANY_CONNECTIONS" | "QUOTA_EXCEEDED" | "HEADERS_TOO_LARGE" | "INTERNAL" | "COMING_SOON"
  | "UPSTREAM_ERROR" | "SNAPSHOT_UNAVAILABLE" | "QUOTA_UNAVAILABLE" | "UPSTREAM_TIMEOUT";
export type ForgeTier = "RAW" | "CAST" | "FORGED" | "TEMPERED" | "DAMASCUS" | "MITHRIL" | "ADAMANTINE";
/** Filters of the archive, and where to begin. */
export interface Filters {
  category?: string;
  tier?: ("RAW" | "CAST" | "FORGED" | "TEMPERED" | "DAMASCUS" | "MITHRIL" | "ADAMANTINE")[];
  outcome?: string;
  disputed?: boolean;
  formula_version?: string;
  weight_version?: string;
  min_composite?: number;
  max_composite?: number;
  min_informed?: number;
  max_informed?: number;
  min_integrity?: number;
  max_integrity?: number;
  min_oracle?: number;
  max_oracle?: number;
  min_catalyst?: number;
  max_catalyst?: number;
  min_design?: number;
  max_design?: number;
  min_counterparty?: number;
  max_counterparty?: number;
  from?: string;
  to?: string;
  q?: string;
  page?: number;
  pageSize?: number;
  cursor?: string;
  skip?: number;
  asOf?: string;
}
export interface HistoricalMarket {
  id: string;
  slug: string;
  question: string;
  category: string;
  /** Composite score of a market, from 300 to 1,000: higher is safer, and the tier rises with it. */
  composite: number;
  /** Tier of the Forge Scale, from RAW up to ADAMANTINE: higher is safer. */
  tier: ForgeTier;
  status: "resolved";
  /** Outcome label. */
  resolvedOutcome: string;
  /** Resolution time; the archive is ordered by it, newest first. */
  resolvedAt: string;
  /** Where the resolution came from. */
  resolutionSource: string;
  /** Whether the resolution was disputed. */
  disputed: boolean;
  /** Names the main risk signal of a market. */
  topRiskDriver: string;
  /** Number of flagged items. */
  flaggedCount: number;
  /** Version of the scoring formula. */
  formulaVersion: string;
  /** Version of the dimension weights. */
  weightVersion: string;
  /** Every dimension key exactly once. Each from 0 to 100, the strength of a risk signal: higher is riskier. */
  dimensions: MarketDimension[];
}
export interface MarketFacets {
  snapshotId: string;
  /** Markets that match the filters. The buckets of a facet add up to it. */
  total: number;
  /** Those asked for. */
  facets: {
    category?: LabelFacet;
    tier?: LabelFacet;
    outcome?: LabelFacet;
    disputed?: LabelFacet;
    formula_version?: LabelFacet;
    weight_version?: LabelFacet;
    composite?: ScoreFacet;
    informed?: ScoreFacet;
    integrity?: ScoreFacet;
    oracle?: ScoreFacet;
    catalyst?: ScoreFacet;
    design?: ScoreFacet;
    counterparty?: ScoreFacet;
    month?: MonthFacet;
  };
}
export interface MarketPage {
  /** Version of the feed that the markets are of. */
  version: "bri-pm-v1";
  /** The caller's plan; enterprise for Aegis. */
  tier: string;
  /** Markets on this page. */
  count: number;
  /** Markets that match the filters, exactly. */
  total: number;
  /** Number of this page. */
  page: number;
  /** Page size in effect. */
  pageSize: number;
  /** Cursor of the next page; null when no matching market follows. */
  nextCursor: string | null;
  /** Time of the response. */
  timestamp: string;
  markets: HistoricalMarket[];
}
export interface MarketProof {
  /** The market's JSON text, byte for byte as in the archive. */
  market: string;
  snapshotId: string;
  commit: number;
  /** The commit's line in the public log, byte for byte. */
  entry: string;
  /** The newest signed checkpoint of the public log; null when nobody signed it, or not yet. */
  checkpoint: string | null;
  proof: {
    /** The market among those of its page. */
    page: ProofLevel;
    /** The page among those of its segment. */
    segment: ProofLevel;
    /** The segment among those of the archive. */
    archive: ProofLevel;
    /** Hashes that lead from the entry, which is number `commit`, to the root that the checkpoint names, from the bottom up; null without a checkpoint. */
    inclusion: string[] | null;
  };
}
export interface Problem {
  /** urn:prs:error: and the code. */
  type: string;
  /** What the code means. */
  title: string;
  status: number;
  code: ErrorCode;
  /** What is wrong with this request, and what to do about it. */
  detail: string;
  /** As in X-Request-Id. */
  requestId: string;
  /** The query parameter that was refused. */
  parameter?: string;
  /** Only with SNAPSHOT_EXPIRED: the snapshots that can be read which were published before and after that one. */
  nearest?: Nearest;
  /** Only with CURSOR_EXPIRED: cursor of the same place in the current snapshot; null when nothing follows. */
  resumeCursor?: string | null;
}
export interface ProtocolScore extends Pick<ScoreListEntry, "slug" | "bri" | "forgeScale" | "forgeScaleNum" | "confidence" | "delta" | "updatedAt"> {
  /** Content hash of the evidence behind the score. */
  evidenceHash: string;
  /** Twelve scores. Each from 0 to 100: higher is safer; 0 can also mean that there is no signal. */
  dimensions: {
    access_control: number;
    economic_soundness: number;
    oracle_integrity: number;
    compositional_risk: number;
    governance: number;
    maturity: number;
    adversarial_resilience: number;
    supply_chain: number;
    liquidity: number;
    cross_chain: number;
    opsec: number;
    cascade_exposure: number;
  };
  cascade: {
    blastRadius: number;
    upstreamDeps: number;
  };
  findings: {
    critical: number;
    high: number;
    medium: number;
  };
  metadata: {
    category: string;
    chain: string;
    /** Total value locked, as it is displayed. */
    tvl: string;
    contracts: number;
    zFactor: number;
  };
}
export interface ScoreBatch {
  count: number;
  /** In the order asked. */
  scores: ProtocolScore[];
  /** Slugs that are not scored, in the order asked. */
  notFound: string[];
}
export interface ScoreDimensions {
  slug: string;
  updatedAt: string;
  evidenceHash: string;
  dimensions: {
    key:
      | "access_control" | "economic_soundness" | "oracle_integrity" | "compositional_risk" | "governance" | "maturity"
      | "adversarial_resilience" | "supply_chain" | "liquidity" | "cross_chain" | "opsec" | "cascade_exposure";
    /** Each from 0 to 100: higher is safer; 0 can also mean that there is no signal. */
    score: number;
    /** Gain since the oldest point of the history. */
    change7d: number;
    /** Protocols with a lower score, over all others, in percent; halves rounded up. */
    percentile: number;
  }[];
}
export interface ScoreHistory {
  slug: string;
  days: 7;
  count: number;
  /** Oldest first. */
  points: ScorePoint[];
}
export interface ScoreList {
  count: number;
  /** Time of the newest score. */
  updatedAt: string;
  /** By bri, highest first, then by slug. */
  scores: ScoreListEntry[];
}
export interface ScoreProof extends Pick<MarketProof, "snapshotId" | "commit" | "entry" | "checkpoint"> {
  /** The score's JSON text, byte for byte as GET /api/v1/scores/:slug gives it. */
  score: string;
  proof: {
    /** The score's line among those of all scores. */
    score: {
      /** Which of the children, from the oldest, counted from 0. */
      index: number;
      /** Number of children. */
      size: number;
      /** Hashes that lead from the child to the head, from the bottom up. */
      path: string[];
    };
    /** Hashes that lead from the entry, which is number `commit`, to the root that the checkpoint names, from the bottom up; null without a checkpoint. */
    inclusion: string[] | null;
  };
}
export interface ExportList {
  count: number;
  /** Newest first. */
  exports: {
    snapshotId: string;
    /** When the snapshot was published. */
    publishedAt: string;
    rows: number;
    bytes: number;
    format: "parquet";
    /** Root of the tree over the archive's markets. */
    archiveRoot: string;
    /** From the newest markets to the oldest. */
    files: {
      name: string;
      /** Path of the file on this service. */
      url: string;
      rows: number;
      bytes: number;
      sha256: string;
    }[];
  }[];
}
export interface SnapshotList {
  count: number;
  /** Newest first. */
  snapshots: {
    snapshotId: string;
    commit: number;
    publishedAt: string;
    /** When the next commit was published; null for the current one. */
    supersededAt: string | null;
    counts: {
      markets: number;
      protocols: number;
    };
    /** Root of the tree over the archive's markets. */
    archiveRoot: string;
  }[];
}
export interface Status {
  snapshotId: string;
  commit: number;
  /** When this snapshot was published. */
  publishedAt: string;
  /** When a publish run succeeded last, also one with nothing new. */
  checkedAt: string;
  /** Seconds since checkedAt. */
  ageSeconds: number;
  /** Whether that is longer ago than the operator allows. */
  stale: boolean;
  counts: {
    markets: number;
    protocols: number;
  };
  newestResolvedAt: string;
  newestUpdatedAt: string;
  /** Markets of the archive by tier; left out while its index is damaged. */
  marketsByTier?: {
    RAW: number;
    CAST: number;
    FORGED: number;
    TEMPERED: number;
    DAMASCUS: number;
    MITHRIL: number;
    ADAMANTINE: number;
  };
}
export interface Tiers {
  since: string;
  tiers: {
    [k: string]: ForgeTier;
  };
  changes: {
    slug: string;
    from: ForgeTier;
    to: ForgeTier;
    bri: number;
    at: string;
  }[];
}
export interface Usage {
  plan: "free" | "developer" | "aegis";
  /** Units a UTC day. */
  limit: number;
  /** Units left today. */
  remaining: number;
  /** When counting starts anew, in epoch seconds. */
  reset: number;
}
export interface EvidenceItem {
  type: string;
  label: string;
  pattern: string;
  reference: {
    label: string;
    url: string;
    kind: string;
  };
}
export interface LabelFacet {
  /** How many values occur. */
  distinct: number;
  /** By count, highest first, then by value. */
  buckets: {
    /** As published. */
    value: string;
    /** Markets. */
    count: number;
    /** Disputed ones among them. */
    disputed: number;
  }[];
  /** All values that are not listed, together. */
  other: {
    /** Markets. */
    count: number;
    /** Disputed ones among them. */
    disputed: number;
  };
}
export interface MarketDimension {
  key: "informed" | "integrity" | "oracle" | "catalyst" | "design" | "counterparty";
  name: string;
  /** Each from 0 to 100, the strength of a risk signal: higher is riskier. */
  score: number;
  /** Weight of the dimension in the composite. */
  weight: number;
  description: string;
  evidence: EvidenceItem[];
  /** Items: Any JSON, as the source has it. */
  references: unknown[];
  computation: {
    baseline: number;
    /** Items: Any JSON, as the source has it. */
    raises: unknown[];
    /** Items: Any JSON, as the source has it. */
    lowers: unknown[];
  };
}
export interface MonthFacet {
  /** From the oldest month that has markets to the newest, empty ones between them included. */
  buckets: {
    value: string;
    /** Markets. */
    count: number;
    /** Disputed ones among them. */
    disputed: number;
  }[];
}
export interface Nearest {
  before: {
    snapshotId: string;
    publishedAt: string;
  } | null;
  after: {
    snapshotId: string;
    publishedAt: string;
  } | null;
}
export interface ProofLevel {
  /** Which of the children, from the oldest, counted from 0. */
  index: number;
  /** Number of children. */
  size: number;
  /** Markets below all of them. */
  markets: number;
  /** Hashes that lead from the child to the head, from the bottom up. */
  path: string[];
}
export interface ScoreFacet {
  width: number;
  /** From the lowest up, empty ones included; from and to are inclusive. */
  buckets: {
    from: number;
    to: number;
    /** Markets. */
    count: number;
    /** Disputed ones among them. */
    disputed: number;
  }[];
}
export interface ScoreListEntry {
  /** Protocol identifier, as in the path. */
  slug: string;
  /** Composite score of a protocol, from 0 to 1,000: higher is safer, and the tier rises with it. */
  bri: number;
  /** Tier of the Forge Scale, from RAW up to ADAMANTINE: higher is safer. */
  forgeScale: ForgeTier;
  /** Numeric form of the tier, 1 for RAW to 7 for ADAMANTINE. */
  forgeScaleNum: number;
  /** How sure the score is, from 0 to 100: higher is surer. */
  confidence: number;
  /** Change of BRI since the run before. */
  delta: number;
  /** Time of the scoring run. */
  updatedAt: string;
  category: string;
  chain: string;
  /** Total value locked, as it is displayed. */
  tvl: string;
}
export type ScorePoint = Pick<ScoreListEntry, "updatedAt" | "bri" | "forgeScale" | "forgeScaleNum" | "confidence" | "delta">;
