import { appendFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { exitCodeOf, exitCodes } from "../../../scripts/cli.ts";
import { SourceRefusal } from "../../../snapshots/sources/sources.ts";
import { directoryStorage } from "../../../snapshots/store/backends/directory.ts";
import { publishSources } from "../../helpers/publish/sample-sources.ts";
import { replaced, type SourceFiles, sourceFixtures } from "../../helpers/publish/sources.ts";
import { contentOf, countingStorage } from "../../helpers/store/storages.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";

const folder = testFolder();
const storage = directoryStorage(join(folder, "store"));
const fixtures = sourceFixtures();
let published: Record<string, string>;

beforeAll(async () => {
  await publishSources(await fixtures.write({}), storage, folder);
  published = await contentOf(storage);
});

/** A fault of each kind that is found at a moment of its own; test/snapshots/sources has every rule. */
const refusals: [rule: string, files: SourceFiles, place: RegExp][] = [
  [
    "a missing column",
    { markets: "SELECT * EXCLUDE (category) FROM markets" },
    /^markets\.parquet, column category: /,
  ],
  [
    "a value of a market",
    { markets: replaced("markets", "composite", "299") },
    /row 7 \(.{36}\), column composite: 299/,
  ],
  [
    "a value of a score",
    { protocol_scores: replaced("scores", "updated_at", "TIMESTAMPTZ '2030-01-01 00:05:00.001+00'") },
    /row 7 .* column updated_at: 2030/,
  ],
  [
    "a duplicate id",
    { "markets/a": "FROM markets", "markets/b": "FROM markets WHERE n = 7" },
    /^markets\/a\.parquet, row 7 .* column id: .*two markets/,
  ],
];

describe("sources are refused with exit code 3 and the place, and the store stays as it was", () => {
  test.for(refusals)("%s", async ([, files, place]) => expectRefusal(await fixtures.write(files), place));

  test("a file that changes while it is read", async () => {
    const query = "SELECT * REPLACE (concat(question, '?') AS question) FROM markets";
    const directory = await fixtures.write({ markets: query });
    const progress = () => appendFileSync(join(directory, "markets.parquet"), "x");
    await expectRefusal(directory, /^markets\.parquet: changed while it was read/, { progress });
  });
});

async function expectRefusal(directory: string, place: RegExp, choices = {}): Promise<void> {
  const counting = countingStorage(storage);
  const error = await publishSources(directory, counting, folder, choices).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(SourceRefusal);
  expect(exitCodeOf(error)).toBe(exitCodes.refused);
  expect((error as SourceRefusal).message).toMatch(place);
  expect(counting.written()).toEqual([]);
  expect(await contentOf(storage)).toEqual(published);
}
