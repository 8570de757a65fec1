import { appendFile, cp, readFile, rename, rm, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { runScript } from "../../../snapshots/sources/duckdb/run-script.ts";
import { quoted } from "../../../snapshots/sources/duckdb/sql-literals.ts";
import { inspectSources } from "../../../snapshots/sources/open-sources.ts";
import { SourceRefusal, type Sources } from "../../../snapshots/sources/sources.ts";
import {
  checkedRefusals,
  refusalsOf,
  refusedBy,
  replaced,
  sourceFixtures,
  start,
  withSources,
} from "../../helpers/publish/sources.ts";

const fixtures = sourceFixtures();

const halves = { "markets/a": "FROM markets WHERE n < 20", "markets/b": "FROM markets WHERE n >= 20" };
/** Reads all markets, and hands on each batch of rows. */
async function readMarkets(sources: Sources, use: (rows: readonly unknown[]) => unknown = () => {}) {
  for await (const rows of sources.markets()) await use(rows);
}
const unreadable = /^cannot be read: /;

// Which files are none, and that links are followed, is in test/scripts/sessions/check.txt.

test("a damaged page names the file and the column", async () => {
  const directory = await fixtures.write(halves, ", COMPRESSION zstd");
  const path = join(directory, "markets/b.parquet");
  const bytes = await readFile(path);
  // The frame header of the first compressed page: column id.
  const frame = bytes.indexOf(Buffer.from([0x28, 0xb5, 0x2f, 0xfd]));
  bytes.fill(0xff, frame, frame + 4);
  await writeFile(path, bytes);
  expect(await refusalsOf(directory)).toEqual([
    { file: "markets/b.parquet", column: "id", rule: expect.stringContaining("cannot be read") },
  ]);
});

describe("a file that changes while it is read", () => {
  test.each<[string, (path: string) => Promise<unknown>, string?]>([
    ["is written to", (path) => appendFile(path, "x")],
    ["is touched", (path) => utimes(path, start, start)],
    ["is replaced by a copy", (path) => cp(path, `${path}.new`).then(() => rename(`${path}.new`, path))],
    ["is removed", (path) => rm(path)],
    ["gets a neighbour", (path) => cp(path, join(path, "../z.parquet")), "z.parquet: appeared"],
  ])("when one %s", async (_, change, told = "a.parquet: changed") => {
    const directory = await fixtures.write(halves);
    const reading = withSources(directory, async (sources) => {
      let changed: Promise<unknown> | undefined;
      await readMarkets(sources, () => {
        changed ??= change(join(directory, "markets/a.parquet"));
        return changed;
      });
    });
    expect((await refusedBy(reading)).message).toContain(told);
  });

  test("between opening and reading the scores", async () => {
    const directory = await fixtures.write({});
    const reading = withSources(directory, async (sources) => {
      await appendFile(join(directory, "protocol_scores.parquet"), "x");
      return sources.scores();
    });
    await expect(reading).rejects.toThrow("protocol_scores.parquet: changed while it was read");
  });
});

test("an error that no file explains passes through", async () => {
  const directory = await fixtures.write({});
  const temporaryDirectory = join(fixtures.folder, "no", "folder");
  await expect(withSources(directory, async () => {}, { temporaryDirectory })).rejects.toThrow("ENOENT");
  const starved = withSources(directory, readMarkets, { memoryMegabytes: 1 });
  await expect(starved).rejects.toThrow("Out of Memory");
  await expect(starved).rejects.not.toBeInstanceOf(SourceRefusal);
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

const ignored = "markets: ignored columns and members that the contract does not name: more";

describe("a check of the sources", () => {
  test("says before it reads rows how much memory that may take, also of sources that it refuses", async () => {
    const query = `SELECT *, 1 AS more FROM (${replaced("markets", "composite", "1001")})`;
    const told: string[] = [];
    const options = { now: start, temporaryDirectory: fixtures.folder, memoryMegabytes: 100 };
    const path = await fixtures.write({ markets: query });
    const checked = inspectSources({ path }, { ...options, warn: (warning) => told.push(warning) });
    await expect(checked).rejects.toThrow("must be from 300 to 1000");
    expect(told).toEqual([
      ignored,
      expect.stringMatching(
        /^the largest row group takes 1 MB uncompressed; reading may need 16\d MB of memory/,
      ),
    ]);
  });

  test("names a file that cannot be read once, and the rows of the other source", async () => {
    const directory = await fixtures.write({ protocol_scores: replaced("scores", "bri", "-1") });
    const path = join(directory, "markets.parquet");
    const bytes = await readFile(path);
    await writeFile(path, bytes.fill(0, 100, bytes.length - 20_000));
    const refusals = Map.groupBy(await checkedRefusals(directory), ({ file }) => file);
    expect(refusals.get("protocol_scores.parquet")).toMatchObject([{ column: "bri", value: "-1" }]);
    const markets = refusals.get("markets.parquet")!;
    expect(new Set(markets.map(({ column }) => column)).size).toBe(markets.length);
    expect(markets.some(({ rule }) => unreadable.test(rule))).toBe(true);
    expect(refusals.size).toBe(2);
  });
});
