import type { FilterValues } from "../../schemas/filters.ts";
import type { ScoreListEntry } from "../../schemas/records.ts";
import type { SourceFileRef } from "../../schemas/store/snapshot.ts";

/** A market whose row has been checked. */
export interface RenderedMarket {
  id: string;
  /** The time of resolution in epoch milliseconds, truncated. */
  resolvedAt: number;
  /** The digest of the source row, 64 bits. */
  digest: bigint;
  /** The number of the file that the row stands in. */
  file: number;
  /** The record as one line of JSON in UTF-8, with its fields in the order of INTERFACE 2.4. */
  json: Uint8Array;
  values: FilterValues;
}

/** Rows that were published before. */
export interface KnownRows {
  /** Their digests in runs of ordinals, of which `start` is the first. The digest 0 means that there is no row. */
  digests: AsyncIterable<{ start: number; digests: BigUint64Array }>;
  /** For each of these rows, the number of the file that still has it unchanged, or 0. */
  kept: FileNumbers;
}

/** Numbers of files, counted from 1 in the order of Sources.files, by ordinal. */
export type FileNumbers = Uint16Array | Uint32Array;

/** The files of the current snapshot's markets, as far as the store still has all of their rows. */
export interface KnownFiles {
  /** As Sources.rowDigests: what the files were checked by. */
  rowDigests: string;
  files: readonly SourceFileRef[];
}

/** A file by its name below the place of the sources: the SHA-256 of its bytes, and how many they are. */
export interface NamedContent {
  name: string;
  hash: string;
  bytes: number;
}

/** A file of markets. */
export interface MarketsFile extends NamedContent, Omit<SourceFileRef, "rows"> {
  /** Whether it was a known file, and so was not read. */
  unchanged: boolean;
}

/** Files that a run in parts has planned with. Opened, they must be the same; keys were found to be unique then. */
export interface PinnedFiles {
  /** The start of the run. */
  now: Date;
  files: readonly NamedContent[];
}

/**
 * Opens the sources without reading known files that have not changed. Throws SourceRefusal when they are others than
 * those that are pinned.
 */
export type OpenSources = (known: KnownFiles | undefined, pinned?: PinnedFiles) => Promise<Sources>;

/** A position in the archive, counted from its oldest market. */
export interface CutPoint {
  /** Epoch milliseconds. */
  resolvedAt: number;
  id: string;
}

/** The markets from a key on, or from the oldest, up to another one, which is left out, or to the newest. */
export interface KeyRange {
  from: CutPoint | undefined;
  before: CutPoint | undefined;
}

/** A market's key, and the number of the file that the row stands in. */
export interface FiledKey extends CutPoint {
  file: number;
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
  /** All files of markets. */
  files: readonly MarketsFile[];
  scoreFiles: readonly NamedContent[];
  /** The number of rows in those that have changed. What follows about markets is about these files only. */
  marketCount: number;
  /** Sentences for the operator, for example about ignored columns. */
  warnings: string[];
  /**
   * Every market of the changed files, or of a range, once, in batches and in no order, except rows in `known`, which
   * are neither checked nor rendered again. Which of those are still there is known once the iteration has ended.
   * Throws SourceRefusal when a row breaks a rule or a file has changed. Nothing may be published before the iteration
   * has ended.
   */
  markets(known?: KnownRows, range?: KeyRange): AsyncIterable<RenderedMarket[]>;
  /** The keys of all markets of the changed files, in the archive's order; without rows that have none. */
  keys(): AsyncIterable<FiledKey[]>;
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
