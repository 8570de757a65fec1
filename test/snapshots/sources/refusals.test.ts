import { describe, expect, test } from "vitest";
import { marketDimensionKeys } from "../../../schemas/market.ts";
import {
  expectRefused,
  refusalsOf,
  replaced,
  replacedDimension,
  replacedDimensions,
  rules,
  sourceFixtures,
  withDimension,
} from "../../helpers/publish/sources.ts";

const fixtures = sourceFixtures();

const uuidRule = "must be a UUID in lower-case digits";
const labelRule = "must be at most 256 bytes in UTF-8";
const urlRule = "must be an http or https URL";

describe("values of markets", () => {
  test("out of bounds", async () => {
    const values = [
      ["id", "''", '""', uuidRule],
      ["id", "upper(id)", /^"[0-9A-F-]{36}"$/, uuidRule],
      ["id", "replace(id, '-', '')", /^"[0-9a-f]{32}"$/, uuidRule],
      ["id", "concat(id, chr(10))", /\\n"$/, uuidRule],
      ["slug", "''", '""', "must not be empty"],
      ["question", "''", '""', "must not be empty"],
      ["category", "''", '""', "must not be empty"],
      ["resolved_outcome", "''", '""', "must not be empty"],
      ["category", "repeat('x', 257)", /^"x+$/, labelRule],
      ["category", "repeat('€', 86)", /^"€+"$/, labelRule],
      ["resolved_outcome", "repeat('é', 129)", /^"é+$/, labelRule],
      ["formula_version", "repeat('x', 257)", /^"x+$/, labelRule],
      ["weight_version", "repeat('x', 257)", /^"x+$/, labelRule],
      ["composite", "299", "299", "must be from 300 to 1000"],
      ["composite", "1001", "1001", "must be from 300 to 1000"],
      ["tier", "'GOLD'", '"GOLD"', rules.tier],
      ["tier", "'raw'", '"raw"', rules.tier],
      ["status", "'open'", '"open"', "must be resolved"],
      ["resolved_at", "TIMESTAMPTZ '1999-12-31 23:59:59.999999+00'", /^1999-12-31/, rules.early],
      ["resolved_at", "TIMESTAMPTZ '0001-01-01 00:00:00+00'", /^0001-01-01/, rules.early],
      ["resolved_at", "TIMESTAMPTZ '-infinity'", "-infinity", rules.early],
      [
        "resolved_at",
        "TIMESTAMPTZ '2026-01-01 00:05:00.000001+00'",
        /^2026-01-01 00:05:00.000001/,
        rules.late,
      ],
      ["resolved_at", "TIMESTAMPTZ '9999-12-31 00:00:00+00'", /^9999/, rules.late],
      ["resolved_at", "TIMESTAMPTZ 'infinity'", "infinity", rules.late],
      ["resolution_source", "'javascript:alert(1)'", '"javascript:alert(1)"', urlRule],
      ["resolution_source", "'data:text/html,x'", '"data:text/html,x"', urlRule],
      ["resolution_source", "' https://example.org'", '" https://example.org"', urlRule],
      ["resolution_source", "'example.org'", '"example.org"', urlRule],
      ["resolution_source", "''", '""', urlRule],
      ["flagged_count", "-1", "-1", rules.count],
      ["flagged_count", "9007199254740992::BIGINT", "9007199254740992", rules.count],
    ] as const;
    await expectRefused(
      fixtures,
      "markets",
      values.map(([column, value, shown, rule]) => ({ column, value, shown, rule })),
    );
  });

  test("above what a signed integer holds", async () => {
    const query = `SELECT * REPLACE (CASE WHEN n = 7 THEN 18446744073709551615::UBIGINT
      ELSE flagged_count::UBIGINT END AS flagged_count) FROM markets`;
    expect(await refusalsOf(await fixtures.write({ markets: query }))).toMatchObject([
      { column: "flagged_count", value: "18446744073709551615", rule: rules.count },
    ]);
  });

  test("null", async () => {
    const columns =
      "id slug question category composite tier status resolved_outcome resolved_at resolution_source disputed " +
      "top_risk_driver flagged_count formula_version weight_version";
    await expectRefused(
      fixtures,
      "markets",
      columns.split(" ").map((column) => ({ column, value: "NULL", shown: "null", rule: rules.given })),
    );
  });
});

const evidence = (reference: string, type = "'wallet_signal'") =>
  `struct_update(d, evidence := [{'type': 'a', 'label': 'b', 'pattern': 'c', 'reference': {'label': 'd',
    'url': 'https://example.org', 'kind': 'e'}},
    {'type': ${type}, 'label': 'l', 'pattern': 'p', 'reference': ${reference}}])`;
const reference = (url: string) => `{'label': 'l', 'url': ${url}, 'kind': 'profile'}`;
const computation = (member: string) =>
  `struct_update(d, computation := struct_update(d.computation, ${member}))`;

describe("values within dimensions", () => {
  test("out of bounds, and null", async () => {
    const values = [
      ["struct_update(d, score := 101)", "score", "101", "must be from 0 to 100"],
      ["struct_update(d, score := -1)", "score", "-1", "must be from 0 to 100"],
      ["struct_update(d, weight := 1.0000001::DOUBLE)", "weight", "1.0000001", "must be from 0 to 1"],
      ["struct_update(d, weight := -0.1::DOUBLE)", "weight", "-0.1", "must be from 0 to 1"],
      ["struct_update(d, weight := 'nan'::DOUBLE)", "weight", "nan", rules.finite],
      [computation("baseline := 'inf'::DOUBLE"), "computation.baseline", "inf", rules.finite],
      [computation("baseline := '-inf'::DOUBLE"), "computation.baseline", "-inf", rules.finite],
      [computation("baseline := 'nan'::DOUBLE"), "computation.baseline", "nan", rules.finite],
      [
        evidence(reference("'ftp://example.org'")),
        "evidence[1].reference.url",
        '"ftp://example.org"',
        urlRule,
      ],
      [evidence(reference("'JavaScript:x'")), "evidence[1].reference.url", '"JavaScript:x"', urlRule],
      [evidence(reference("NULL")), "evidence[1].reference.url", "null", rules.given],
      [evidence("NULL"), "evidence[1].reference", "null", rules.given],
      [evidence(reference("'http://x'"), "NULL"), "evidence[1].type", "null", rules.given],
      ["struct_update(d, name := NULL)", "name", "null", rules.given],
      ["struct_update(d, score := NULL)", "score", "null", rules.given],
      ["struct_update(d, weight := NULL)", "weight", "null", rules.given],
      ["struct_update(d, description := NULL)", "description", "null", rules.given],
      ["struct_update(d, evidence := NULL)", "evidence", "null", rules.given],
      ["struct_update(d, evidence := [NULL])", "evidence[0]", "null", rules.given],
      ['struct_update(d, "references" := NULL)', "references", "null", rules.given],
      ["struct_update(d, computation := NULL)", "computation", "null", rules.given],
      [computation("baseline := NULL"), "computation.baseline", "null", rules.given],
      [computation("raises := NULL"), "computation.raises", "null", rules.given],
      [computation("lowers := NULL"), "computation.lowers", "null", rules.given],
    ] as const;
    await expectRefused(
      fixtures,
      "markets",
      values.map(([dimension, member, shown, rule]) => ({
        column: "dimensions",
        value: withDimension(dimension),
        path: `dimensions[2].${member}`,
        shown,
        rule,
      })),
    );
  });

  const keysRule = `must have each of the keys ${marketDimensionKeys.join(", ")} once`;

  test.each([
    ["one twice", "struct_update(d, key := 'design')"],
    ["one null", "NULL"],
  ])("dimensions with %s", async (_, dimension) => {
    const directory = await fixtures.write({ markets: replacedDimension(dimension) });
    const rules = (await refusalsOf(directory)).map(({ column, rule }) => `${column} ${rule}`);
    expect(rules).toContain(`dimensions ${keysRule}`);
  });

  test("too few dimensions, none, and too many", async () => {
    const values = ["dimensions[1:5]", "[]", "dimensions || dimensions[1:1]"];
    await expectRefused(
      fixtures,
      "markets",
      values.map((value) => ({ column: "dimensions", value, shown: /^\[/, rule: keysRule })),
    );
  });

  test("an unknown dimension key", async () => {
    const directory = await fixtures.write({ markets: replacedDimension("struct_update(d, key := 'luck')") });
    const [first, second] = await refusalsOf(directory);
    expect(first).toMatchObject({ column: "dimensions[2].key", value: '"luck"' });
    expect(second).toMatchObject({ column: "dimensions", rule: keysRule });
  });

  test("no dimensions at all", async () => {
    const directory = await fixtures.write({ markets: replaced("markets", "dimensions", "NULL") });
    expect((await refusalsOf(directory))[0]).toMatchObject({ column: "dimensions", rule: rules.given });
  });
});

const exactInteger = "must be an integer that JSON holds exactly, up to 2^53-1";
const twice = "must not be the name of two members of one object";
const exactJson = "must be JSON without NaN, Infinity, and numbers that JavaScript cannot hold";

describe("values within any", () => {
  const list = (value: string) => `struct_update(d, "references" := [${value}])`;
  /** Each of the values, which are of one type, as the one reference of a dimension in a row of its own. */
  const rowsOf = (values: readonly string[]) => {
    const cases = values.map((value, n) => `WHEN n = ${n} AND i = 3 THEN [${value}]`).join(" ");
    return `SELECT * REPLACE (list_transform(dimensions, lambda d, i: struct_update(d, "references" :=
      CASE ${cases} ELSE [] END)) AS dimensions) FROM markets ORDER BY n`;
  };

  test.each<[string, [value: string, shown: string | RegExp, rule: string, inside?: string][]]>([
    [
      "BIGINT",
      [
        ["9007199254740992::BIGINT", "9007199254740992", exactInteger],
        ["-9007199254740992::BIGINT", "-9007199254740992", exactInteger],
      ],
    ],
    ["UBIGINT", [["18446744073709551615::UBIGINT", "18446744073709551615", exactInteger]]],
    ["DOUBLE", [["'inf'::DOUBLE", "inf", rules.finite]]],
    ["FLOAT", [["'nan'::FLOAT", "nan", rules.finite]]],
    ["STRUCT", [["{'a': [{'b': 'nan'::DOUBLE}]}", "nan", rules.finite, ".a[0].b"]]],
    ["MAP", [["MAP {'k': 9007199254740993::BIGINT}", "9007199254740993", exactInteger, "[0]"]]],
    [
      "MAP of JSON",
      [[`map_from_entries([('k', '1'::JSON), ('l', '{"a":1,"a":2}'::JSON)])`, '"a"', twice, "[1]"]],
    ],
    [
      "JSON",
      [
        [`'{"a": NaN}'::JSON`, '{"a": NaN}', exactJson],
        [`'[-Infinity]'::JSON`, "[-Infinity]", exactJson],
        [`'[9007199254740993]'::JSON`, "[9007199254740993]", exactJson],
        [`'[123456789012345678901234567890123456789012]'::JSON`, /^\[1234567890/, exactJson],
        [`'[1e400]'::JSON`, "[1e400]", exactJson],
        [`'{"a": "\\"", "b": -1e999}'::JSON`, /-1e999/, exactJson],
        [`'{"a": 1, "b": [[{"c": {"d": 2, "\\u0064": 3}}]]}'::JSON`, '"d"', twice],
        [`'[{"a": 1}, {"": 1, "": 1}]'::JSON`, '""', twice],
      ],
    ],
  ])("of type %s", async (_, values) => {
    const refusals = await refusalsOf(
      await fixtures.write({ markets: rowsOf(values.map(([value]) => value)) }),
    );
    expect(refusals.toSorted((a, b) => a.row!.localeCompare(b.row!))).toMatchObject(
      values.map(([, shown, rule, inside = ""], n) => ({
        row: expect.stringMatching(`^row ${n} `),
        column: `dimensions[2].references[0]${inside}`,
        value: shown instanceof RegExp ? expect.stringMatching(shown) : shown,
        rule,
      })),
    );
  });

  test.each([
    ["'a'::BLOB", "BLOB"],
    ["1.5::DECIMAL(18, 2)", "DECIMAL(18,2)"],
    ["DATE '2026-01-01'", "DATE"],
    ["TIMESTAMPTZ '2026-01-01 00:00:00+00'", "TIMESTAMP WITH TIME ZONE"],
    ["MAP {1: 'a'}", "MAP(INTEGER, VARCHAR)"],
  ])("%s cannot be JSON", async (value, type) => {
    const directory = await fixtures.write({ markets: replacedDimensions(list(value)) });
    expect(await refusalsOf(directory)).toEqual([
      {
        file: "markets.parquet",
        column: "dimensions[].references[]",
        value: type,
        rule:
          "must be of type text, boolean, integer, double, or lists, structs and maps of these, at most 32 deep with " +
          "at most 12 lists and maps within one another",
      },
    ]);
  });
});
