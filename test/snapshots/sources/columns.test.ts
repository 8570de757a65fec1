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

  const [textRule, listRule] = ["must be of type VARCHAR", "must be of type LIST"];
  const [realRule, timeRule] = ["must be of type DOUBLE", "must be of type TIMESTAMP WITH TIME ZONE"];
  const markets = (value: string, column: string) => `SELECT * REPLACE (${value} AS ${column}) FROM markets`;
  const dimensions = (value: string) => replacedDimensions(`struct_update(d, ${value})`);
  const scores = (value: string, column: string) => `SELECT * REPLACE (${value} AS ${column}) FROM scores`;

  test.each<[query: string, column: string, type: string | RegExp | undefined, rule: unknown]>([
    [markets("id::UUID", "id"), "id", "UUID", textRule],
    [markets("slug::BLOB", "slug"), "slug", "BLOB", textRule],
    [markets("composite::FLOAT", "composite"), "composite", "FLOAT", integerRule],
    [markets("composite::DOUBLE", "composite"), "composite", "DOUBLE", integerRule],
    [markets("composite::DECIMAL(9, 0)", "composite"), "composite", "DECIMAL(9,0)", integerRule],
    [markets("composite::VARCHAR", "composite"), "composite", "VARCHAR", integerRule],
    [markets("flagged_count::HUGEINT", "flagged_count"), "flagged_count", "DOUBLE", integerRule],
    [markets("disputed::INTEGER", "disputed"), "disputed", "INTEGER", "must be of type BOOLEAN"],
    [markets("resolved_at::TIMESTAMP", "resolved_at"), "resolved_at", "TIMESTAMP", zonelessRule],
    [
      markets("resolved_at::TIMESTAMP::TIMESTAMP_NS", "resolved_at"),
      "resolved_at",
      "TIMESTAMP_NS",
      zonelessRule,
    ],
    [markets("resolved_at::VARCHAR", "resolved_at"), "resolved_at", "VARCHAR", timeRule],
    [markets("to_json(question)", "question"), "question", "JSON", textRule],
    [markets("to_json(dimensions)", "dimensions"), "dimensions", "JSON", listRule],
    [markets("dimensions[1]", "dimensions"), "dimensions", /^STRUCT/, listRule],
    [dimensions("score := d.score::DOUBLE"), "dimensions[].score", "DOUBLE", integerRule],
    [dimensions("weight := d.weight::FLOAT"), "dimensions[].weight", "FLOAT", realRule],
    [dimensions("weight := d.weight::DECIMAL(3, 2)"), "dimensions[].weight", "DECIMAL(3,2)", realRule],
    [dimensions('"references" := to_json(d."references")'), "dimensions[].references", "JSON", listRule],
    [
      dimensions("computation := {'baseline': 1.0::DOUBLE, 'raises': ['a']}"),
      "dimensions[].computation.lowers",
      undefined,
      "is missing",
    ],
    [
      dimensions("evidence := [{'type': 'a', 'label': 'b', 'reference': {'label': 'c', 'kind': 'd'}}]"),
      "dimensions[].evidence[].pattern",
      undefined,
      "is missing",
    ],
    [scores("bri::DOUBLE", "bri"), "bri", "DOUBLE", integerRule],
    [
      scores("struct_update(dimensions, opsec := 1.5::DOUBLE)", "dimensions"),
      "dimensions.opsec",
      "DOUBLE",
      integerRule,
    ],
    [scores("struct_update(metadata, z_factor := 1)", "metadata"), "metadata.z_factor", "INTEGER", realRule],
    [scores("updated_at::TIMESTAMP", "updated_at"), "updated_at", "TIMESTAMP", zonelessRule],
  ])("of %s: %s is named with its type", async (query, column, type, rule) => {
    const source = query.endsWith("FROM scores") ? "protocol_scores" : "markets";
    const value = type instanceof RegExp ? expect.stringMatching(type) : type;
    const refusal = { file: `${source}.parquet`, column, ...(value === undefined ? {} : { value }), rule };
    const refusals = await refusalsOf(await fixtures.write({ [source]: query }));
    expect(refusals).toContainEqual(refusal);
    if (!column.startsWith("dimensions[]")) expect(refusals).toHaveLength(1);
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
