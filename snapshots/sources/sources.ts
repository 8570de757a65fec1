import type { FilterValues } from "../../schemas/filters.ts";
import type { ScoreListEntry } from "../../schemas/records.ts";

/** A market whose row was checked. */
export interface RenderedMarket {
  id: string;
  /** Epoch milliseconds, truncated. */
  resolvedAt: number;
  /** Digest of the source row, 64 bits. */
  digest: bigint;
  /** The record, one line of UTF-8, fields in the order of INTERFACE 2.4. */
  json: Uint8Array;
  values: FilterValues;
}

/** Rows that were published before. */
export interface KnownRows {
  /** Their digests, by ordinal; ordinal `start` is the first one's, 0 stands for no row. */
  digests: AsyncIterable<{ start: number; digests: BigUint64Array }>;
  /** Becomes 1 at the ordinal of each row that is there again as it was. */
  kept: Uint8Array;
}

/** A place in the archive's order, oldest first. */
export interface CutPoint {
  /** Epoch milliseconds. */
  resolvedAt: number;
  id: string;
}

/** One protocol's current score, as JSON texts with their members in the published order. */
export interface ScoreRow {
  entry: ScoreListEntry;
  /** The record of INTERFACE 2.1. */
  json: string;
  /** A ScoreHistory. */
  history: string;
  /** A ScoreDimensions; its percentiles are over all rows. */
  dimensions: string;
}

/** Validated sources, open for reading. */
export interface Sources {
  marketCount: number;
  /** Sentences for the operator, such as ignored columns. */
  warnings: string[];
  /**
   * Every market once, in no order, a batch at a time, but for rows that are `known`: those are neither checked nor rendered
   * again. Which of them are there is told once the iteration has ended.
   * Throws SourceRefusal when a row breaks a rule or a file changed meanwhile: nothing of it may be published before
   * the iteration has ended.
   */
  markets(known?: KnownRows): AsyncIterable<RenderedMarket[]>;
  /** How row digests are made; those of another kind cannot be compared. */
  rowDigests: string;
  /**
   * About `parts` equal parts of the archive: `parts` - 1 cut points, or fewer in a small archive, ascending
   * by resolvedAt, then id. Each is the key of a market, the first of its part.
   */
  cutPoints(parts: number): Promise<CutPoint[]>;
  /** The newest score of every protocol, by slug. Throws SourceRefusal for any row of the history. */
  scores(): Promise<ScoreRow[]>;
  close(): Promise<void>;
}
