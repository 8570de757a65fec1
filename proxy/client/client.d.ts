/**
 * A request that failed. `code` is the service's error code (`QUOTA_EXCEEDED`, `CURSOR_EXPIRED`, …) or one of the client's
 * own: `UNREACHABLE` (no answer came), `TIMEOUT` (none came in time), `BROKEN_ANSWER` (it broke off or cannot be read),
 * `UNEXPECTED_ANSWER` (an error that the service did not write, such as a gateway's), `MISMATCH` (see IntegrityError).
 */
export declare class ApiError extends Error {
  /** What went wrong, in a few fixed words. The message says more. */
  title: string;
  /** @type {string} */
  code: string;
  /** HTTP status; 0 when no answer came. */
  status: number;
  /** Names the request in the service's log. */
  requestId: string | undefined;
  /** The query parameter that was refused. */
  parameter: string | undefined;
  /** With `CURSOR_EXPIRED`: the cursor of the same place in the current snapshot; null when nothing follows there. */
  resumeCursor: string | null | undefined;
  /** Seconds after which the service wants to be asked again. */
  retryAfter: number | undefined;
  /** @override */
  name: string;
  /**
   * @param {string} code
   * @param {string} detail
   * @param {{ title?: string, status?: number, requestId?: string | undefined, parameter?: string | undefined,
   *   resumeCursor?: string | null | undefined, retryAfter?: number | undefined, cause?: unknown }} [about]
   */
  constructor(
    code: string,
    detail: string,
    {
      title,
      status,
      cause,
      ...about
    }?: {
      title?: string;
      status?: number;
      requestId?: string | undefined;
      parameter?: string | undefined;
      resumeCursor?: string | null | undefined;
      retryAfter?: number | undefined;
      cause?: unknown;
    },
  );
}
/** An answer that contradicts itself, an earlier answer or its proof. Asking again does not help. */
export declare class IntegrityError extends ApiError {
  /** @override */
  name: string;
  /** @param {string} detail */
  constructor(detail: string);
}
export type CallOptions = {
  /**
   * Ends the call, its waits and its connection.
   */
  signal?: AbortSignal | undefined;
};
export type ReadOptions = {
  /**
   * Ends the call, its waits and its connection.
   */
  signal?: AbortSignal | undefined;
  /**
   * The snapshot to read from: its id, or a time. The current one if left out.
   */
  asOf?: string | undefined;
};
export type ClientOptions = {
  /**
   * Address of the service, with or without `/api/v1`.
   */
  url: string | URL;
  /**
   * API key. It is sent to this address only, and redirects are refused.
   */
  key?: string | undefined;
  /**
   * Sends the requests; for proxies, logging and tests.
   */
  fetch?: typeof globalThis.fetch;
  /**
   * Milliseconds within which the head of an answer must come, then its body; of answers in lines,
   * every next piece. 30,000 if left out.
   */
  timeout?: number;
  /**
   * How often a request is repeated that failed for a reason that may pass: a network error, an answer
   * that broke off, 502, 503, 504, or 429. 6 if left out. Answers in lines may fail so often without a new line.
   */
  retries?: number;
  /**
   * The most milliseconds to wait before such a repetition. When `Retry-After` says more, the error is
   * thrown. 60,000 if left out.
   */
  maxWait?: number;
};
export type Query =
  | Filters
  | {
      asOf?: string | undefined;
    };
