import { protocol } from "../../../schemas/protocol.ts";
import { meaningOf } from "../../../schemas/records.ts";
import { type Members, type Shape, sourceName } from "../../../schemas/shapes.ts";
import { forgeScaleNumber, forgeTiers } from "../../../schemas/versions.ts";
import { identifier } from "../duckdb/sql-literals.ts";
import { maxDepth, recordRule } from "./file-column.ts";
import { anyTypes } from "./match-columns.ts";
import {
  atMostBytes,
  marketsTable,
  maxCharacters,
  protocolScoresTable,
  rulesOf,
  type SourceTable,
  textRules,
  unwanted,
} from "./source-tables.ts";

const contracts = [
  { table: marketsTable(undefined), row: "One row for each resolved market." },
  {
    table: protocolScoresTable(undefined),
    row: "One row for each protocol and scoring run. The newest row of a protocol is its current score.",
  },
];

const typeNames = {
  text: "VARCHAR",
  integer: "INTEGER",
  double: "DOUBLE",
  boolean: "BOOLEAN",
  time: "TIMESTAMPTZ",
  any: "JSON",
  list: "LIST",
  struct: "STRUCT",
} as const;

/** Leaves out the rules of all texts, which are stated once. */
function ownRules(shape: Shape): string {
  const own = rulesOf(shape, undefined).filter((one) => !textRules.includes(one));
  return own.map(({ rule }) => rule).join("; ");
}

const ofTexts = `A text is valid UTF-8. It ${textRules.map(({ rule }) => rule).join(", and ")}.`;

const wholeRules = ({ rowRules, unique }: SourceTable) =>
  [...rowRules, unique].map(({ column, rule }) => `\`${column}\` ${rule}`);

export function contractMarkdown(): string {
  const parts = contracts.map(({ table, row }) =>
    [
      `## ${table.name}`,
      "",
      `${row} ${wholeRules(table).join("; ")}.`,
      "",
      "| column | type | rules | meaning |",
      "|---|---|---|---|",
      ...markdownRows(table.members, ""),
    ].join("\n"),
  );
  return `# Contract of the sources

Parquet files \`markets.parquet\` or \`markets/**/*.parquet\`, and the same for \`protocol_scores\`; or a DuckDB script that
leaves tables or views of these names. Columns and members of structs come in any order. Others than these are ignored,
with a warning that names them.

- A LIST's items are written \`[]\`, and a STRUCT's members after a dot.
- INTEGER stands for every integer type. DOUBLE is DOUBLE alone, and TIMESTAMPTZ has a time zone.
- JSON stands for what you choose: JSON, or ${anyTypes}. JSON is at most ${maxDepth} deep, too.
- Nothing may be null outside JSON. ${ofTexts} That holds inside JSON, and for the names of members, too.
- A row ${recordRule}. A source without rows is refused.

${parts.join("\n\n")}
`;
}

function markdownRows(members: Members, prefix: string): string[] {
  return Object.entries(members).flatMap(([published, shape]) =>
    shapeRows(shape, prefix + sourceName(published)),
  );
}

function shapeRows(shape: Shape, path: string): string[] {
  const cells = [`\`${path}\``, typeNames[shape.kind], ownRules(shape), meaningOf(shape) ?? ""];
  const row = `| ${cells.join(" | ")} |`;
  if (shape.kind === "struct") return [row, ...markdownRows(shape.members, `${path}.`)];
  if (shape.kind !== "list") return [row];
  const items = shapeRows(shape.of, `${path}[]`);
  return [row, ...(shape.of.kind === "struct" ? items.slice(1) : items)];
}

