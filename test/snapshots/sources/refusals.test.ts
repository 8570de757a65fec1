import { beforeAll, describe, expect, test } from "vitest";
import { marketDimensionKeys } from "../../../schemas/market.ts";
import { protocolDimensionKeys } from "../../../schemas/protocol.ts";
import {
  expectRefused,
  type RefusedValue,
  refusalsOf,
  replaced,
  replacedDimension,
  replacedDimensions,
  rules as shared,
  sourceFixtures,
  withDimension,
} from "../../helpers/publish/sources.ts";

const fixtures = sourceFixtures();

const rules: Record<string, string> = {
  ...shared,
  uuid: "must be a UUID in lower-case digits",
  label: "must be at most 256 bytes in UTF-8",
  url: "must be an http or https URL",
  slug: "must be 1 to 100 of a-z, 0-9, dot, dash, underscore, and begin with a-z or 0-9",
  scale: "must be the number of forge_scale, 1 for RAW to 7 for ADAMANTINE",
  control: "must have no control characters except tab, LF and CR, and no Unicode tags",
  keys: `must have each of the keys ${marketDimensionKeys.join(", ")} once`,
  integer: "must be an integer that JSON holds exactly, up to 2^53-1",
  twice: "must not be the name of two members of one object",
  json: "must be JSON without NaN, Infinity, and numbers that JavaScript cannot hold",
};

