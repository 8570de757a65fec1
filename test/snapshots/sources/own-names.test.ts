import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { DuckDBStructType, LIST, MAP, STRUCT, VARCHAR } from "@duckdb/node-api";
import { describe, expect, test } from "vitest";
import { faultyName, matchAny } from "../../../snapshots/sources/contract/match-columns.ts";
import {
  readAll,
  refusalsOf,
  replacedDimensions,
  type SourceFiles,
  sourceFixtures,
} from "../../helpers/publish/sources.ts";

const fixtures = sourceFixtures();

/** Sources with names that DuckDB cannot write: each name is put in the place of another of its length. */
async function writeWith(names: Record<string, string>, files: SourceFiles): Promise<string> {
  const directory = await fixtures.write(files, ", COMPRESSION uncompressed");
  const path = join(directory, "markets.parquet");
  let bytes = (await readFile(path)).toString("latin1");
  for (const [written, name] of Object.entries(names)) bytes = bytes.replaceAll(written, name);
  await writeFile(path, Buffer.from(bytes, "latin1"));
  return directory;
}

/** SQL of a dimension, `d`, with another member before its own. */
const withBefore = (name: string) => `struct_pack(${name} := 'foreign', key := d.key, "name" := d.name,
  score := d.score, weight := d.weight, description := d.description, evidence := d.evidence,
  "references" := d."references", computation := d.computation)`;

describe("names that differ only in case", () => {
  test("a foreign column or member before the contract's is ignored under its own name", async () => {
    const { warnings: _, ...plain } = await readAll(await fixtures.write({}));
    const query = `SELECT 'x' AS CATEGORQ, 7 AS "Resolved_aq", * FROM (${replacedDimensions(withBefore("KEQ"))})`;
    const names = { CATEGORQ: "CATEGORY", Resolved_aq: "Resolved_at", KEQ: "KEY" };
    const { warnings, ...rows } = await readAll(await writeWith(names, { markets: query }));
    const ignored = "markets: ignored columns and members that the contract does not name";
    expect([...warnings, rows]).toEqual([`${ignored}: CATEGORY, Resolved_at, dimensions[].KEY`, plain]);
    const broken = `SELECT * REPLACE (CASE WHEN n = 7 THEN 1001 ELSE composite END AS composite)
      FROM (${query}) ORDER BY n`;
    expect(await refusalsOf(await writeWith(names, { markets: broken }))).toMatchObject([
      { row: expect.stringMatching(/^row 7 /), column: "composite", value: "1001" },
    ]);
  });

  test("a column or member twice is refused", async () => {
    const query = `SELECT 'x' AS categorq, * FROM (${replacedDimensions(withBefore("namq"))})`;
    const directory = await writeWith({ categorq: "category", namq: "name" }, { markets: query });
    expect(await refusalsOf(directory)).toEqual([
      { file: "markets.parquet", column: "category", rule: "must not be there twice" },
      { file: "markets.parquet", column: "dimensions[].name", rule: "must not be there twice" },
    ]);
  });

  test("members whose names the file chooses are refused, and none is published under an invented name", async () => {
    const value = `struct_update(d, "references" := [{'link': 'a', 'LINQ': 'b'}])`;
    const directory = await writeWith({ LINQ: "LINK" }, { markets: replacedDimensions(value) });
    const [column, rule] = ["dimensions[].references[].LINK", "must differ from link in more than case"];
    expect(await refusalsOf(directory)).toEqual([{ file: "markets.parquet", column, rule }]);
  });

  test("a key twice in a map is refused, and keys that differ in case are published as they are", async () => {
    const query = (keys: string) =>
      replacedDimensions(`struct_update(d, "references" := [map_from_entries([${keys}])])`);
    const twice = query("('key_a', 1), ('Key_a', 2), ('key_q', 3)");
    const [refusal] = await refusalsOf(await writeWith({ key_q: "key_a" }, { markets: twice }));
    const rule = "must not be the name of two members of one object";
    expect(refusal).toMatchObject({ column: "dimensions[0].references[0]", value: '"key_a"', rule });
    const others = query("('__proto__', 1), ('key', 2), ('KEY', 3)");
    const { markets } = await readAll(await fixtures.write({ markets: others }));
    expect(markets[0]!.json).toContain('"references":[{"__proto__":1,"key":2,"KEY":3}]');
  });

  const struct = (...names: string[]) => new DuckDBStructType(names, Array(names.length).fill(VARCHAR));
  test.for([
    [struct("a", "", "b"), '.""', "must have a name"],
    [LIST(STRUCT({ x: LIST(struct("k", "K")) })), "[].x[].K", "must differ from k in more than case"],
    [MAP(VARCHAR, struct("k", "k")), ".k", "must differ from k in more than case"],
    [struct("url", "URL_1"), ".URL_1", /^must not have a name that DuckDB makes of URL beside url/],
  ] as const)("%s", ([type, column, rule]) => {
    const expected = rule instanceof RegExp ? expect.stringMatching(rule) : rule;
    expect(faultyName(type, "")).toEqual({ column, rule: expected });
  });

  test("others that look alike are kept", () => {
    for (const names of ["url url_1 url_2", "straße STRASSE İ i̇", "_1 a_1_1"]) {
      const type = struct(...names.split(" "));
      expect(faultyName(type, "")).toBeUndefined();
      expect(matchAny(type)).toBeDefined();
    }
  });
});