export type Step = <T>(work: () => Promise<T>) => Promise<T>;
/** A client of the service. It keeps no connection, timer or state between calls. */
export declare class Client {
  #private;
  /** @param {ClientOptions} options */
  constructor({ url, key, fetch, timeout, retries, maxWait }: ClientOptions);
  /**
   * All scored protocols, the highest BRI first.
   * @param {ReadOptions} [options]
   * @returns {Promise<ScoreList>}
   */
  scores(options?: ReadOptions): Promise<ScoreList>;
  /**
   * The score of one protocol. Throws ApiError `PROTOCOL_NOT_FOUND`.
   * @param {string} slug
   * @param {ReadOptions} [options]
   * @returns {Promise<ProtocolScore>}
   */
  score(slug: string, options?: ReadOptions): Promise<ProtocolScore>;
  /**
   * The scores of up to 50 protocols, in the order asked.
   * @param {readonly string[]} slugs
   * @param {CallOptions} [options]
   * @returns {Promise<ScoreBatch>}
   */
  batch(slugs: readonly string[], options?: CallOptions): Promise<ScoreBatch>;
  /**
   * Seven days of a protocol's scores, oldest first. Needs the Developer plan.
   * @param {string} slug
   * @param {ReadOptions} [options]
   * @returns {Promise<ScoreHistory>}
   */
  history(slug: string, options?: ReadOptions): Promise<ScoreHistory>;
  /**
   * A protocol's dimensions with change and percentile. Needs the Developer plan.
   * @param {string} slug
   * @param {ReadOptions} [options]
   * @returns {Promise<ScoreDimensions>}
   */
  dimensions(slug: string, options?: ReadOptions): Promise<ScoreDimensions>;
  /**
   * Which snapshot is served and how fresh it is. Needs no key and no quota.
   * @param {CallOptions} [options]
   * @returns {Promise<Status>}
   */
  status(options?: CallOptions): Promise<Status>;
  /**
   * The plan of the key and what is left of the day's quota.
   * @param {CallOptions} [options]
   * @returns {Promise<Usage>}
   */
  usage(options?: CallOptions): Promise<Usage>;
  /**
   * One page of the archive. Needs the Aegis plan, as all of the archive does.
   * @param {Filters} [filters]
   * @param {CallOptions} [options]
   * @returns {Promise<MarketPage>}
   */
  page(filters?: Filters, options?: CallOptions): Promise<MarketPage>;
  /**
   * Walks through the archive page by page, from `filters.cursor` on if there is one. All pages are of one snapshot. When the store
   * no longer keeps it, ApiError `CURSOR_EXPIRED` is thrown, and its `resumeCursor` leads on in the current snapshot.
   * @param {Filters} [filters]
   * @param {CallOptions} [options]
   * @returns {AsyncGenerator<MarketPage, void, void>}
   */
  pages(filters?: Filters, options?: CallOptions): AsyncGenerator<MarketPage, void, void>;
  /**
   * Every market that matches, as one answer in lines: `for await (const { text, market } of client.rows(filters))`. An answer that
   * breaks off is taken up again. `page` and `pageSize` do not apply. To go on in another process, keep `cursor` and `skip` of the
   * result and pass them as filters. Units are counted as rows are sent, one for every 500.
   * @param {Filters} [filters]
   * @param {CallOptions} [options]
   * @returns {Rows}
   */
  rows(filters?: Filters, options?: CallOptions): Rows;
}
export type Asked = {
  query?: Query;
  accept?: string;
  body?: string;
  signal?: AbortSignal | undefined;
};
export type Place = {
  /**
   * Whole lines received behind the cursor, or of all.
   */
  received: number;
  /**
   * What to ask for to go on.
   */
  query: () => Query;
  /**
   * Takes the headers of an answer and the number of all lines.
   */
  opened: (headers: Headers, end: number) => void;
};
/**
 * A request.
 * @typedef {object} Asked
 * @property {Query} [query]
 * @property {string} [accept]
 * @property {string} [body]
 * @property {AbortSignal | undefined} [signal]
 */
/**
 * Where an answer in lines has come to.
 * @typedef {object} Place
 * @property {number} received Whole lines received behind the cursor, or of all.
 * @property {() => Query} query What to ask for to go on.
 * @property {(headers: Headers, end: number) => void} opened Takes the headers of an answer and the number of all lines.
 */
/** One market of an answer in lines. */
export declare class Row {
  /** The market's JSON text, byte for byte as in the archive. */
  text: string;
  /** @param {string} text */
  constructor(text: string);
  /** The market, parsed whenever it is read.
   * @returns {HistoricalMarket} */
  get market(): HistoricalMarket;
}
/** An answer in lines. It can be iterated over once. */
declare class Answer {
  /** Snapshot of the answer. "" until the first line has come. */
  snapshotId: string;
  /** Number of lines of the whole answer, also of those skipped. -1 until the first line has come. */
  count: number;
  /** Whole lines received, also those skipped. */
  skip: number;
  /** @param {number} skip */
  constructor(skip: number);
  /**
   * @protected
   * @param {Headers} headers
   * @param {number} end
   */
  protected opened(headers: Headers, end: number): void;
}
/**
 * The rows of Client.rows.
 * @implements {AsyncIterable<Row>}
 */
export declare class Rows extends Answer implements AsyncIterable<Row> {
  #private;
  /** Cursor of the place where the answer begins. With `skip` it leads to where the rows received end. */
  cursor: string | undefined;
  /** Number of markets that match. -1 until the first line has come. */
  total: number;
  /**
   * @param {Filters} query
   * @param {number} skip
   * @param {(place: Place) => AsyncGenerator<string, void, void>} open
   */
  constructor(query: Filters, skip: number, open: (place: Place) => AsyncGenerator<string, void, void>);
  [Symbol.asyncIterator](): AsyncGenerator<Row, void, unknown>;
}
export type Sha256 = (bytes: Uint8Array<ArrayBuffer>) => Uint8Array | Promise<Uint8Array>;
/**
 * The archive's root over its lines, as `archiveRoot` of a snapshot states it (snapshots/SPEC.md, "Roots" and "Cuts"). Trees count
 * from the oldest market, so the lines must come oldest first: the reverse of the archive's order. For a copy in a file, use
 * `linesFromEnd`. Memory does not grow with the number of lines, but for 32 bytes for every segment of some 20,000 markets.
 * @param {AsyncIterable<string | Uint8Array> | Iterable<string | Uint8Array>} lines JSON texts of markets, without line ends
 * @param {{ sha256?: Sha256 }} [options]
 * @returns {Promise<{ archiveRoot: string, markets: number }>}
 */
