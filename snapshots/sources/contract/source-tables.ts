import { market, marketDimensionKeys } from "../../../schemas/market.ts";
import { protocol } from "../../../schemas/protocol.ts";
import type { Members, Shape } from "../../../schemas/shapes.ts";
import { forgeTiers, numbersOfTiers } from "../../../schemas/versions.ts";
import { quoted, textList } from "../duckdb/sql-literals.ts";

export const sourceNames = ["markets", "protocol_scores"] as const;

export interface SourceTable {
  /** For example `markets` for the file `markets.parquet`, or the Parquet files below `markets/`. */
  name: (typeof sourceNames)[number];
  label: string;
  /** Its columns. Only values inside `any` may be null. */
  members: Members;
  /** The latest time that a row may have, once it is known. */
  latest: Date | undefined;
  rowRules: readonly RowRule[];
  /** No two rows may share `key`, which is SQL over a row's columns. Rows where it is null break another rule. */
  unique: { key: string; column: string; rule: string };
}

/** A rule for a whole row. A refusal names `column`, if there is one, and shows `value`, which is SQL. */
export interface RowRule {
  column?: string;
  rule: string;
  /** SQL over the row's columns that is false exactly when the row breaks the rule. It is never null. */
  holds: string;
  value: string;
}

const dimensionKeys = "list_sort(list_transform(dimensions, lambda dimension: dimension.key))";

/** The archive's markets (INTERFACE 2.4 to 2.6). */
export function marketsTable(latest: Date | undefined): SourceTable {
  return {
    name: "markets",
    label: "id",
    members: market,
    latest,
    rowRules: [
      {
        column: "dimensions",
        rule: `must have each of the keys ${marketDimensionKeys.join(", ")} once`,
        holds: `coalesce(${dimensionKeys} = ${textList(marketDimensionKeys.toSorted())}, false)`,
        value: "to_json(list_transform(dimensions, lambda dimension: dimension.key))",
      },
    ],
    unique: {
      // The cast accepts spellings that are refused later. It turns 36 bytes into 16, so that more keys fit into
      // memory.
      key: "TRY_CAST(id AS UUID)",
      column: "id",
      rule: "must not be the id of two markets",
    },
  };
}

/** Protocol scores with their history (INTERFACE 2.1). */
export function protocolScoresTable(latest: Date | undefined): SourceTable {
  return {
    name: "protocol_scores",
    label: "slug",
    members: protocol,
    latest,
    rowRules: [
      {
        column: "forge_scale_num",
        rule: `must be the number of forge_scale, ${numbersOfTiers}`,
        holds: `coalesce(forge_scale_num = list_position(${textList(forgeTiers)}, forge_scale), true)`,
        value: "concat(forge_scale_num, ' with ', forge_scale)",
      },
    ],
    unique: {
      key: `concat(slug, ' at ', make_timestamp_ms(${milliseconds("updated_at")}))`,
      column: "updated_at",
      rule: "must not be the time of two scores of one protocol, in milliseconds",
    },
  };
}

/** SQL for epoch milliseconds, truncated, as a BIGINT. */
export function milliseconds(value: string): string {
  return `epoch_ms(${value})`;
}

/**
 * A rule for a single value. `holds` makes the SQL condition for valid values, which is applied only to values that are
 * not null; `rule` is the message for the others.
 */
export interface Rule {
  rule: string;
  holds: (value: string) => string;
  /** SQL for what a refusal shows, where that is not the value. */
  shown?: (value: string) => string;
  /** Whether the rule limits the work on a value, and so must hold before the value is processed in any other way. */
  bounding?: boolean;
  /** Whether a look at the whole record tells, much faster, that some value in it breaks the rule. */
  inRecord?: boolean;
}

/** The rules of a value beside its type. `latest` is the latest time that a row may have, once it is known. */
export function rulesOf(shape: Shape, latest: Date | undefined): Rule[] {
  switch (shape.kind) {
    case "text": {
      const { values, pattern, rule, reserved, maxBytes } = shape;
      return [
        ...(values ? [oneOf(values)] : []),
        ...(pattern ? [matching(pattern, rule!)] : []),
        ...(reserved ? [notReserved(reserved)] : []),
        ...(shape.notEmpty ? [notEmpty] : []),
        ...(maxBytes === undefined ? [] : [atMostBytes(maxBytes)]),
        ...textRules,
      ];
    }
    case "integer":
      return [within(shape)];
    case "double": {
      const { min, max } = shape;
      return min === undefined || max === undefined ? [finite] : [finite, within({ min, max })];
    }
    case "time":
      return timeRules(latest);
    default:
      return [];
  }
}

// Control characters and tags are invisible: they move cursors, end texts early, or carry words that a language model
// reads and a person does not see. Characters that change the direction of text stay; languages need them.