/** Lines of COLUMN = SQL -> what the refusal shows, or a pattern of that, | the name of its rule, or its text. */
function valuesIn(table: string): RefusedValue[] {
  return table.split("\n").flatMap((line) => {
    const [, path = "", sql = "", shown = "", rule = ""] = /^(\S+) = (.*) -> (.*) \| (.*)$/.exec(line) ?? [];
    if (path === "") return [];
    const [column = ""] = path.split(/[.[]/);
    return {
      column,
      value: path.startsWith("dimensions[2]") ? withDimension(sql) : sql,
      path,
      shown: shown.startsWith("/") ? new RegExp(shown.slice(1, -1), "u") : shown,
      rule: rules[rule] ?? rule,
    };
  });
}

const cited = "{'label': 'd', 'url': 'https://example.org', 'kind': 'e'}";
const found = `{'type': 'a', 'label': 'b', 'pattern': 'c', 'reference': ${cited}}`;
const evidence = (change: string) => `struct_update(d, evidence := [struct_update(${found}, ${change})])`;
const reference = (change: string) => evidence(`reference := struct_update(${cited}, ${change})`);
const computation = (change: string) =>
  `struct_update(d, computation := struct_update(d.computation, ${change}))`;

const markets = {
  "ids and texts": `
id = '' -> "" | uuid
id = upper(id) -> /^"[0-9A-F-]{36}"$/ | uuid
id = replace(id, '-', '') -> /^"[0-9a-f]{32}"$/ | uuid
id = concat(id, chr(10)) -> /\\\\n"$/ | uuid
slug = '' -> "" | must not be empty
question = '' -> "" | must not be empty
category = '' -> "" | must not be empty
resolved_outcome = '' -> "" | must not be empty
category = repeat('x', 257) -> /^"x+$/ | label
category = repeat('€', 86) -> /^"€+"$/ | label
resolved_outcome = repeat('é', 129) -> /^"é+$/ | label
formula_version = repeat('x', 257) -> /^"x+$/ | label
weight_version = repeat('x', 257) -> /^"x+$/ | label
resolution_source = 'javascript:alert(1)' -> "javascript:alert(1)" | url
resolution_source = 'data:text/html,x' -> "data:text/html,x" | url
resolution_source = ' https://example.org' -> " https://example.org" | url
resolution_source = 'example.org' -> "example.org" | url
resolution_source = '' -> "" | url
slug = concat('a', chr(155), 'b') -> /^"a.b"$/ | control
category = concat('a', chr(155), 'b') -> /^"a.b"$/ | control
resolved_outcome = concat('a', chr(155), 'b') -> /^"a.b"$/ | control
top_risk_driver = concat('a', chr(155), 'b') -> /^"a.b"$/ | control
formula_version = concat('a', chr(155), 'b') -> /^"a.b"$/ | control
resolution_source = 'https://example.org/' || chr(127) -> /^"https/ | control
question = repeat('ä', 10_001) -> /^"ä{99}$/ | must be at most 10000 characters
slug = repeat('ä', 10_000_000) -> /^"ä{99}$/ | must be at most 10000 characters`,
  "numbers, times and words": `
composite = 299 -> 299 | must be from 300 to 1000
composite = 1001 -> 1001 | must be from 300 to 1000
tier = 'GOLD' -> "GOLD" | tier
tier = 'raw' -> "raw" | tier
status = 'open' -> "open" | must be resolved
resolved_at = TIMESTAMPTZ '1999-12-31 23:59:59.999999+00' -> /^1999-12-31/ | early
resolved_at = TIMESTAMPTZ '0001-01-01 00:00:00+00' -> /^0001-01-01/ | early
resolved_at = TIMESTAMPTZ '-infinity' -> -infinity | early
resolved_at = TIMESTAMPTZ '2026-01-01 00:05:00.000001+00' -> /^2026-01-01 00:05:00.000001/ | late
resolved_at = TIMESTAMPTZ '9999-12-31 00:00:00+00' -> /^9999/ | late
resolved_at = TIMESTAMPTZ 'infinity' -> infinity | late
flagged_count = -1 -> -1 | count
flagged_count = 9007199254740992::BIGINT -> 9007199254740992 | count`,
  nulls: `id slug question category composite tier status resolved_outcome resolved_at resolution_source disputed
top_risk_driver flagged_count formula_version weight_version`,
  "what dimensions hold": `
dimensions[2].score = struct_update(d, score := 101) -> 101 | must be from 0 to 100
dimensions[2].score = struct_update(d, score := -1) -> -1 | must be from 0 to 100
dimensions[2].weight = struct_update(d, weight := 1.0000001::DOUBLE) -> 1.0000001 | must be from 0 to 1
dimensions[2].weight = struct_update(d, weight := -0.1::DOUBLE) -> -0.1 | must be from 0 to 1
dimensions[2].weight = struct_update(d, weight := 'nan'::DOUBLE) -> nan | finite
dimensions[2].computation.baseline = ${computation("baseline := 'inf'::DOUBLE")} -> inf | finite
dimensions[2].computation.baseline = ${computation("baseline := '-inf'::DOUBLE")} -> -inf | finite
dimensions[2].computation.baseline = ${computation("baseline := 'nan'::DOUBLE")} -> nan | finite
dimensions[2].evidence[0].reference.url = ${reference("url := 'ftp://x.org'")} -> "ftp://x.org" | url
dimensions[2].evidence[0].reference.url = ${reference("url := 'JavaScript:x'")} -> "JavaScript:x" | url
dimensions[2].evidence[0].reference.url = ${reference("url := NULL")} -> null | given
dimensions[2].evidence[0].reference = ${evidence("reference := NULL")} -> null | given
dimensions[2].evidence[0].type = ${evidence("type := NULL")} -> null | given
dimensions[2].evidence[0].type = ${evidence("type := chr(917569)")} -> /^"/ | control
dimensions[2].evidence[0].label = ${evidence("label := chr(917569)")} -> /^"/ | control
dimensions[2].evidence[0].pattern = ${evidence("pattern := chr(917569)")} -> /^"/ | control
dimensions[2].evidence[0].reference.label = ${reference("label := chr(0)")} -> /^"/ | control
dimensions[2].evidence[0].reference.kind = ${reference("kind := chr(0)")} -> /^"/ | control
dimensions[2].evidence[0] = struct_update(d, evidence := [NULL]) -> null | given
dimensions[2].name = struct_update(d, name := concat(chr(7), 'x')) -> /^"/ | control
dimensions[2].description = struct_update(d, description := repeat('é', 4000) || chr(27)) -> /^"/ | control
dimensions[2].name = struct_update(d, name := NULL) -> null | given
dimensions[2].score = struct_update(d, score := NULL) -> null | given
dimensions[2].weight = struct_update(d, weight := NULL) -> null | given
dimensions[2].description = struct_update(d, description := NULL) -> null | given
dimensions[2].evidence = struct_update(d, evidence := NULL) -> null | given
dimensions[2].references = struct_update(d, "references" := NULL) -> null | given
dimensions[2].computation = struct_update(d, computation := NULL) -> null | given
dimensions[2].computation.baseline = ${computation("baseline := NULL")} -> null | given
dimensions[2].computation.raises = ${computation("raises := NULL")} -> null | given
dimensions[2].computation.lowers = ${computation("lowers := NULL")} -> null | given
dimensions = dimensions[1:5] -> /^\\[/ | keys
dimensions = [] -> /^\\[/ | keys
dimensions = dimensions || dimensions[1:1] -> /^\\[/ | keys`,
};

const dimension = (sql: string, shown: string, rule: string) =>
  protocolDimensionKeys
    .map((key) => `dimensions.${key} = struct_update(dimensions, ${key} := ${sql}) -> ${shown} | ${rule}\n`)
    .join("");

const scores = {
  slugs: `
slug = '' -> "" | slug
slug = '.hidden' -> ".hidden" | slug
slug = '..' -> ".." | slug
slug = 'a/b' -> "a/b" | slug
slug = 'Aave' -> "Aave" | slug
slug = '%2e' -> "%2e" | slug
slug = '__proto__' -> "__proto__" | slug
slug = concat('ok', chr(10)) -> "ok\\n" | slug
slug = repeat('a', 101) -> /^"a{90}/ | slug
slug = 'batch' -> "batch" | must not be batch, which is reserved`,
  "numbers, times and words": `
bri = -1 -> -1 | must be from 0 to 1000
bri = 1001 -> 1001 | must be from 0 to 1000
confidence = 101 -> 101 | must be from 0 to 100
delta = -1001 -> -1001 | must be from -1000 to 1000
delta = 1001 -> 1001 | must be from -1000 to 1000
updated_at = TIMESTAMPTZ '1999-12-31 00:00:00+00' -> /^1999/ | early
updated_at = TIMESTAMPTZ '2026-01-01 00:06:00+00' -> /^2026/ | late
forge_scale_num = forge_scale_num % 7 + 1 -> / with / | scale
forge_scale = 'LEGEND' -> "LEGEND" | tier
evidence_hash = concat('a', chr(0)) -> /^"a/ | control`,
  nulls: "slug bri forge_scale forge_scale_num confidence delta updated_at evidence_hash cascade",
  "dimensions out of bounds": dimension("101", "101", "must be from 0 to 100"),
  "dimensions that are null": dimension("NULL", "null", "given"),
  "other members": `
cascade.blast_radius = struct_update(cascade, blast_radius := -1) -> -1 | count
cascade.upstream_deps = struct_update(cascade, upstream_deps := NULL) -> null | given
findings.critical = struct_update(findings, critical := -1) -> -1 | count
findings.high = struct_update(findings, high := NULL) -> null | given
metadata.contracts = struct_update(metadata, contracts := -5) -> -5 | count
metadata.tvl = struct_update(metadata, tvl := NULL) -> null | given
metadata.z_factor = struct_update(metadata, z_factor := 'nan'::DOUBLE) -> nan | finite
metadata.z_factor = struct_update(metadata, z_factor := 'inf'::DOUBLE) -> inf | finite
metadata.category = struct_update(metadata, category := concat('$', chr(917505))) -> /^"\\$/ | control
metadata.chain = struct_update(metadata, chain := concat('$', chr(917505))) -> /^"\\$/ | control
metadata.tvl = struct_update(metadata, tvl := concat('$', chr(917505))) -> /^"\\$/ | control`,
};

const nulls = (columns: string) =>
  columns.split(/\s+/).map((column) => ({ column, value: "NULL", shown: "null", rule: shared.given }));

describe.each([
  ["markets", markets],
  ["protocol_scores", scores],
] as const)("values of %s are refused:", (source, tables) => {
  test.for(Object.entries(tables))("%s", async ([name, table]) => {
    await expectRefused(fixtures, source, name === "nulls" ? nulls(table) : valuesIn(table));
  });
});

let [marketId, scoreSlug] = ["", ""];
beforeAll(async () => {
  marketId = String((await fixtures.rows("SELECT id FROM markets WHERE n = 7"))[0]?.[0]);
  scoreSlug = String((await fixtures.rows("SELECT slug FROM scores WHERE n = 7"))[0]?.[0]);
});

test("a number of markets above what a signed integer holds is refused", async () => {
  const query = `SELECT * REPLACE (CASE WHEN n = 7 THEN 18446744073709551615::UBIGINT
    ELSE flagged_count::UBIGINT END AS flagged_count) FROM markets`;
  expect(await refusalsOf(await fixtures.write({ markets: query }))).toMatchObject([
    { column: "flagged_count", value: "18446744073709551615", rule: shared.count },
  ]);
});

test.each([
  ["one twice", replacedDimension("struct_update(d, key := 'design')"), []],
  ["one null", replacedDimension("NULL"), []],
  ["an unknown key", replacedDimension("struct_update(d, key := 'luck')"), ["dimensions[2].key"]],
])("dimensions of markets with %s are refused", async (_, query, columns) => {
  const refusals = await refusalsOf(await fixtures.write({ markets: query }));
  expect(refusals).toContainEqual(expect.objectContaining({ column: "dimensions", rule: rules.keys }));
  expect(refusals.map(({ column }) => column)).toEqual(expect.arrayContaining(columns));
});

test("no dimensions at all are refused", async () => {
  const directory = await fixtures.write({ markets: replaced("markets", "dimensions", "NULL") });
  expect((await refusalsOf(directory))[0]).toMatchObject({ column: "dimensions", rule: shared.given });
});

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
        ["9007199254740992::BIGINT", "9007199254740992", rules.integer!],
        ["-9007199254740992::BIGINT", "-9007199254740992", rules.integer!],
      ],
    ],
    ["UBIGINT", [["18446744073709551615::UBIGINT", "18446744073709551615", rules.integer!]]],
    ["DOUBLE", [["'inf'::DOUBLE", "inf", shared.finite]]],
    ["FLOAT", [["'nan'::FLOAT", "nan", shared.finite]]],
    ["STRUCT", [["{'a': [{'b': 'nan'::DOUBLE}]}", "nan", shared.finite, ".a[0].b"]]],
    ["MAP", [["MAP {'k': 9007199254740993::BIGINT}", "9007199254740993", rules.integer!, "[0]"]]],
    [
      "MAP of JSON",
      [[`map_from_entries([('k', '1'::JSON), ('l', '{"a":1,"a":2}'::JSON)])`, '"a"', rules.twice!, "[1]"]],
    ],
    [
      "JSON",
      [
        [`'{"a": NaN}'::JSON`, '{"a": NaN}', rules.json!],
        [`'[-Infinity]'::JSON`, "[-Infinity]", rules.json!],
        [`'[9007199254740993]'::JSON`, "[9007199254740993]", rules.json!],
        [`'[123456789012345678901234567890123456789012]'::JSON`, /^\[1234567890/, rules.json!],
        [`'[1e400]'::JSON`, "[1e400]", rules.json!],
        [`'{"a": "\\"", "b": -1e999}'::JSON`, /-1e999/, rules.json!],
        [`'{"a": 1, "b": [[{"c": {"d": 2, "\\u0064": 3}}]]}'::JSON`, '"d"', rules.twice!],
        [`'[{"a": 1}, {"": 1, "": 1}]'::JSON`, '""', rules.twice!],
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

test("an old row of the history is checked like the newest", async () => {
  const oldest = "(SELECT min(updated_at) FROM scores)";
  const query = `SELECT * REPLACE (CASE WHEN updated_at = ${oldest} THEN 1001 ELSE bri END AS bri) FROM scores`;
  const refusals = await refusalsOf(await fixtures.write({ protocol_scores: query }));
  expect(refusals).toMatchObject([{ column: "bri", value: "1001" }]);
});

describe("keys", () => {
  test("an id that two files share", async () => {
    const directory = await fixtures.write({
      "markets/a": "FROM markets WHERE n <= 20",
      "markets/b": "FROM markets WHERE n = 7 OR n > 20",
    });
    expect(await refusalsOf(directory)).toEqual(
      [
        ["markets/a.parquet", 7],
        ["markets/b.parquet", 0],
      ].map(([file, row]) => ({
        file,
        row: `row ${row} (${marketId})`,
        column: "id",
        value: marketId,
        rule: "must not be the id of two markets",
      })),
    );
  });

  test("two scores of a protocol within a millisecond", async () => {
    const at = (micros: number) =>
      `SELECT * REPLACE (TIMESTAMPTZ '2025-12-01 00:00:00.0010${micros}+00' AS updated_at) FROM scores WHERE n = 7`;
    const directory = await fixtures.write({ protocol_scores: `${at(10)} UNION ALL ${at(99)}` });
    const refusals = await refusalsOf(directory);
    expect(refusals).toHaveLength(2);
    expect(refusals[1]).toEqual({
      file: "protocol_scores.parquet",
      row: `row 1 (${scoreSlug})`,
      column: "updated_at",
      value: `${scoreSlug} at 2025-12-01 00:00:00.001`,
      rule: "must not be the time of two scores of one protocol, in milliseconds",
    });
  });

  test("two scores of a protocol a millisecond apart are fine", async () => {
    const at = (micros: string) =>
      `SELECT * REPLACE (TIMESTAMPTZ '2025-12-01 00:00:00.${micros}+00' AS updated_at) FROM scores WHERE n = 7`;
    const directory = await fixtures.write({ protocol_scores: `${at("001999")} UNION ALL ${at("002000")}` });
    await expect(refusalsOf(directory)).rejects.toThrow("not refused");
  });
});

test("faults of several files name each file", async () => {
  const directory = await fixtures.write({
    "markets/2024/a": `${replaced("markets", "composite", "1")} WHERE n < 10`,
    "markets/2025/b": "SELECT * REPLACE (-1 AS flagged_count) FROM markets WHERE n = 10",
    "markets/c": "FROM markets WHERE n > 10",
  });
  const places = (await refusalsOf(directory)).map(({ file, row, column }) => [
    file,
    row?.slice(0, 5),
    column,
  ]);
  expect(places).toEqual([
    ["markets/2024/a.parquet", "row 7", "composite"],
    ["markets/2025/b.parquet", "row 0", "flagged_count"],
  ]);
});
