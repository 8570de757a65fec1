import { quoted } from "./sql-literals.ts";

/**
 * A rule one value must keep: SQL that holds for good values that are not null, and the words for the
 * others.
 */
export interface Rule {
  rule: string;
  holds: (value: string) => string;
  /** Whether it keeps the work on a value bounded, and so has to be known before anything is made of it. */
  bounding?: boolean;
}

/** What a column or a part of one must be. Everything but the inside of `any` must not be null. */
export type Shape =
  | { kind: "text"; rules: readonly Rule[] }
  | { kind: "integer"; min: number; max: number }
  | { kind: "double"; rules: readonly Rule[] }
  | { kind: "boolean" }
  | { kind: "time"; rules: readonly Rule[] }
  | { kind: "any" }
  | { kind: "list"; of: Shape }
  | { kind: "struct"; fields: readonly Field[] };

/** A member of a struct, or a column. Names in the order in which the published JSON has them. */
export interface Field {
  /**
   * The name in the source, and the published one unless `published` says otherwise; within lists it cannot.
   */
  name: string;
  published?: string;
  shape: Shape;
}

/** A rule over a whole row; `column` is where a refusal points, `value` what it shows. */
export interface RowRule {
  column: string;
  rule: string;
  /** SQL over the row's columns that is false exactly for a row that breaks the rule, and never null. */
  holds: string;
  value: string;
}

/** The two sources. */
export const sourceNames = ["markets", "protocol_scores"] as const;
type SourceName = (typeof sourceNames)[number];

/** A source: its columns and the rules over whole rows. */
export interface SourceTable {
  /** `markets` stands for `markets.parquet` and for the Parquet files below `markets/`. */
  name: SourceName;
  /** The column that tells a reader of a refusal which row is meant. */
  label: string;
  fields: readonly Field[];
  rowRules: readonly RowRule[];
}

const maxCharacters = 10_000;

/** Without it one text could take all of DuckDB's memory, which makes some ten times as much of it while it is rendered. */
export const shortText: Rule = {
  rule: `must be at most ${maxCharacters} characters`,
  // Of bytes there are never fewer than characters, and they need not be counted.
  holds: (value) => `(strlen(${value}) <= ${maxCharacters} OR length(${value}) <= ${maxCharacters})`,
};

/** Text of a bounded length, whatever else it must be. */
export function text(...rules: readonly Rule[]): Shape {
  return { kind: "text", rules: [...rules, shortText] };
}

export function integer({ min, max }: { min: number; max: number }): Shape {
  return { kind: "integer", min, max };
}

/** A count: an integer that JSON and JavaScript hold exactly. */
export const count = integer({ min: 0, max: Number.MAX_SAFE_INTEGER });

/** Neither NaN nor infinite. */
export const finite: Rule = { rule: "must be a finite number", holds: (value) => `isfinite(${value})` };

export const double: Shape = { kind: "double", rules: [finite] };

export function doubleBetween({ min, max }: { min: number; max: number }): Shape {
  const within = { rule: `must be from ${min} to ${max}`, holds: between(min, max) };
  return { kind: "double", rules: [finite, within] };
}

export function between(min: number, max: number): Rule["holds"] {
  return (value) => `${value} BETWEEN ${min} AND ${max}`;
}

export const boolean: Shape = { kind: "boolean" };
export const any: Shape = { kind: "any" };

export function list(of: Shape): Shape {
  return { kind: "list", of };
}

export function struct(fields: readonly Field[]): Shape {
  return { kind: "struct", fields };
}

export const notEmpty: Rule = { rule: "must not be empty", holds: (value) => `${value} <> ''` };

/** Of bytes in UTF-8, which is how DuckDB holds a text. */
export function atMostBytes(bytes: number): Rule {
  return {
    rule: `must be at most ${bytes} bytes in UTF-8`,
    holds: (value) => `strlen(${value}) <= ${bytes}`,
  };
}

/**
 * RE2 as DuckDB has it and JavaScript agree on the patterns used here; `$` is the end of the text in both.
 */
export function matching(pattern: RegExp, rule: string): Rule {
  return { rule, holds: (value) => `regexp_matches(${value}, ${quoted(pattern.source)})` };
}

export function oneOf(values: readonly string[]): Rule {
  const rule = values.length === 1 ? `must be ${values[0]}` : `must be one of ${values.join(", ")}`;
  return { rule, holds: (value) => `${value} IN (${values.map(quoted).join(", ")})` };
}

/** Times from 2000 up to `latest`. */
export function timeUntil(latest: Date): Shape {
  const instant = (text: string) => `TIMESTAMPTZ ${quoted(text.replace("T", " ").replace("Z", "+00"))}`;
  return {
    kind: "time",
    rules: [
      {
        rule: "must not be before 2000",
        holds: (value) => `${value} >= ${instant("2000-01-01T00:00:00.000Z")}`,
      },
      {
        rule: `must not be later than ${latest.toISOString()}, five minutes after the start`,
        holds: (value) => `${value} <= ${instant(latest.toISOString())}`,
      },
    ],
  };
}