/** Writes sources whose lists of INTEGER have Arrow's null type for their items, which DuckDB does not write. */
async function writeWithNulls(markets: string): Promise<string> {
  const directory = await fixtures.write({ markets });
  const path = join(directory, "markets.parquet");
  const bytes = await readFile(path);
  const footer = bytes.length - 8 - bytes.readUInt32LE(bytes.length - 8);
  // In Thrift's compact protocol: the name, and then the converted type INT_32, in place of which comes a logical type.
  const name = "\x18\x07element";
  const schema = bytes
    .toString("latin1", footer, bytes.length - 8)
    .replaceAll(`${name}\x25\x22\x00`, `${name}\x6c\xbc\x00\x00\x00`);
  const changed = Buffer.from(schema, "latin1");
  expect(changed.length).toBeGreaterThan(bytes.length - 8 - footer);
  const length = Buffer.alloc(4);
  length.writeUInt32LE(changed.length);
  await writeFile(path, Buffer.concat([bytes.subarray(0, footer), changed, length, Buffer.from("PAR1")]));
  return directory;
}

test("lists that are empty in all rows may have items of any type, Arrow's null type among them", async () => {
  const lists = (evidence: string) =>
    replacedDimensions(`struct_update(d, evidence := ${evidence}, "references" := []::INTEGER[],
      computation := struct_update(d.computation, raises := []::INTEGER[], lowers := []::INTEGER[]))`);
  const types = ["INTEGER", "VARCHAR", "JSON", "STRUCT(type INTEGER)", "DECIMAL(9, 2)[]"];
  for (const directory of [
    await writeWithNulls(lists("[]::INTEGER[]")),
    ...(await Promise.all(types.map((type) => fixtures.write({ markets: lists(`[]::${type}[]`) })))),
    await fixtures.write({ markets: lists("[]").replaceAll("[]::INTEGER[]", "[]::DATE[]") }),
  ]) {
    const { markets, warnings } = await readAll(directory);
    expect(warnings).toEqual([]);
    expect(markets).toHaveLength(40);
    const empty = { evidence: [], references: [], computation: { raises: [], lowers: [] } };
    expect(JSON.parse(markets[0]!.json).dimensions[0]).toMatchObject(empty);
  }
  const filled = lists("CASE WHEN n = 7 AND d.key = 'oracle' THEN [NULL]::INTEGER[] ELSE [] END");
  expect(await refusalsOf(await writeWithNulls(filled))).toMatchObject([
    { column: "dimensions[].evidence[]", rule: "must be of type STRUCT" },
  ]);
});
