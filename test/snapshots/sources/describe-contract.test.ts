import { writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import {
  contractJsonSchema,
  contractMarkdown,
  contractSql,
} from "../../../snapshots/sources/contract/describe-contract.ts";
import { quoted } from "../../../snapshots/sources/duckdb/sql-literals.ts";
import { withDuckDb } from "../../helpers/archive/sql.ts";
import { readAll, refusalsOf, sourceFixtures } from "../../helpers/publish/sources.ts";

const fixtures = sourceFixtures();
const { folder } = fixtures;

type Row = Record<string, unknown>;

/** Rows of a table as JSON that the contract allows. */
async function jsonRows(table: "markets" | "scores", time: string): Promise<Row[]> {
  const rows = await fixtures.rows(
    `SELECT to_json(row)::VARCHAR FROM (SELECT * EXCLUDE (n)
       REPLACE (strftime(${time}, '%Y-%m-%dT%H:%M:%S.%gZ') AS ${time}) FROM ${table} ORDER BY n) row`,
  );
  return rows.map(([text]) => JSON.parse(String(text)));
}

/** Writes sources from rows in JSON, by way of the contract's own tables. */
async function written(name: string, rows: { markets: Row[]; protocol_scores: Row[] }): Promise<string> {
  const directory = await fixtures.write({});
  await withDuckDb(folder, async (sql) => {
    await sql.run(contractSql());
    for (const [table, all] of Object.entries(rows)) {
      const file = join(folder, `${name}-${table}.ndjson`);
      await writeFile(file, all.map((row) => `${JSON.stringify(row)}\n`).join(""));
      const described = await sql.runAndReadAll(`DESCRIBE ${table}`);
      const types = described.getRows().map(([column, type]) => `${column}: ${quoted(String(type))}`);
      const read = `read_json(${quoted(file)}, format = 'newline_delimited', columns = {${types.join(", ")}})`;
      const path = quoted(join(directory, `${table}.parquet`));
      await sql.run(`COPY (FROM ${read}) TO ${path} (FORMAT parquet)`);
    }
  });
  return directory;
}

/** A validator of JSON Schema 2020-12. It comes with what checks the description of the API. */
function validator() {
  const ofRedocly = createRequire(fileURLToPath(import.meta.resolve("@redocly/openapi-core")));
  const Ajv2020 = ofRedocly("@redocly/ajv/dist/2020.js").default;
  const ajv = new Ajv2020({ strict: true, strictRequired: false, validateFormats: false, allErrors: true });
  const schema = contractJsonSchema();
  expect(ajv.validateSchema(schema), JSON.stringify(ajv.errors)).toBe(true);
  ajv.addSchema(schema, "contract");
  return (path: string, value: unknown): boolean => ajv.validate(`contract${path}`, value);
}

/** Sets a member by its path, or takes it away where the value is undefined. */
function altered(row: Row, path: string, value: unknown): Row {
  const copy = structuredClone(row);
  const names = path.split(".");
  const last = names.pop()!;
  const holder = names.reduce((part, name) => part[name] as Row, copy);
  if (value === undefined) delete holder[last];
  else holder[last] = value;
  return copy;
}

const long = (characters: number) => "a".repeat(characters);

const changesOf = {
  markets: [
    ["id", "0000DEAD-0000-4000-8000-000000000000"],
    ["slug", ""],
    ["slug", "a\tb\r\n\u00a0\u202ec"],
    ["slug", "a\u001bb"],
    ["category", "a\u{e0041}b"],
    ["resolution_source", "https://example.org/\u0085"],
    ["dimensions.2.description", "\u007f"],
    ["slug", long(10_000)],
    ["slug", long(10_001)],
    ["question", null],
    ["category", long(257)],
    ["category", long(256)],
    ["composite", 299],
    ["composite", 300],
    ["composite", 1001],
    ["tier", "raw"],
    ["status", "open"],
    ["resolved_outcome", undefined],
    ["resolved_at", "1999-12-31T23:59:59.999Z"],
    ["resolved_at", "2000-01-01T00:00:00.000Z"],
    ["resolution_source", "ftp://example.org"],
    ["disputed", null],
    ["top_risk_driver", ""],
    ["flagged_count", -1],
    ["weight_version", ""],
    ["dimensions.2.key", "informed"],
    ["dimensions.2.key", "other"],
    ["dimensions.2.score", 101],
    ["dimensions.2.weight", 1.5],
    ["dimensions.2.weight", 0],
    ["dimensions.2.evidence", []],
    ["dimensions.2.evidence", null],
    [
      "dimensions.2.evidence",
      [{ type: "", label: "", pattern: "", reference: { label: "", url: "javascript:", kind: "" } }],
    ],
    ["dimensions.2.references", [null, 1, "a", { b: [true] }]],
    ["dimensions.2.references", null],
    ["dimensions.2.computation.baseline", null],
    ["dimensions.2.computation.raises", undefined],
    ["dimensions", []],
    ["other", "is ignored"],
  ],
  protocol_scores: [
    ["slug", "batch"],
    ["slug", "Aave"],
    ["slug", "yearn.finance"],
    ["bri", 1001],
    ["forge_scale_num", 8],
    ["forge_scale", "MITHRIL"],
    ["confidence", null],
    ["delta", -1000],
    ["delta", -1001],
    ["dimensions.opsec", undefined],
    ["cascade.blast_radius", -1],
    ["metadata.z_factor", null],
    ["evidence_hash", ""],
  ],
} as const satisfies Record<string, readonly (readonly [path: string, value: unknown])[]>;

describe("the contract", () => {
  test("as SQL makes tables that are accepted, and as JSON Schema accepts their rows", async () => {
    const rows = {
      markets: await jsonRows("markets", "resolved_at"),
      protocol_scores: await jsonRows("scores", "updated_at"),
    };
    const { markets, scores, warnings } = await readAll(await written("sound", rows));
    expect([markets.length, scores.length, warnings]).toEqual([40, 5, []]);
    const sound = await readAll(await fixtures.write({}));
    expect(markets.map(({ json }) => json)).toEqual(sound.markets.map(({ json }) => json));
    const valid = validator();
    expect(valid("", rows)).toBe(true);
    expect(valid("", { ...rows, markets: [] })).toBe(false);
    expect(valid("", { ...rows, protocol_scores: rows.markets })).toBe(false);
  });

  test("as JSON Schema refuses the rows that the checks refuse, and no others", async () => {
    const valid = validator();
    const [markets, scores] = [
      await jsonRows("markets", "resolved_at"),
      await jsonRows("scores", "updated_at"),
    ];
    const alter = (rows: Row[], changes: readonly (readonly [path: string, value: unknown])[]) =>
      changes.map(([path, value], n) => altered(rows[n]!, path, value));
    const altering = {
      markets: alter(markets, changesOf.markets),
      protocol_scores: alter(scores, changesOf.protocol_scores),
    };
    for (const name of ["markets", "protocol_scores"] as const) {
      const sound = { markets, protocol_scores: scores };
      const refusals = await refusalsOf(await written("altered", { ...sound, [name]: altering[name] }));
      const refused = new Set(refusals.map(({ row = "" }) => Number(/^row (\d+)/.exec(row)?.[1])));
      const verdicts = changesOf[name].map(([path, value], n) => {
        return { path, value, sound: !refused.has(n) };
      });
      const schema = changesOf[name].map(([path, value], n) => {
        return { path, value, sound: valid(`#/$defs/${name}`, altering[name][n]) };
      });
      expect(schema).toEqual(verdicts);
      expect(refused.size).toBeGreaterThan(7);
      expect(refused.size).toBeLessThan(changesOf[name].length);
    }
  });

  test("in Markdown has a row for every column and member", () => {
    const text = contractMarkdown();
    const paths = [...text.matchAll(/^\| `([^`]+)` \| [A-Z]+ \|/gm)].map(([, path]) => path);
    expect(paths).toEqual(expect.arrayContaining(["id", "dimensions[].evidence[].reference.url"]));
    expect(paths).toEqual(expect.arrayContaining(["metadata.z_factor", "dimensions.cascade_exposure"]));
    expect(new Set(text.match(/^## .*/gm))).toEqual(new Set(["## markets", "## protocol_scores"]));
    const meaning = "Composite score of a market, from 300 to 1,000";
    expect(text).toContain(`| \`composite\` | INTEGER | must be from 300 to 1000 | ${meaning}`);
    expect(JSON.stringify(contractJsonSchema())).toContain(`"description":"${meaning}`);
    expect(text).toContain("`id` must not be the id of two markets");
    for (const contract of [text, contractSql(), JSON.stringify(contractJsonSchema())])
      expect(contract).toContain("no control characters except tab, LF and CR, and no Unicode tags");
  });
});
