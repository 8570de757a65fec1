import { cp, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { withDuckDb } from "../helpers/archive/sql.ts";
import { expectEnd, snapshotCommand } from "../helpers/publish/commands.ts";
import { loadSample, writeTables } from "../helpers/publish/editable-sources.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

const folder = testFolder();
const run = (args: string) => snapshotCommand(args.split(" "), { from: folder });

beforeAll(() =>
  withDuckDb(folder, async (sql) => {
    await loadSample(sql, folder, { markets: 60, protocols: 4 });
    await writeTables(sql, join(folder, "sources"));
    const markets = "SELECT * REPLACE (composite + 1000 AS composite) FROM markets UNION ALL FROM markets";
    await writeTables(sql, join(folder, "broken"), { markets, scores: "SELECT * EXCLUDE (bri) FROM scores" });
  }),
);

test("snapshot check counts what sound sources hold, from a folder relative to the user's", async () => {
  const stdout = "60 markets and 12 scores of 4 protocols: nothing to refuse\n";
  expect(await run("check --sources sources")).toEqual({ code: 0, stdout, stderr: "" });
  const json = await run("check --sources sources --json");
  expect(JSON.parse(json.stdout)).toEqual({ markets: 60, scores: 12, protocols: 4, warnings: [] });
});

test("snapshot check refuses as a publish does, with all that is wrong", async () => {
  const { code, stdout, stderr } = await run("check --sources broken --json");
  const { error } = JSON.parse(stdout);
  expect([code, error.exitCode]).toEqual([3, 3]);
  const found = error.refusals.map(({ column, total }: { column: string; total: number }) => [column, total]);
  expect(Object.fromEntries(found)).toEqual({ bri: 1, composite: 60, id: 120 });
  expect(stderr).toContain("20 of 60 shown: must be from 300 to 1000");
  expect(stderr).toContain("protocol_scores.parquet, column bri: is missing");
  // A publish stops at the first kind of fault, here columns.
  const publish = await run("publish --sources broken --store store --json");
  expect(publish.code).toBe(3);
  const refused = JSON.parse(publish.stdout).error.refusals;
  expect(error.refusals).toEqual(expect.arrayContaining(refused));
});

test("snapshot check needs sources", async () => {
  expectEnd(await run("check"), 2, "--sources is missing");
  await cp(join(folder, "sources"), join(folder, "half"), {
    recursive: true,
    filter: (path) => !path.endsWith("scores.parquet"),
  });
  expectEnd(await run("check --sources half"), 3, "protocol_scores.parquet: is missing");
  await writeFile(join(folder, "half/protocol_scores.parquet"), "");
  const empty = /^protocol_scores\.parquet: .*; it is empty, or was not written to its end$/m;
  expectEnd(await run("check --sources half"), 3, empty);
});
