import { execFile } from "node:child_process";
import { symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { runScript } from "../../../snapshots/sources/duckdb/run-script.ts";
import { quoted } from "../../../snapshots/sources/duckdb/sql-literals.ts";
import { readAll, refusalsOf, refusedBy, replaced, sourceFixtures } from "../../helpers/publish/sources.ts";

const fixtures = sourceFixtures();

/** Markets with other references in each dimension; those of row 7 are `value`. */
const references = (value: string, otherwise: string) =>
  `SELECT * REPLACE (list_transform(dimensions, lambda d: struct_update(d,
    "references" := CASE WHEN n = 7 THEN ${value} ELSE ${otherwise} END)) AS dimensions) FROM markets`;
const nested = (depth: number) => `concat(repeat('[', ${depth}), repeat(']', ${depth}))::JSON`;
const ofJson = (value: string) => references(`[${value}]`, `['{"a]": "[[["}'::JSON]`);
/** A value of nested lists, and so of a type as deep. */
const lists = (depth: number) => `${"[".repeat(depth)}1${"]".repeat(depth)}`;

describe("what a row may hold at most", () => {
  test.for<[string, string, { column: string; rule: RegExp }]>([
    [
      "JSON nested 20,000 deep",
      references(`[${nested(20_000)}]`, "['1'::JSON]"),
      { column: "dimensions[0].references[0]", rule: /32 deep/ },
    ],
    [
      "JSON one level too deep",
      ofJson(nested(33)),
      { column: "dimensions[0].references[0]", rule: /32 deep/ },
    ],
    [
      "JSON of 2 MB",
      ofJson(`concat('"', repeat('x', 2_000_000), '"')::JSON`),
      { column: "dimensions[0].references[0]", rule: /262144 bytes of JSON/ },
    ],
    [
      "300,000 references",
      references("range(300_000)", "[]::BIGINT[]"),
      { column: "dimensions", rule: /262144 bytes of JSON in all/ },
    ],
  ])("%s is refused with row and rule", async ([, query, { column, rule }]) => {
    const directory = await fixtures.write({ markets: query });
    const [refusal] = await refusalsOf(directory);
    expect(refusal).toMatchObject({ file: "markets.parquet", column, rule: expect.stringMatching(rule) });
    expect(refusal?.row).toMatch(/^row \d+ \([0-9a-f-]{36}\)$/);
    expect(refusal?.value?.length ?? 0).toBeLessThanOrEqual(100);
  });

  test("a record that only its escapes make too large is refused with its row", async () => {
    // Two bytes each in JSON: 60,000 in every dimension, beside some thousands of the rest.
    const text = "repeat(chr(34), 6_000)";
    const query = references(`[${[text, text, text, text, text].join(", ")}]`, "['']");
    const [refusal] = await refusalsOf(await fixtures.write({ markets: query }));
    expect(refusal).toMatchObject({
      row: expect.stringMatching(/^row 7 /),
      value: expect.stringMatching(/^\d{6,} bytes$/),
      rule: "must be at most 262144 bytes of JSON in all",
    });
  });

  test("a type that is nested too deep is refused with its column", async () => {
    const [refusal] = await refusalsOf(await fixtures.write({ markets: references(lists(14), lists(14)) }));
    expect(refusal).toMatchObject({
      column: "dimensions[].references[]",
      rule: expect.stringMatching(/32 deep/),
    });
  });

  test("all that is within the bounds is published", async () => {
    const longest = replaced("markets", "question", "repeat('\u00e4', 10_000)");
    for (const query of [longest, ofJson(nested(32)), references(lists(9), lists(9))]) {
      const { markets } = await readAll(await fixtures.write({ markets: query }));
      expect(markets).toHaveLength(40);
    }
  });
});

test("a text of a script's table that takes all memory is refused with its row", async () => {
  const directory = await fixtures.write({});
  const read = (source: string) => `read_parquet(${quoted(join(directory, `${source}.parquet`))})`;
  const long = `SELECT * EXCLUDE (n) REPLACE (CASE WHEN n = 7 THEN repeat('x', 20_000_000) ELSE question END AS question)
    FROM (SELECT file_row_number AS n, * FROM ${read("markets")})`;
  const script = join(fixtures.folder, "long.sql");
  const views = `CREATE VIEW markets AS ${long}; CREATE VIEW protocol_scores AS FROM ${read("protocol_scores")};`;
  await writeFile(script, views);
  const ran = runScript(script, { temporaryDirectory: fixtures.folder, memoryMegabytes: 60 });
  expect((await refusedBy(ran)).refusals).toEqual([
    {
      file: "long.sql (markets)",
      row: expect.stringMatching(/^row 7 /),
      column: "question",
      value: expect.stringMatching(/^"x{99}$/),
      rule: "must be at most 10000 characters",
    },
  ]);
});

test("a rule that many rows break is told with 20 of them and the number of all", async () => {
  const many = `SELECT m.* REPLACE (uuid()::VARCHAR AS id, 1001 AS composite)
    FROM markets AS m, range(500) AS times (time) LIMIT 18133`;
  const error = await refusedBy(readAll(await fixtures.write({ markets: many })));
  expect(error.counted).toHaveLength(20);
  expect(error.counted[19]).toMatchObject({ row: expect.stringMatching(/^row 19 /), total: 18_133 });
  expect(error.message.split("\n").at(-1)).toBe("20 of 18,133 shown: must be from 300 to 1000");
  const twice = "SELECT * FROM markets UNION ALL SELECT * FROM markets";
  const repeated = await refusedBy(readAll(await fixtures.write({ markets: twice })));
  expect(repeated.message).toContain("\n20 of 80 shown: must not be the id of two markets");
  // The same ones in every run: both rows of the first ids.
  const ids = repeated.refusals.map(({ value }) => value!);
  const { markets } = await readAll(await fixtures.write({}));
  const first = markets
    .map(({ id }) => id)
    .toSorted()
    .slice(0, 10);
  expect(ids).toEqual(first.flatMap((id) => [id, id]));
});

describe("what is no file", () => {
  const at = (directory: string) => join(directory, "markets", "b.parquet");
  test.for<[string, (directory: string) => Promise<unknown>, object]>([
    [
      "a pipe that nobody writes to",
      (directory) => promisify(execFile)("mkfifo", [at(directory)]),
      { file: "markets/b.parquet", rule: "is not a regular file" },
    ],
    [
      "a link to itself",
      (directory) => symlink("b.parquet", at(directory)),
      { file: "markets/b.parquet", rule: "is a link that leads back to itself" },
    ],
    [
      "a link to a folder above it",
      (directory) => symlink("..", join(directory, "markets", "up")),
      { file: "markets/up/markets", rule: "is a link to a folder that it lies in" },
    ],
  ])("%s is refused by name", async ([, make, refusal]) => {
    const directory = await fixtures.write({ "markets/a": "FROM markets" });
    await make(directory);
    expect(await refusalsOf(directory)).toEqual([refusal]);
  });
});