export function contractSql(): string {
  return contracts
    .map(({ table, row }) => {
      const notes = [row, ofTexts, ...wholeRules(table)].map((note) => `-- ${note.replaceAll("`", "")}`);
      return `${notes.join("\n")}\nCREATE TABLE ${table.name} (\n${sqlMembers(table.members, "  ", " NOT NULL")}\n);\n`;
    })
    .join("\n");
}

/** One to a line. `after` follows each type. */
function sqlMembers(members: Members, indent: string, after: string): string {
  const entries = Object.entries(members);
  return entries
    .map(([published, shape], place) => {
      const end = place < entries.length - 1 ? "," : "";
      const rules = ownRules(shape);
      const type = `${indent}${identifier(sourceName(published))} ${sqlType(shape, indent)}${after}${end}`;
      return rules === "" ? type : `${type} -- ${rules}`;
    })
    .join("\n");
}

function sqlType(shape: Shape, indent: string): string {
  switch (shape.kind) {
    case "list":
      return `${sqlType(shape.of, indent)}[]`;
    case "struct":
      return `STRUCT(\n${sqlMembers(shape.members, `${indent}  `, "")}\n${indent})`;
    case "integer":
      return shape.max > 2 ** 31 ? "BIGINT" : typeNames.integer;
    default:
      return typeNames[shape.kind];
  }
}

type JsonSchema = Record<string, unknown>;

/**
 * JSON Schema (2020-12) for both sources as one object: `markets` and `protocol_scores`, each a list of rows. A row's
 * own schema is in `$defs`. What JSON Schema cannot express, such as the size of a row or that no id occurs twice,
 * stands in comments.
 */
export function contractJsonSchema(): JsonSchema {
  const names = contracts.map(({ table }) => table.name);
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    title: "Contract of the sources",
    type: "object",
    required: names,
    properties: Object.fromEntries(
      names.map((name) => [name, { type: "array", minItems: 1, items: { $ref: `#/$defs/${name}` } }]),
    ),
    $defs: Object.fromEntries(
      contracts.map(({ table, row }) => [
        table.name,
        {
          description: row,
          $comment: [...wholeRules(table), `a row ${recordRule}`, ofTexts].join("; "),
          ...objectSchema(table.members),
          ...(table.members === protocol && { anyOf: numbersOfTiers }),
        },
      ]),
    ),
  };
}

const numbersOfTiers = forgeTiers.map((tier) => ({
  type: "object",
  properties: { forge_scale: { const: tier }, forge_scale_num: { const: forgeScaleNumber(tier) } },
}));

function objectSchema(members: Members): JsonSchema {
  const entries = Object.entries(members).map(
    ([published, shape]) => [sourceName(published), schemaOf(shape)] as const,
  );
  return {
    type: "object",
    required: entries.map(([name]) => name),
    properties: Object.fromEntries(entries),
  };
}

function schemaOf(shape: Shape): JsonSchema {
  const description = meaningOf(shape);
  return { ...(description !== undefined && { description }), ...typeSchema(shape) };
}

function typeSchema(shape: Shape): JsonSchema {
  switch (shape.kind) {
    case "text":
      return textSchema(shape);
    case "integer":
      return { type: "integer", minimum: shape.min, maximum: shape.max };
    case "double": {
      const { min: minimum, max: maximum } = shape;
      return {
        type: "number",
        ...(minimum !== undefined && { minimum }),
        ...(maximum !== undefined && { maximum }),
      };
    }
    case "boolean":
      return { type: "boolean" };
    case "time":
      return {
        type: "string",
        format: "date-time",
        pattern: timePattern,
        $comment: ownRules(shape),
      };
    case "any":
      return { $comment: `at most ${maxDepth} deep` };
    case "list":
      return { type: "array", items: schemaOf(shape.of), ...(shape.each && eachOnce(shape.each)) };
    case "struct":
      return objectSchema(shape.members);
  }
}

/** RFC 3339 with an offset, from 2000 on. */
const timePattern = "^[2-9]\\d{3}-\\d{2}-\\d{2}T\\d{2}:\\d{2}:\\d{2}(\\.\\d+)?(Z|[+-]\\d{2}:\\d{2})$";

function textSchema({ values, pattern, reserved, notEmpty, maxBytes }: Shape & { kind: "text" }): JsonSchema {
  return {
    type: "string",
    ...(values ? { enum: values } : { maxLength: maxBytes ?? maxCharacters }),
    ...(pattern && { pattern: pattern.source }),
    not: { anyOf: [{ pattern: `[${unwanted}]` }, ...(reserved ? [{ enum: reserved }] : [])] },
    ...(notEmpty && { minLength: 1 }),
    ...(maxBytes !== undefined && { $comment: atMostBytes(maxBytes).rule }),
  };
}

/** A list with exactly one item for each of these values of a member. */
function eachOnce({ member, values }: { member: string; values: readonly string[] }): JsonSchema {
  const itemWith = (value: string) => ({
    contains: { type: "object", required: [member], properties: { [member]: { const: value } } },
  });
  return { minItems: values.length, maxItems: values.length, allOf: values.map(itemWith) };
}
