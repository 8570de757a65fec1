import { beforeAll, describe, expect, test } from "vitest";
import { filterValuesOf } from "../../../schemas/filters.ts";
import { HistoricalMarket, ProtocolScore, ScoreListEntry } from "../../../schemas/records.ts";
import { sourceMarkets, sourceScores } from "../../helpers/archive/source-rows.ts";
import {
  readAll,
  refusalsOf,
  replaced,
  replacedDimension,
  replacedDimensions,
  type SourceContent,
  type SourceFiles,
  sourceFixtures,
  withDimension,
} from "../../helpers/publish/sources.ts";

const fixtures = sourceFixtures();
let plain: SourceContent;
beforeAll(async () => {
  plain = await readAll(await fixtures.write({}));
});

/** The record of row 7 in sources that replace something of it. */
async function recordOf(query: string): Promise<HistoricalMarket> {
  const { markets } = await readAll(await fixtures.write({ markets: `FROM (${query}) WHERE n = 7` }));
  return HistoricalMarket.parse(JSON.parse(markets[0]!.json));
}

describe("what is read", () => {
  test("markets equal the rows that another Parquet reader finds, in the interface's order of fields", async () => {
    const directory = await fixtures.write({});
    const expected = (await sourceMarkets(directory)).toSorted((a, b) => (a.id < b.id ? -1 : 1));
    const { markets } = await readAll(directory);
    expect(markets).toHaveLength(40);
    for (const [index, { id, json }] of markets.entries()) {
      expect(id).toBe(expected[index]?.id);
      expect(JSON.stringify(JSON.parse(json))).toBe(JSON.stringify(expected[index]));
    }
  });

  test("every market is a record of INTERFACE 2.4, with the values that filters see", () => {
    for (const { id, json, resolvedAt, values } of plain.markets) {
      const record = HistoricalMarket.parse(JSON.parse(json));
      expect(record.id).toBe(id);
      expect(Date.parse(record.resolvedAt)).toBe(resolvedAt);
      expect(values).toEqual(filterValuesOf(record));
      expect(json).not.toContain("\n");
    }
  });

  test("scores are the newest of each protocol, by slug", async () => {
    const directory = await fixtures.write({});
    const expected = await sourceScores(directory);
    const { scores } = await readAll(directory);
    expect(scores.map(({ entry }) => entry.slug)).toEqual([...expected.keys()].sort());
    for (const { entry, json } of scores) {
      const record = ProtocolScore.parse(JSON.parse(json));
      expect(JSON.stringify(record)).toBe(JSON.stringify(expected.get(entry.slug)));
      const { category, chain, tvl, ...head } = ScoreListEntry.parse(entry);
      expect(record).toMatchObject({ ...head, metadata: { category, chain, tvl } });
    }
  });
});

