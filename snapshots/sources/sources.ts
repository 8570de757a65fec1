import type { FilterValues } from "../../schemas/filters.ts";
import type { ScoreListEntry } from "../../schemas/records.ts";
import type { ObjectRef, SourceFileRef } from "../../schemas/store/stored-objects.ts";
import type { MarketKey, MarketLine } from "../format/market-line.ts";

/** A market whose row has been checked: its key, and its text with the members in the order of INTERFACE 2.4. */
export interface RenderedMarket extends MarketLine {
  /** 64 bits of the source row. */
  digest: bigint;
  /** The number of the file that the row stands in. */
  file: number;
  values: FilterValues;
}

/** Rows that were published before. */
export interface KnownRows {
  /** Runs of ordinals, of which `start` is the first. The digest 0 means that there is no row. */
  digests: AsyncIterable<{ start: number; digests: BigUint64Array }>;
  /** For each of these rows, the number of the file that still has it unchanged, or 0. */
  kept: FileNumbers;
}

/** Numbers of files by ordinal, counted from 1 in the order of Sources.files. */
export type FileNumbers = Uint16Array | Uint32Array;

/** Files of the current snapshot's markets, as far as the store still has all of their rows. */
export interface KnownFiles {
  /** As Sources.rowDigests: the rules by which the files were checked. */
  rowDigests: string;
  files: readonly SourceFileRef[];
}

/** A file's content. `name` is relative to the sources. */
export interface NamedContent extends ObjectRef {
  name: string;
}

export interface MarketsFile extends NamedContent, Omit<SourceFileRef, "rows"> {
  /** A known file that was not read. */
  unchanged: boolean;
}

/**
 * Files with which a run in parts was planned. When opened, they must be the same; their keys were found to be unique
 * then.
 */
export interface PinnedFiles {
  /** The start of the run. */
  now: Date;
  files: readonly NamedContent[];
}

/**
 * Opens the sources without reading known files that have not changed. Throws SourceRefusal when they are not the
 * pinned ones.
 */
export type OpenSources = (known: KnownFiles | undefined, pinned?: PinnedFiles) => Promise<Sources>;

/** Markets from `from` (inclusive) or the oldest, to `before` (exclusive) or the newest. */
export interface KeyRange {
  from: MarketKey | undefined;
  before: MarketKey | undefined;
}

/** A market's key, and the number of the file that the row stands in. */
export interface FiledKey extends MarketKey {
  file: number;
}

/** A protocol's current score. The texts are JSON with their members in the published order. */
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
  /** All files of markets. */
  files: readonly MarketsFile[];
  scoreFiles: readonly NamedContent[];
  /** Rows in the files that have changed. Everything below about markets is about these files only. */
  marketCount: number;
  /** Sentences for the operator, for example about ignored columns. */
  warnings: string[];
  /**
   * Every market of the changed files, or of a range, once, in batches and in no order. Rows in `known` are left out:
   * they are neither checked nor rendered again, and which of them are still there is known once the iteration has
   * ended. Throws SourceRefusal when a row breaks a rule or a file has changed. Nothing may be published before the
   * iteration has ended.
   */
  markets(known?: KnownRows, range?: KeyRange): AsyncIterable<RenderedMarket[]>;
  /** In the archive's order, without rows whose id or time breaks a rule. */
  keys(): AsyncIterable<FiledKey[]>;
  /** Identifies how row digests are computed. Digests of different kinds cannot be compared. */
  rowDigests: string;
  /**
   * Divides the archive into about `parts` equal parts. Returns `parts` - 1 cut points, or fewer in a small archive, in
   * ascending order. Each is the key of the first market of its part.
   */
  cutPoints(parts: number): Promise<MarketKey[]>;
  /**
   * The newest score of every protocol, sorted by slug. Throws SourceRefusal when any row of the history breaks a rule.
   */
  scores(): Promise<ScoreRow[]>;
  /** Closes DuckDB and removes its spill files. */
  close(): Promise<void>;
}
