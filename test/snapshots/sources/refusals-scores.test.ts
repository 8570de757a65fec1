import { beforeAll, describe, expect, test } from "vitest";
import { protocolDimensionKeys } from "../../../schemas/protocol.ts";
import {
  expectRefused,
  type RefusedValue,
  refusalsOf,
  replaced,
  rules,
  sourceFixtures,
} from "../../helpers/publish/sources.ts";

const fixtures = sourceFixtures();
let [marketId, scoreSlug] = ["", ""];
beforeAll(async () => {
  marketId = String((await fixtures.rows("SELECT id FROM markets WHERE n = 7"))[0]?.[0]);
  scoreSlug = String((await fixtures.rows("SELECT slug FROM scores WHERE n = 7"))[0]?.[0]);
});

const expectScores = (values: readonly RefusedValue[]) => expectRefused(fixtures, "protocol_scores", values);

const slugRule = "must be 1 to 100 of a-z, 0-9, dot, dash, underscore, and begin with a-z or 0-9";

describe("values of scores", () => {
  const refused =
    (column: string, rule: string) =>
    ([value, shown]: readonly [value: string, shown: string | RegExp]): RefusedValue => ({
      column,
      value,
      shown,
      rule,
    });

  test("a slug that cannot stand in an address", async () => {
    const slugs = [
      ["''", '""'],
      ["'.hidden'", '".hidden"'],
      ["'..'", '".."'],
      ["'a/b'", '"a/b"'],
      ["'Aave'", '"Aave"'],
      ["'%2e'", '"%2e"'],
      ["'__proto__'", '"__proto__"'],
      ["concat('ok', chr(10))", '"ok\\n"'],
      ["repeat('a', 101)", /^"a{90}/],
    ] as const;
    const reserved = refused("slug", "must not be batch, which is reserved")(["'batch'", '"batch"']);
    await expectScores([...slugs.map(refused("slug", slugRule)), reserved]);
  });

  test("out of bounds", async () => {
    const values = [
      ["bri", "-1", "-1", "must be from 0 to 1000"],
      ["bri", "1001", "1001", "must be from 0 to 1000"],
      ["confidence", "101", "101", "must be from 0 to 100"],
      ["delta", "-1001", "-1001", "must be from -1000 to 1000"],
      ["delta", "1001", "1001", "must be from -1000 to 1000"],
      ["updated_at", "TIMESTAMPTZ '1999-12-31 00:00:00+00'", /^1999/, rules.early],
      ["updated_at", "TIMESTAMPTZ '2026-01-01 00:06:00+00'", /^2026/, rules.late],
      [
        "forge_scale_num",
        "forge_scale_num % 7 + 1",
        / with /,
        "must be the number of forge_scale, 1 for RAW to 7 for ADAMANTINE",
      ],
      ["forge_scale", "'LEGEND'", '"LEGEND"', rules.tier],
    ] as const;
    await expectScores(values.map(([column, value, shown, rule]) => refused(column, rule)([value, shown])));
  });

  test("within a dimension", async () => {
    const dimension = (value: string, shown: string, rule: string) =>
      protocolDimensionKeys.map((key) => ({
        column: "dimensions",
        value: `struct_update(dimensions, ${key} := ${value})`,
        path: `dimensions.${key}`,
        shown,
        rule,
      }));
    await expectScores(dimension("101", "101", "must be from 0 to 100"));
    await expectScores(dimension("NULL", "null", rules.given));
  });

  test("within other members", async () => {
    const values = [
      ["cascade", "struct_update(cascade, blast_radius := -1)", "cascade.blast_radius", "-1", rules.count],
      [
        "cascade",
        "struct_update(cascade, upstream_deps := NULL)",
        "cascade.upstream_deps",
        "null",
        rules.given,
      ],
      ["cascade", "NULL", "cascade", "null", rules.given],
      ["findings", "struct_update(findings, critical := -1)", "findings.critical", "-1", rules.count],
      ["findings", "struct_update(findings, high := NULL)", "findings.high", "null", rules.given],
      ["metadata", "struct_update(metadata, contracts := -5)", "metadata.contracts", "-5", rules.count],
      ["metadata", "struct_update(metadata, tvl := NULL)", "metadata.tvl", "null", rules.given],
      [
        "metadata",
        "struct_update(metadata, z_factor := 'nan'::DOUBLE)",
        "metadata.z_factor",
        "nan",
        rules.finite,
      ],
      [
        "metadata",
        "struct_update(metadata, z_factor := 'inf'::DOUBLE)",
        "metadata.z_factor",
        "inf",
        rules.finite,
      ],
    ] as const;
    await expectScores(
      values.map(([column, value, path, shown, rule]) => ({ column, value, path, shown, rule })),
    );
  });

  test("null", async () => {
    const columns = "slug bri forge_scale forge_scale_num confidence delta updated_at evidence_hash".split(
      " ",
    );
    await expectScores(columns.map((column) => refused(column, rules.given)(["NULL", "null"])));
  });

  test("an old row of the history is checked like the newest", async () => {
    const oldest = "(SELECT min(updated_at) FROM scores)";
    const query = `SELECT * REPLACE (CASE WHEN updated_at = ${oldest} THEN 1001 ELSE bri END AS bri) FROM scores`;
    const refusals = await refusalsOf(await fixtures.write({ protocol_scores: query }));
    expect(refusals).toMatchObject([{ column: "bri", value: "1001" }]);
  });
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

describe("many faults", () => {
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
});
