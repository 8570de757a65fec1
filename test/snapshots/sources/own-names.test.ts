import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { DuckDBStructType, LIST, MAP, STRUCT, VARCHAR } from "@duckdb/node-api";
import { describe, expect, test } from "vitest";
import { faultyName, matchAny } from "../../../snapshots/sources/contract/match-columns.ts";
import { readAll, refusalsOf, replacedDimensions, sourceFixtures } from "../../helpers/publish/sources.ts";

const fixtures = sourceFixtures();

describe("names that differ only in case", () => {
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
  const types = ["JSON", "DECIMAL(9, 2)[]"];
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