describe("variations that make no difference", () => {
  const reordered = `{'weight': d.weight, 'computation': {'lowers': d.computation.lowers,
      'baseline': d.computation.baseline, 'raises': d.computation.raises}, 'references': d."references", 'key': d.key,
    'evidence': list_transform(d.evidence, lambda e: {'reference': {'kind': e.reference.kind, 'url': e.reference.url,
      'label': e.reference.label}, 'pattern': e.pattern, 'label': e.label, 'type': e.type}),
    'description': d.description, 'score': d.score::UTINYINT, 'name': d.name}`;
  const half = (query: string, part: string) => `FROM (${query}) WHERE ${part}`;
  const backwards = `SELECT n, dimensions, weight_version, formula_version, flagged_count::UBIGINT AS flagged_count,
    top_risk_driver, disputed, resolution_source, resolved_at, resolved_outcome, status, tier,
    composite::SMALLINT AS composite, category, question, slug, id FROM (${replacedDimensions(reordered)})`;

  const variations: [string, SourceFiles, string?][] = [
    [
      "small integers",
      {
        markets:
          "SELECT * REPLACE (composite::SMALLINT AS composite, flagged_count::UTINYINT AS flagged_count) FROM markets",
      },
    ],
    [
      "large integers",
      {
        markets:
          "SELECT * REPLACE (composite::UBIGINT AS composite, flagged_count::BIGINT AS flagged_count) FROM markets",
      },
    ],
    ["columns and members in another order", { markets: backwards }],
    [
      "files that differ in types and order",
      {
        "markets/a": half(backwards, "n < 13"),
        "markets/b": "FROM markets WHERE n >= 13 AND n < 29",
        "markets/deep/er/c": half(
          replacedDimensions("struct_update(d, score := d.score::BIGINT)"),
          "n >= 29",
        ),
      },
    ],
    [
      "files without rows among others",
      { "markets/a": "FROM markets WHERE n < 0", "markets/b": "FROM markets" },
    ],
    ["rows in another order", { markets: "FROM markets ORDER BY hash(id)" }],
    ["small row groups", { markets: "FROM markets" }, ", ROW_GROUP_SIZE 8"],
    ["other compression", { markets: "FROM markets" }, ", COMPRESSION gzip"],
    ["the newer pages of Parquet", { markets: "FROM markets" }, ", PARQUET_VERSION v2"],
    [
      "scores of other integers and orders",
      {
        protocol_scores: `SELECT n, metadata, findings, cascade, dimensions, evidence_hash, updated_at,
          delta::SMALLINT AS delta, confidence::UTINYINT AS confidence, forge_scale_num::BIGINT AS forge_scale_num,
          forge_scale, bri::UBIGINT AS bri, slug FROM scores`,
      },
    ],
    [
      "scores in several files",
      {
        "protocol_scores/new": "FROM scores WHERE n % 2 = 0",
        "protocol_scores/old": "SELECT * REPLACE (bri::BIGINT AS bri) FROM scores WHERE n % 2 = 1",
      },
    ],
  ];

  test.each(variations)("%s", async (_, files, options) => {
    expect(await readAll(await fixtures.write(files, options))).toEqual(plain);
  });

  test.each([1, 2, 8])("%i threads", async (threads) => {
    expect(await readAll(await fixtures.write({}), { threads })).toEqual(plain);
  });

  test("extra columns and members, with one warning for each source", async () => {
    const directory = await fixtures.write({
      "markets/a": "SELECT *, 1 AS note, 'x' AS filename, 2 AS file_row_number FROM markets WHERE n < 9",
      "markets/b": `FROM (${replacedDimensions("struct_insert(d, hint := [1])")}) WHERE n >= 9`,
      protocol_scores: "SELECT * REPLACE (struct_insert(cascade, depth := 3) AS cascade) FROM scores",
    });
    const ignored = "ignored columns and members that the contract does not name";
    expect(await readAll(directory)).toEqual({
      ...plain,
      warnings: [
        `markets: ${ignored}: dimensions[].hint, file_row_number, filename, note`,
        `protocol_scores: ${ignored}: cascade.depth`,
      ],
    });
  });

  test("refused rows are named without their number when a column has its name", async () => {
    const query = `SELECT *, 'x' AS file_row_number FROM (${replaced("markets", "composite", "1")})`;
    const refusals = await refusalsOf(await fixtures.write({ markets: query }));
    expect(refusals).toEqual([
      {
        file: "markets.parquet",
        row: expect.stringMatching(/^[0-9a-f-]{36}$/),
        column: "composite",
        value: "1",
        rule: "must be from 300 to 1000",
      },
    ]);
  });
});

describe("values at the bounds", () => {
  /** The records of a source in which each of these values stands in a row of its own. */
  async function recordsWith(values: readonly { column: string; value: string }[]) {
    const columns = [...new Set(values.map(({ column }) => column))];
    const replacements = columns.map((name) => {
      const cases = values.map(({ column, value }, n) =>
        column === name ? `WHEN n = ${n} THEN ${value}` : "",
      );
      const plain = name === "flagged_count" ? "flagged_count::BIGINT" : name;
      return `CASE ${cases.join(" ")} ELSE ${plain} END AS ${name}`;
    });
    const ids = (await fixtures.rows("SELECT id FROM markets ORDER BY n")).map(([id]) => String(id));
    const query = `SELECT * REPLACE (${replacements.join(", ")}) FROM markets`;
    const { markets } = await readAll(await fixtures.write({ markets: query }));
    return values.map((_, n) =>
      HistoricalMarket.parse(JSON.parse(markets.find(({ id }) => id === ids[n])!.json)),
    );
  }

  test("of columns", async () => {
    const values = [
      ["composite", "300", "composite", 300],
      ["composite", "1000", "composite", 1000],
      ["flagged_count", "0", "flaggedCount", 0],
      ["flagged_count", "9007199254740991::BIGINT", "flaggedCount", 9007199254740991],
      ["resolved_at", "TIMESTAMPTZ '2000-01-01 00:00:00+00'", "resolvedAt", "2000-01-01T00:00:00.000Z"],
      [
        "resolved_at",
        "TIMESTAMPTZ '2025-03-30 02:30:00.999999+01'",
        "resolvedAt",
        "2025-03-30T01:30:00.999Z",
      ],
      ["resolved_at", "TIMESTAMPTZ '2026-01-01 00:05:00+00'", "resolvedAt", "2026-01-01T00:05:00.000Z"],
      ["resolution_source", "'http://a'", "resolutionSource", "http://a"],
      ["slug", "'../%2e'", "slug", "../%2e"],
      ["category", "' '", "category", " "],
      ["top_risk_driver", "''", "topRiskDriver", ""],
      [
        "question",
        "'a\t\r' || chr(160) || chr(8232) || chr(8238) || '\"\\\n\\u0007\\b😀' || chr(917760)",
        "question",
        'a\t\r\u00a0\u2028\u202e"\\\n\\u0007\\b😀\u{e0100}',
      ],
      ["question", "repeat('é', 10_000)", "question", "é".repeat(10_000)],
    ] as const;
    const records = await recordsWith(values.map(([column, value]) => ({ column, value })));
    for (const [n, [, , published, expected]] of values.entries())
      expect(records[n]).toHaveProperty(published, expected);
  });

  test("of dimensions", async () => {
    const values = [
      ["struct_update(d, score := 0)", "score", 0],
      ["struct_update(d, score := 100)", "score", 100],
      ["struct_update(d, weight := 0::DOUBLE)", "weight", 0],
      ["struct_update(d, weight := -0.0::DOUBLE)", "weight", -0],
      ["struct_update(d, weight := 1::DOUBLE)", "weight", 1],
      ["struct_update(d, weight := 0.1::DOUBLE + 0.2::DOUBLE)", "weight", 0.1 + 0.2],
      ["struct_update(d, weight := 5e-324::DOUBLE)", "weight", 5e-324],
      ["struct_update(d, evidence := [])", "evidence", []],
      ["struct_update(d, name := '')", "name", ""],
    ] as const;
    const records = await recordsWith(
      values.map(([dimension]) => ({ column: "dimensions", value: withDimension(dimension) })),
    );
    for (const [n, [, member, expected]] of values.entries())
      expect(records[n]!.dimensions[2]).toHaveProperty(member, expected);
  });

  test("a baseline keeps every digit", async () => {
    const baseline = "-1.7976931348623157e308";
    const { dimensions } = await recordOf(
      replacedDimension(
        `struct_update(d, computation := struct_update(d.computation, baseline := ${baseline}::DOUBLE))`,
      ),
    );
    expect(dimensions[2]?.computation.baseline).toBe(-Number.MAX_VALUE);
  });

  test.each([
    ["repeat('a', 100)", "a".repeat(100)],
    ["'0.x_y-z'", "0.x_y-z"],
  ])("protocol slug %s", async (value, slug) => {
    const { scores } = await readAll(
      await fixtures.write({ protocol_scores: `FROM (${replaced("scores", "slug", value)}) WHERE n = 7` }),
    );
    expect(scores.map(({ entry }) => entry.slug)).toEqual([slug]);
  });

  test("dimensions keep their order", async () => {
    const { dimensions } = await recordOf(replaced("markets", "dimensions", "list_reverse(dimensions)"));
    expect(dimensions.map(({ key }) => key)).toEqual([
      "counterparty",
      "design",
      "catalyst",
      "oracle",
      "integrity",
      "informed",
    ]);
  });
});

