// Generated from schemas/ by test/proxy/client/types.test.ts, with `vitest -u`.
// A new field goes there.

/** BAD_REQUEST (400): Not a well-formed HTTP request. INVALID_PARAMETER (400): Invalid parameter. INVALID_BODY (400): Invalid request body. BATCH_TOO_LARGE (400): Too many slugs in one batch. CURSOR_MISMATCH (400): The filters differ from the cursor's. INVALID_CURSOR (400): Invalid cursor. CONFLICTING_CREDENTIALS (400): Two different API keys. INVALID_API_KEY (401): Invalid API key. API_KEY_REQUIRED (401): An API key is required. DEVELOPER_REQUIRED (403): The Developer plan is required. AEGIS_REQUIRED (403): The Aegis plan is required. INVALID_FILE_ADDRESS (403): The address of the file is not good any more. NOT_FOUND (404): Not found. PROTOCOL_NOT_FOUND (404): No such protocol. MARKET_NOT_FOUND (404): No such market. SECTION_NOT_FOUND (404): No such part of an index. SNAPSHOT_NOT_FOUND (404): No such snapshot. SHARE_NOT_FOUND (404): No such share, schema or table. VERSION_NOT_FOUND (404): The table has no such version. METHOD_NOT_ALLOWED (405): Method not allowed. REQUEST_TIMEOUT (408): The request took too long to arrive. CURSOR_EXPIRED (410): The cursor's snapshot is gone. SNAPSHOT_EXPIRED (410): The snapshot is no longer kept. BODY_TOO_LARGE (413): Request body too large. UNSUPPORTED_MEDIA_TYPE (415): Unsupported media type. RANGE_NOT_SATISFIABLE (416): The range is not within the file. UPGRADE_REQUIRED (426): This address speaks WebSocket. TOO_MANY_CONNECTIONS (429): Too many connections. QUOTA_EXCEEDED (429): Daily quota used up. HEADERS_TOO_LARGE (431): Request head too large. INTERNAL (500): Internal error. COMING_SOON (501): Announced, not yet available. UPSTREAM_ERROR (502): The origin failed. SNAPSHOT_UNAVAILABLE (503): No snapshot to serve. QUOTA_UNAVAILABLE (503): The quota store is unavailable. UPSTREAM_TIMEOUT (504): The origin did not answer in time. */
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
