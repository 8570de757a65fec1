import { describe, expect, test } from "vitest";
import { refusalsOf, replacedDimensions, sourceFixtures } from "../../helpers/publish/sources.ts";

const fixtures = sourceFixtures();

const zonelessRule = expect.stringMatching(
  /^must be of type TIMESTAMP WITH TIME ZONE; .* tz='UTC'.*outputTimestampType=TIMESTAMP_MICROS.* ::TIMESTAMPTZ$/,
);
const integerRule = "must be of type INTEGER, or another integer type";

describe("columns", () => {
  test.each([
    [
      "markets",
      "markets",
      "id slug question category composite tier status resolved_outcome resolved_at resolution_source disputed " +
        "top_risk_driver flagged_count formula_version weight_version dimensions",
    ],
    [
      "protocol_scores",
      "scores",
      "slug bri forge_scale forge_scale_num confidence delta updated_at evidence_hash dimensions cascade findings " +
        "metadata",
    ],
  ])("%s without any column, and without one of them", async (source, table, names) => {
    const missing = (column: string) => ({ file: `${source}.parquet`, column, rule: "is missing" });
    const columns = names.split(" ");
    const nothing = await fixtures.write({ [source]: `SELECT n, 1 AS other FROM ${table}` });
    expect(await refusalsOf(nothing)).toEqual(columns.map(missing));
    const last = await fixtures.write({ [source]: `SELECT * EXCLUDE (${columns.at(-1)}) FROM ${table}` });
    expect(await refusalsOf(last)).toEqual([missing(columns.at(-1)!)]);
  });

  test.each([
    ["id", "id::UUID", "UUID", "must be of type VARCHAR"],
    ["slug", "slug::BLOB", "BLOB", "must be of type VARCHAR"],
    ["composite", "composite::FLOAT", "FLOAT", integerRule],
    ["composite", "composite::DOUBLE", "DOUBLE", integerRule],
    ["composite", "composite::DECIMAL(9, 0)", "DECIMAL(9,0)", integerRule],
    ["composite", "composite::VARCHAR", "VARCHAR", integerRule],
    ["flagged_count", "flagged_count::HUGEINT", "DOUBLE", integerRule],
    ["disputed", "disputed::INTEGER", "INTEGER", "must be of type BOOLEAN"],
    ["resolved_at", "resolved_at::TIMESTAMP", "TIMESTAMP", zonelessRule],
    ["resolved_at", "resolved_at::TIMESTAMP::TIMESTAMP_NS", "TIMESTAMP_NS", zonelessRule],
    ["resolved_at", "resolved_at::VARCHAR", "VARCHAR", "must be of type TIMESTAMP WITH TIME ZONE"],
    ["question", "to_json(question)", "JSON", "must be of type VARCHAR"],
    ["dimensions", "to_json(dimensions)", "JSON", "must be of type LIST"],
    ["dimensions", "dimensions[1]", /^STRUCT/, "must be of type LIST"],
  ])("markets with %s as %s", async (column, value, type, rule) => {
    const directory = await fixtures.write({
      markets: `SELECT * REPLACE (${value} AS ${column}) FROM markets`,
    });
    const shown = type instanceof RegExp ? expect.stringMatching(type) : type;
    expect(await refusalsOf(directory)).toEqual([{ file: "markets.parquet", column, value: shown, rule }]);
  });

  test.each([
    ["struct_update(d, score := d.score::DOUBLE)", "score", "DOUBLE", integerRule],
    ["struct_update(d, weight := d.weight::FLOAT)", "weight", "FLOAT", "must be of type DOUBLE"],
    [
      "struct_update(d, weight := d.weight::DECIMAL(3, 2))",
      "weight",
      "DECIMAL(3,2)",
      "must be of type DOUBLE",
    ],
    [
      'struct_update(d, "references" := to_json(d."references"))',
      "references",
      "JSON",
      "must be of type LIST",
    ],
    [
      "struct_update(d, computation := {'baseline': 1.0::DOUBLE, 'raises': ['a']})",
      "computation.lowers",
      undefined,
      "is missing",
    ],
    [
      "struct_update(d, evidence := [{'type': 'a', 'label': 'b', 'reference': {'label': 'c', 'kind': 'd'}}])",
      "evidence[].pattern",
      undefined,
      "is missing",
    ],
  ])("markets with %s", async (dimension, member, value, rule) => {
    const directory = await fixtures.write({ markets: replacedDimensions(dimension) });
    expect(await refusalsOf(directory)).toContainEqual({
      file: "markets.parquet",
      column: `dimensions[].${member}`,
      ...(value === undefined ? {} : { value }),
      rule,
    });
  });

  test.each([
    ["bri", "bri::DOUBLE", "bri", "DOUBLE", integerRule],
    [
      "dimensions",
      "struct_update(dimensions, opsec := 1.5::DOUBLE)",
      "dimensions.opsec",
      "DOUBLE",
      integerRule,
    ],
    [
      "metadata",
      "struct_update(metadata, z_factor := 1)",
      "metadata.z_factor",
      "INTEGER",
      "must be of type DOUBLE",
    ],
    ["updated_at", "updated_at::TIMESTAMP", "updated_at", "TIMESTAMP", zonelessRule],
  ])("scores with %s as %s", async (column, replacement, path, value, rule) => {
    const query = `SELECT * REPLACE (${replacement} AS ${column}) FROM scores`;
    const refusals = await refusalsOf(await fixtures.write({ protocol_scores: query }));
    expect(refusals).toEqual([{ file: "protocol_scores.parquet", column: path, value, rule }]);
  });

  test("a missing dimension key of a score", async () => {
    const query = `SELECT * REPLACE ({'access_control': 1, 'opsec': 2} AS dimensions) FROM scores`;
    const refusals = await refusalsOf(await fixtures.write({ protocol_scores: query }));
    expect(refusals.map(({ column }) => column)).toContain("dimensions.liquidity");
    expect(refusals).toHaveLength(10);
  });

  test("only the file that differs is named, wherever it stands in the order", async () => {
    const odd = "SELECT * REPLACE (composite::DOUBLE AS composite) FROM markets WHERE n >= 20";
    const [first, second] = ["FROM markets WHERE n < 20", odd];
    for (const files of [
      { "markets/a": first, "markets/b": second },
      { "markets/b": first, "markets/a": second },
    ]) {
      const name = Object.entries(files).find(([, query]) => query === odd)?.[0];
      expect(await refusalsOf(await fixtures.write(files))).toMatchObject([
        { file: `${name}.parquet`, column: "composite", value: "DOUBLE" },
      ]);
    }
  });

  test("both sources are looked at before either is refused", async () => {
    const directory = await fixtures.write({
      markets: "SELECT * EXCLUDE (tier) FROM markets",
      protocol_scores: "SELECT * EXCLUDE (bri) FROM scores",
    });
    expect((await refusalsOf(directory)).map(({ column }) => column)).toEqual(["tier", "bri"]);
  });
});
