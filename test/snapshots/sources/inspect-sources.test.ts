import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { inspectSources } from "../../../snapshots/sources/open-sources.ts";
import { checkedRefusals, replaced, sourceFixtures, start } from "../../helpers/publish/sources.ts";

const fixtures = sourceFixtures();

/** Rules with the files and columns that break them. */
async function brokenRules(directory: string): Promise<string[]> {
  const refusals = await checkedRefusals(directory);
  return refusals.map(({ file, column, rule }) => [file, column, rule].filter(Boolean).join(" ")).sort();
}

const ignored = "markets: ignored columns and members that the contract does not name: more";

describe("a check of the sources", () => {
  test("counts what sound ones hold, and warns of columns that nobody reads", async () => {
    const directory = await fixtures.write({ markets: "SELECT *, 1 AS more FROM markets" });
    const found = await inspectSources(
      { path: directory },
      { now: start, temporaryDirectory: fixtures.folder },
    );
    expect(found).toEqual({ markets: 40, scores: 15, protocols: 5, warnings: [ignored] });
  });

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

  test("names faults of rows, shared keys and both sources at once", async () => {
    const directory = await fixtures.write({
      markets: `${replaced("markets", "composite", "1001")} UNION ALL FROM markets WHERE n = 3`,
      protocol_scores: `${replaced("scores", "bri", "-1")} UNION ALL FROM scores WHERE n = 3`,
    });
    const shared = "must not be the time of two scores of one protocol, in milliseconds";
    expect(await brokenRules(directory)).toEqual(
      [
        "markets.parquet composite must be from 300 to 1000",
        ...Array(2).fill("markets.parquet id must not be the id of two markets"),
        "protocol_scores.parquet bri must be from 0 to 1000",
        ...Array(2).fill(`protocol_scores.parquet updated_at ${shared}`),
      ].sort(),
    );
  });

  test("names a file that cannot be read once, and the rows of the other source", async () => {
    const directory = await fixtures.write({ protocol_scores: replaced("scores", "bri", "-1") });
    const path = join(directory, "markets.parquet");
    const bytes = await readFile(path);
    await writeFile(path, bytes.fill(0, 100, bytes.length - 20_000));
    const refusals = await checkedRefusals(directory);
    const [scores, markets] = [true, false].map((whole) =>
      refusals.filter(({ file }) => (file === "protocol_scores.parquet") === whole),
    );
    expect(scores).toEqual([expect.objectContaining({ column: "bri", value: "-1" })]);
    const places = markets!.map(({ column }) => column);
    expect(new Set(places).size).toBe(places.length);
    expect(markets).toContainEqual(
      expect.objectContaining({ file: "markets.parquet", rule: expect.stringMatching(/^cannot be read: /) }),
    );
  });
});
