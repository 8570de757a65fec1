import type { FilterValues } from "../../schemas/filters.ts";
import type { ScoreListEntry } from "../../schemas/records.ts";
import { printable } from "./printable.ts";

/** A market whose row was checked. */
export interface RenderedMarket {
  id: string;
  /** Epoch milliseconds, truncated. */
  resolvedAt: number;
  /** Digest of the source row, 64 bits. */
  digest: bigint;
  /** The record, one line of UTF-8, fields in SPEC 2.4's order. */
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
  /** The record of SPEC 2.1. */
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

/** One broken rule at one place of the sources. */
export interface Refusal {
  file: string;
  /** `row 17` (from 0 within the file), an id, or undefined when it concerns the whole file. */
  row?: string;
  column?: string;
  value?: string;
  rule: string;
}

/** A refusal beside the number of all places that break its rule. */
export interface CountedRefusal extends Refusal {
  total: number;
}

/**
 * The sources break the contract. Nothing was published; `refusals` names up to 20 places per rule, one rule's side by side,
 * and `totals` the number of all, by rule.
 */
export class SourceRefusal extends Error {
  override readonly name = "SourceRefusal";
  readonly refusals: readonly Refusal[];
  readonly counted: readonly CountedRefusal[];

  constructor(refusals: readonly Refusal[], totals: ReadonlyMap<string, number> = new Map()) {
    const byRule = Map.groupBy(refusals, ({ rule }) => rule);
    const totalOf = (rule: string) => Math.max(totals.get(rule) ?? 0, byRule.get(rule)!.length);
    const lines = [...byRule].flatMap(([rule, places]) => [
      ...places.map(describeRefusal),
      ...(totalOf(rule) > places.length ? [describeTotal(places.length, totalOf(rule), rule)] : []),
    ]);
    super(lines.join("\n"));
    this.refusals = refusals;
    this.counted = refusals.map((refusal) => ({ ...refusal, total: totalOf(refusal.rule) }));
  }
}

/** `markets.parquet, row 17 (id), column composite: 1001, must be from 300 to 1000`, on one line whatever names hold. */
function describeRefusal({ file, row, column, value, rule }: Refusal): string {
  const place = [file, row, column && `column ${column}`].filter(Boolean).join(", ");
  return printable(`${place}: ${value === undefined ? "" : `${value}, `}${rule}`);
}

/** `20 of 18,133 shown: must be from 300 to 1000`. */
function describeTotal(shown: number, total: number, rule: string): string {
  return printable(`${shown} of ${total.toLocaleString("en-US")} shown: ${rule}`);
}
