import type { FilterValues } from "../../schemas/filters.ts";
import type { ScoreListEntry } from "../../schemas/records.ts";
import type { ObjectRef, SourceFileRef } from "../../schemas/store/stored-objects.ts";
import type { MarketKey, MarketLine } from "../format/market-line.ts";
import { unless } from "../store/errors.ts";

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
export type OpenSources = (knownFiles: KnownFiles | undefined, pinned?: PinnedFiles) => Promise<Sources>;

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
  markets(knownRows?: KnownRows, range?: KeyRange): AsyncIterable<RenderedMarket[]>;
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

export const placesPerRule = 20;

/** A broken rule at one place of the sources. */
export interface Refusal {
  file: string;
  /** `row 17` (counted from 0 within the file) with the row's label, or only the label; undefined for a whole file. */
  row?: string;
  column?: string;
  value?: string;
  rule: string;
}

/**
 * The sources break the contract, and nothing was published. `refusals` names up to 20 places per rule, grouped by
 * rule. `counted` adds the number of all places that break the rule, `total`.
 */
export class SourceRefusal extends Error {
  readonly code = "SOURCES_REFUSED";
  readonly refusals: readonly Refusal[];
  readonly counted: readonly (Refusal & { total: number })[];

  constructor(refusals: readonly Refusal[], totals: ReadonlyMap<string, number> = new Map()) {
    const byRule = Map.groupBy(refusals, ({ rule }) => rule);
    const totalOf = (rule: string) => Math.max(totals.get(rule) ?? 0, byRule.get(rule)!.length);
    const lines = [...byRule].flatMap(([rule, places]) => {
      const more = `${places.length} of ${totalOf(rule).toLocaleString("en-US")} shown: ${rule}`;
      return [...places.map(describeRefusal), ...(totalOf(rule) > places.length ? [printable(more)] : [])];
    });
    super(lines.join("\n"));
    this.refusals = refusals;
    this.counted = refusals.map((refusal) => ({ ...refusal, total: totalOf(refusal.rule) }));
  }
}

/** For example `markets.parquet, row 17 (id), column composite: 1001, must be from 300 to 1000`, always on one line. */
function describeRefusal({ file, row, column, value, rule }: Refusal): string {
  const place = [file, row, column && `column ${column}`].filter(Boolean).join(", ");
  return printable(`${place}: ${value === undefined ? "" : `${value}, `}${rule}`);
}

/** Keeps the first places of each rule, and counts all. */
export class RefusalList {
  readonly #byRule = new Map<string, Refusal[]>();
  readonly #totals = new Map<string, number>();

  add(refusal: Refusal): void {
    this.addAll(refusal.rule, [refusal], 1);
  }

  /** The places break one rule. `total` counts all such places, named or not. */
  addAll(rule: string, places: readonly Refusal[], total: number): void {
    const before = this.#byRule.get(rule) ?? [];
    this.#byRule.set(rule, [...before, ...places.slice(0, placesPerRule - before.length)]);
    this.#totals.set(rule, (this.#totals.get(rule) ?? 0) + total);
  }

  /** When `work` throws SourceRefusal, adds its refusals and returns undefined; other errors pass through. */
  gather<T>(work: () => Promise<T>): Promise<T | undefined> {
    return unless(SourceRefusal, work, (error) => void this.addFrom(error));
  }

  addFrom(error: SourceRefusal): void {
    for (const [rule, places] of Map.groupBy(error.counted, (refusal) => refusal.rule)) {
      const named = places.map(({ total: _, ...refusal }) => refusal);
      this.addAll(rule, named, places[0]!.total);
    }
  }

  throwIfAny(): void {
    if (this.#byRule.size > 0) throw new SourceRefusal([...this.#byRule.values()].flat(), this.#totals);
  }
}

/** `row 17 (label)`, or only the label when the row has no number. */
export function describeRow(row: unknown, label: unknown): string {
  const text = typeof label === "string" ? label.slice(0, 100) : "null";
  return row === null ? text : `row ${row} (${text})`;
}

/** Control characters, and characters that are invisible or change the direction of text. A space is none of them. */
const unprintable = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

/**
 * Escapes text for a terminal. Text that others chose, such as a key's owner, could otherwise move the cursor, forge
 * lines or hide itself.
 */
export function printable(text: string): string {
  return text.replace(unprintable, (character) => `\\u{${character.codePointAt(0)!.toString(16)}}`);
}
