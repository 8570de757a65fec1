import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { incidents, wayBack } from "../../scripts/incidents.ts";
import { directoryStorage } from "../../snapshots/store/backends/directory.ts";
import { layout } from "../../snapshots/store/layout.ts";
import { deployed } from "../helpers/http/deployed.ts";
import { expectEnd, snapshotCommand } from "../helpers/publish/commands.ts";
import { publishRecords, recordsOf } from "../helpers/publish/records.ts";
import { listed } from "../helpers/store/storages.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

const folder = testFolder();

test("OPERATING.md has a row for every kind of object, with the way back that messages name", () => {
  const [, table = ""] =
    /<!-- incidents: .*\n([\s\S]*?)<!-- \/incidents -->/.exec(deployed("OPERATING.md")) ?? [];
  const rows = table.trim().split("\n").slice(2);
  expect(rows.map((row) => row.split(" | ")[0])).toEqual(
    incidents.map(({ of }) => `| ${of.map((prefix) => `\`${prefix}\``).join(", ")}`),
  );
  expect(rows.map((row) => row.split(" | ")[2])).toEqual(incidents.map(({ back }) => `${back} |`));
  const keys = Object.values(layout).map((at) => (typeof at === "string" ? at : at("x" as never)));
  expect(keys.filter((key) => wayBack(key) === undefined)).toEqual([]);
});

test("a command that meets a damaged object names the way back, which leads back", async () => {
  const store = join(folder, "store");
  const storage = directoryStorage(store);
  for (const count of [40, 41, 42]) await publishRecords(storage, recordsOf(0, count));
  const run = (...args: string[]) => snapshotCommand([...args, "--store", store], { from: folder });
  const commit = join(store, layout.commit(2));
  await writeFile(commit, (await readFile(commit, "utf8")).replace("publishedAt", "publishedat"));
  const back = wayBack(layout.commit(2));
  expectEnd(await run("gc"), 3, `${layout.commit(2)}: `, `The way back: ${back}.`);
  const faulty = await run("verify");
  const told = expect.stringContaining(`For ${layout.commit(2)}: ${back}.`);
  expect([faulty.code, faulty.stdout]).toEqual([1, told]);
  const begins = ["--log-begins-at", "3"];
  expect((await run("gc", ...begins)).code).toBe(0);
  expect((await run("verify", ...begins)).code).toBe(0);
  for (const number of [1, 2]) await storage.delete(layout.commit(number));
  expect((await run("list")).stdout).toContain("missing: commit 1 to 2\n");
  expect(JSON.parse((await run("list", "--json")).stdout).missing).toEqual([[1, 2]]);
  expect((await run("gc")).code).toBe(3);
  expect((await run("verify")).stdout).toContain(`${layout.commit(1)}: it is missing, and so are all up to`);
  expect((await run("gc", ...begins)).code).toBe(0);
  expect((await run("verify", ...begins)).code).toBe(0);
  expect((await run("verify", "--log-begins-at", "0")).code).toBe(2);

  const records = await listed(storage, layout.changeRecord.prefix);
  const record = records.find(({ key }) => key.endsWith(".json"));
  await writeFile(join(store, record!.key), "rotten");
  expect((await run("verify")).stdout).toContain(`For ${record!.key}: ${wayBack(record!.key)}.`);
  await storage.delete(record!.key);
  expect((await run("verify", ...begins)).code).toBe(0);
});

test("gc names the manifest of the old snapshot that is damaged, without which it goes on", async () => {
  const store = join(folder, "old");
  const storage = directoryStorage(store);
  await publishRecords(storage, recordsOf(0, 40));
  const [segment] = await listed(storage, layout.segment.prefix);
  const [manifest] = await listed(storage, layout.manifest.prefix);
  await publishRecords(storage, recordsOf(0, 41));
  await writeFile(join(store, segment!.key), "rotten");
  const run = (...args: string[]) => snapshotCommand([...args, "--store", store], { from: folder });
  expectEnd(await run("gc"), 1, `its manifest is ${manifest!.key}. The way back: run \`verify --repair`);
  await storage.delete(manifest!.key);
  expect((await run("gc")).code).toBe(0);
});
