import type { FilterValues } from "../../schemas/filters.ts";
import type { ScoreListEntry } from "../../schemas/records.ts";

/** A market whose row has been checked. */
export interface RenderedMarket {
  id: string;
  /** The time of resolution in epoch milliseconds, truncated. */
  resolvedAt: number;
  /** The digest of the source row, 64 bits. */
  digest: bigint;
  /** The record as one line of JSON in UTF-8, with its fields in the order of INTERFACE 2.4. */
  json: Uint8Array;
  values: FilterValues;
}

/** Rows that were published before. */
export interface KnownRows {
  /** Their digests in runs of ordinals, of which `start` is the first. The digest 0 means that there is no row. */
  digests: AsyncIterable<{ start: number; digests: BigUint64Array }>;
  /** Set to 1 at the ordinal of each row that is still there and unchanged. */
  kept: Uint8Array;
}

/** A position in the archive, counted from its oldest market. */
export interface CutPoint {
  /** Epoch milliseconds. */
  resolvedAt: number;
  id: string;
}

/** A protocol's current score, as JSON texts with their members in the published order. */
export interface ScoreRow {
  entry: ScoreListEntry;
  /** The record (INTERFACE 2.1). */
  json: string;
  /** A ScoreHistory. */
  history: string;
  /** A ScoreDimensions. Its percentiles compare all protocols. */
  dimensions: string;
}

/** Validated sources, open for reading. */
export interface Sources {
  marketCount: number;
  /** Sentences for the operator, for example about ignored columns. */
  warnings: string[];
  /**
   * Every market once, in batches and in no order, except rows in `known`, which are neither checked nor rendered
   * again. Which of those are still there is known once the iteration has ended. Throws SourceRefusal when a row breaks
   * a rule or a file has changed. Nothing may be published before the iteration has ended.
   */
  markets(known?: KnownRows): AsyncIterable<RenderedMarket[]>;
  /** Identifies how row digests are computed. Digests of different kinds cannot be compared. */
  rowDigests: string;
  /**
   * Divides the archive into about `parts` equal parts. Returns `parts` - 1 cut points, or fewer in a small archive, in
   * ascending order. Each is the key of the first market of its part.
   */
  cutPoints(parts: number): Promise<CutPoint[]>;
  /**
   * The newest score of every protocol, sorted by slug. Throws SourceRefusal when any row of the history breaks a rule.
   */
  scores(): Promise<ScoreRow[]>;
  /** Closes DuckDB and removes its spill files. */
  close(): Promise<void>;
}