describe("any", () => {
  test.each([
    ["[1, NULL, -9007199254740991]::BIGINT[]", [1, null, -9007199254740991]],
    ["[200]::UTINYINT[]", [200]],
    ["[0.1::FLOAT]", [0.10000000149011612]],
    ["[1e22::DOUBLE, -0.0::DOUBLE, NULL]", [1e22, -0, null]],
    ["['a', '', NULL, '\"NaN\" 99999999999999999999']", ["a", "", null, '"NaN" 99999999999999999999']],
    ["[true, NULL]", [true, null]],
    ["[[1], [], NULL]", [[1], [], null]],
    ["[{'Zed': 1, 'aé': {'b c': NULL::VARCHAR}}, NULL]", [{ Zed: 1, aé: { "b c": null } }, null]],
    ["[MAP {'k': 1, '': NULL}]", [{ k: 1, "": null }]],
    ["[]::VARCHAR[]", []],
    [
      `['{"b": [1, "Infinity", {"a": 1.50}], "a": null}'::JSON, NULL, 'null'::JSON, '"x"'::JSON]`,
      [{ b: [1, "Infinity", { a: 1.5 }], a: null }, null, null, "x"],
    ],
    [
      `['{"nan": "\\\\", "inf\\"": -9007199254740991, "big": 1e308}'::JSON]`,
      [{ nan: "\\", 'inf"': -9007199254740991, big: 1e308 }],
    ],
  ])("%s", async (value, expected) => {
    const { dimensions } = await recordOf(
      replacedDimensions(
        `struct_update(d, "references" := ${value}, computation := struct_update(d.computation, raises := ${value}))`,
      ),
    );
    expect(dimensions[2]?.references).toEqual(expected);
    expect(dimensions[2]?.computation.raises).toEqual(expected);
  });

  test("JSON and text in files read together stay what they are", async () => {
    const of = (value: string, part: string) =>
      `FROM (${replacedDimensions(`struct_update(d, "references" := [${value}])`)}) WHERE ${part}`;
    const { markets } = await readAll(
      await fixtures.write({ "markets/a": of("'[1]'::JSON", "n < 20"), "markets/b": of("'[1]'", "n >= 20") }),
    );
    const kinds = markets.map(({ json }) => JSON.stringify(JSON.parse(json).dimensions[0].references));
    expect(kinds.filter((kind) => kind === "[[1]]")).toHaveLength(20);
    expect(kinds.filter((kind) => kind === '["[1]"]')).toHaveLength(20);
  });
});