export declare function archiveRoot(
  lines: AsyncIterable<string | Uint8Array> | Iterable<string | Uint8Array>,
  {
    sha256,
  }?: {
    sha256?: Sha256;
  },
): Promise<{
  archiveRoot: string;
  markets: number;
}>;
/**
 * The lines of a file from the last to the first, without their ends: those of `archive.ndjson` oldest first. Takes a Blob, such as
 * a browser's File or `fs.openAsBlob(path)` in Node. Throws IntegrityError when the last line has no end.
 * @param {{ size: number, slice(start: number, end: number): { arrayBuffer(): Promise<ArrayBuffer> } }} file
 * @returns {AsyncGenerator<Uint8Array, void, void>}
 */
export declare function linesFromEnd(file: {
  size: number;
  slice(
    start: number,
    end: number,
  ): {
    arrayBuffer(): Promise<ArrayBuffer>;
  };
}): AsyncGenerator<Uint8Array, void, void>;
export {};

/**
 * Filters of the archive, and where to begin.
 */
export interface Filters {
  category?: string;
  tier?: "RAW" | "CAST" | "FORGED" | "TEMPERED" | "DAMASCUS" | "MITHRIL" | "ADAMANTINE";
  outcome?: string;
  disputed?: boolean;
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
  page?: number;
  pageSize?: number;
  cursor?: string;
  skip?: number;
}
export interface HistoricalMarket {
  id: string;
  slug: string;
  question: string;
  category: string;
  /**
   * Composite score of a market, from 300 to 1000: higher is safer, and the tier rises with it.
   */
  composite: number;
  /**
   * Tier of the Forge Scale, from RAW up to ADAMANTINE: higher is safer.
   */
  tier: "RAW" | "CAST" | "FORGED" | "TEMPERED" | "DAMASCUS" | "MITHRIL" | "ADAMANTINE";
  status: "resolved";
  /**
   * Outcome label.
   */
  resolvedOutcome: string;
  /**
   * Resolution time; the archive is ordered by it, newest first.
   */
  resolvedAt: string;
  /**
   * Where the resolution came from.
   */
  resolutionSource: string;
  /**
   * Whether the resolution was disputed.
   */
  disputed: boolean;
  /**
   * Names the main risk signal of a market.
   */
  topRiskDriver: string;
  /**
   * Number of flagged items.
   */
  flaggedCount: number;
  /**
   * Version of the scoring formula.
   */
  formulaVersion: string;
  /**
   * Version of the dimension weights.
   */
  weightVersion: string;
  /**
   * Every dimension key exactly once. Each from 0 to 100, the strength of a risk signal: higher is riskier.
   */
  dimensions: {
    key: "informed" | "integrity" | "oracle" | "catalyst" | "design" | "counterparty";
    name: string;
    /**
     * Each from 0 to 100, the strength of a risk signal: higher is riskier.
     */
    score: number;
    /**
     * Weight of the dimension in the composite.
     */
    weight: number;
    description: string;
    evidence: {
      type: string;
      label: string;
      pattern: string;
      reference: {
        label: string;
        url: string;
        kind: string;
      };
    }[];
    /**
     * Items: Any JSON, as the source has it.
     */
    references: unknown[];
    computation: {
      baseline: number;
      /**
       * Items: Any JSON, as the source has it.
       */
      raises: unknown[];
      /**
       * Items: Any JSON, as the source has it.
       */
      lowers: unknown[];
    };
  }[];
}
export interface MarketPage {
  version: "bri-pm-v1";
  /**
   * The caller's plan; enterprise for Aegis.
   */
  tier: string;
  /**
   * Markets on this page.
   */
  count: number;
  /**
   * Markets that match the filters, exactly.
   */
  total: number;
  /**
   * Number of this page.
   */
  page: number;
  /**
   * Page size in effect.
   */
  pageSize: number;
  /**
   * Cursor of the next page; null when no matching market follows.
   */
  nextCursor: string | null;
  /**
   * Time of the response.
   */
  timestamp: string;
  markets: HistoricalMarket[];
}
export interface ProtocolScore {
  /**
   * Protocol identifier, as in the path.
   */
  slug: string;
  /**
   * Composite score of a protocol, from 0 to 1000: higher is safer, and the tier rises with it.
   */
  bri: number;
  /**
   * Tier of the Forge Scale, from RAW up to ADAMANTINE: higher is safer.
   */
  forgeScale: "RAW" | "CAST" | "FORGED" | "TEMPERED" | "DAMASCUS" | "MITHRIL" | "ADAMANTINE";
  /**
   * Numeric form of the tier, 1 for RAW to 7 for ADAMANTINE.
   */
  forgeScaleNum: number;
  /**
   * How sure the score is, from 0 to 100: higher is surer.
   */
  confidence: number;
  /**
   * Change of BRI since the run before.
   */
  delta: number;
  /**
   * Time of the scoring run.
   */
  updatedAt: string;
  /**
   * Content hash of the evidence behind the score.
   */
  evidenceHash: string;
  /**
   * Twelve scores. Each from 0 to 100: higher is safer; 0 can also mean that there is no signal.
   */
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
    /**
     * Total value locked, as it is displayed.
     */
    tvl: string;
    contracts: number;
    zFactor: number;
  };
}
export interface ScoreBatch {
  count: number;
  /**
   * In the order asked.
   */
  scores: ProtocolScore[];
  /**
   * Slugs that are not scored, in the order asked.
   */
  notFound: string[];
}
export interface ScoreDimensions {
  slug: string;
  updatedAt: string;
  evidenceHash: string;
  dimensions: {
    key:
      | "access_control"
      | "economic_soundness"
      | "oracle_integrity"
      | "compositional_risk"
      | "governance"
      | "maturity"
      | "adversarial_resilience"
      | "supply_chain"
      | "liquidity"
      | "cross_chain"
      | "opsec"
      | "cascade_exposure";
    /**
     * Each from 0 to 100: higher is safer; 0 can also mean that there is no signal.
     */
    score: number;
    /**
     * Gain since the oldest point of the history.
     */
    change7d: number;
    /**
     * Protocols with a lower score, over all others, in percent; halves rounded up.
     */
    percentile: number;
  }[];
}
export interface ScoreHistory {
  slug: string;
  days: 7;
  count: number;
  /**
   * Oldest first.
   */
  points: {
    /**
     * Time of the scoring run.
     */
    updatedAt: string;
    /**
     * Composite score of a protocol, from 0 to 1000: higher is safer, and the tier rises with it.
     */
    bri: number;
    /**
     * Tier of the Forge Scale, from RAW up to ADAMANTINE: higher is safer.
     */
    forgeScale: "RAW" | "CAST" | "FORGED" | "TEMPERED" | "DAMASCUS" | "MITHRIL" | "ADAMANTINE";
    /**
     * Numeric form of the tier, 1 for RAW to 7 for ADAMANTINE.
     */
    forgeScaleNum: number;
    /**
     * How sure the score is, from 0 to 100: higher is surer.
     */
    confidence: number;
    /**
     * Change of BRI since the run before.
     */
    delta: number;
  }[];
}
export interface ScoreList {
  count: number;
  /**
   * Time of the newest score.
   */
  updatedAt: string;
  /**
   * By bri, highest first, then by slug.
   */
  scores: {
    /**
     * Protocol identifier, as in the path.
     */
    slug: string;
    /**
     * Composite score of a protocol, from 0 to 1000: higher is safer, and the tier rises with it.
     */
    bri: number;
    /**
     * Tier of the Forge Scale, from RAW up to ADAMANTINE: higher is safer.
     */
    forgeScale: "RAW" | "CAST" | "FORGED" | "TEMPERED" | "DAMASCUS" | "MITHRIL" | "ADAMANTINE";
    /**
     * Numeric form of the tier, 1 for RAW to 7 for ADAMANTINE.
     */
    forgeScaleNum: number;
    /**
     * How sure the score is, from 0 to 100: higher is surer.
     */
    confidence: number;
    /**
     * Change of BRI since the run before.
     */
    delta: number;
    /**
     * Time of the scoring run.
     */
    updatedAt: string;
    category: string;
    chain: string;
    /**
     * Total value locked, as it is displayed.
     */
    tvl: string;
  }[];
}
export interface Status {
  snapshotId: string;
  commit: number;
  /**
   * When this snapshot was published.
   */
  publishedAt: string;
  /**
   * When a publish run succeeded last, also one with nothing new.
   */
  checkedAt: string;
  /**
   * Seconds since checkedAt.
   */
  ageSeconds: number;
  /**
   * Whether that is longer ago than the operator allows.
   */
  stale: boolean;
  counts: {
    markets: number;
    protocols: number;
  };
  newestResolvedAt: string;
  newestUpdatedAt: string;
}
export interface Usage {
  plan: "free" | "developer" | "aegis";
  /**
   * Units a UTC day.
   */
  limit: number;
  /**
   * Units left today.
   */
  remaining: number;
  /**
   * When counting starts anew, in epoch seconds.
   */
  reset: number;
}