export const controlsRule = "must have no control characters except tab, LF and CR, and no Unicode tags";

const controls = "\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f";
const tags = [0xe0000, 0xe007f].map((point) => String.fromCodePoint(point)).join("-");
/** Members of a character class, with the same meaning in JavaScript, in DuckDB's RE2 and in JSON Schema. */
export const unwanted = controls + tags;
const pattern = quoted(`[${unwanted}]`);

/** SQL that is true for a text without these characters. */
const cleanText = (value: string) => `NOT regexp_matches(${value}, ${pattern})`;

/** SQL that is true for JSON without these characters in its texts and names of members. */
export function cleanJson(value: string): string {
  // Written anew, JSON has no escapes but the short ones and those of control characters.
  const written = `replace(to_json([${value}])::VARCHAR, '\\\\', '')`;
  return `(${cleanText(written)} AND NOT regexp_matches(${written}, '\\\\[ubf]'))`;
}

const [backslash, escapes] = [0x5c, [...Buffer.from("ubf")]];

/** Looks at texts and names of members in a record as DuckDB writes it. */
export function hasControls(json: Buffer): boolean {
  // Searches for first bytes that few texts have. The last two begin C1 controls and tags.
  return (
    json.includes(0x7f) ||
    follows(json, backslash, (at) => escapes.includes(json[at]!)) ||
    follows(json, 0xc2, (at) => json[at]! < 0xa0) ||
    follows(json, 0xf3, (at) => json[at] === 0xa0 && json[at + 1]! < 0x82)
  );
}

/**
 * Whether any such byte is followed by what `are` looks for. The byte after it is skipped: it is no such byte, or the
 * second half of an escaped backslash.
 */
function follows(json: Buffer, byte: number, are: (at: number) => boolean): boolean {
  for (let at = json.indexOf(byte); at >= 0; at = json.indexOf(byte, at + 2)) if (are(at + 1)) return true;
  return false;
}

export const maxCharacters = 10_000;

/** DuckDB needs about ten times a text's size to render it, so one long text could take all of its memory. */
const shortText: Rule = {
  rule: `must be at most ${maxCharacters} characters`,
  // A text has at least as many bytes as characters, so a short one need not be counted.
  holds: (value) => `(strlen(${value}) <= ${maxCharacters} OR length(${value}) <= ${maxCharacters})`,
};

export const noControls: Rule = { rule: controlsRule, holds: cleanText, inRecord: true };

export const textRules: readonly Rule[] = [shortText, noControls];

export const finite: Rule = { rule: "must be a finite number", holds: (value) => `isfinite(${value})` };

export function within({ min, max }: { min: number; max: number }): Rule {
  return { rule: `must be from ${min} to ${max}`, holds: (value) => `${value} BETWEEN ${min} AND ${max}` };
}

const notEmpty: Rule = { rule: "must not be empty", holds: (value) => `${value} <> ''` };

/** DuckDB stores text in UTF-8. */
export function atMostBytes(bytes: number): Rule {
  return {
    rule: `must be at most ${bytes} bytes in UTF-8`,
    holds: (value) => `strlen(${value}) <= ${bytes}`,
  };
}

/** The patterns used here mean the same in DuckDB's RE2 and in JavaScript; `$` is the end of the text in both. */
function matching(pattern: RegExp, rule: string): Rule {
  return { rule, holds: (value) => `regexp_matches(${value}, ${quoted(pattern.source)})` };
}

function oneOf(values: readonly string[]): Rule {
  const rule = values.length === 1 ? `must be ${values[0]}` : `must be one of ${values.join(", ")}`;
  return { rule, holds: (value) => `${value} IN (${values.map(quoted).join(", ")})` };
}

function notReserved(texts: readonly string[]): Rule {
  return {
    rule: `must not be ${texts.join(", ")}, which is reserved`,
    holds: (value) => `${value} NOT IN (${texts.map(quoted).join(", ")})`,
  };
}

/** How the rule against times in the future begins. This machine's clock may be at fault when one breaks it. */
export const lateRule = "must not be later than";

/** A time is from 2000 up to `latest`; without it, the rules only say what the limit will be. */
function timeRules(latest: Date | undefined): Rule[] {
  const instant = (text: string) => `TIMESTAMPTZ ${quoted(text.replace("T", " ").replace("Z", "+00"))}`;
  return [
    {
      rule: "must not be before 2000",
      holds: (value) => `${value} >= ${instant("2000-01-01T00:00:00.000Z")}`,
    },
    {
      rule: `${lateRule} ${latest ? `${latest.toISOString()}, ` : ""}five minutes after the start`,
      holds: (value) => (latest ? `${value} <= ${instant(latest.toISOString())}` : "true"),
    },
  ];
}
