import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { changeObjects } from "../../../snapshots/changes/record.ts";
import { directoryStorage } from "../../../snapshots/store/backends/directory.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { verify } from "../../../snapshots/verify/verify.ts";
import { runCommand } from "../../helpers/publish/commands.ts";
import { changedStorage, memoryStorage } from "../../helpers/store/storages.ts";
import { goodStore, type Objects } from "../../helpers/store/tamper.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";

const from = testFolder();
let good: Objects;
/** The pages that verify reads when it goes on from the second of three commits, and when it begins from none. */
let [fresh, all]: [string[], string[]] = [[], []];

const isPage = (key: string) => key.startsWith(layout.page.prefix);

async function check(objects: Objects, since: number) {
  const source = memoryStorage(objects);
  const read: string[] = [];
  const storage = changedStorage(source, {
    async get(key, options) {
      read.push(key);
      return source.get(key, options);
    },
  });
  const report = await verify(storage, () => {}, { since });
  return { report, read: new Set(read), pages: [...new Set(read.filter(isPage))] };
}

async function faultsOf(since: number, change: (objects: Objects) => unknown): Promise<string[]> {
  const objects = new Map(good);
  change(objects);
  return (await check(objects, since)).report.faults.map(({ key }) => key);
}

beforeAll(async () => {
  good = await goodStore();
  [fresh, all] = [(await check(good, 2)).pages, (await check(good, 0)).pages];
});

test("what an earlier run has read is listed and not read again, and all is counted as before", async () => {
  const { report, read } = await check(good, 2);
  const { report: whole, read: readBefore } = await check(good, 0);
  expect(report).toEqual({ ...whole, passedOver: readBefore.difference(read).size });
  expect(whole).toMatchObject({ passedOver: 0, faults: [] });
  expect(report.passedOver).toBeGreaterThan(20);
  expect(fresh.length).toBeGreaterThan(0);
  expect(all.length).toBeGreaterThan(fresh.length);
  expect((await check(good, 3)).pages).toEqual([]);
});

test("of that, what is gone or has another size is named, and nothing else", async () => {
  const passedOver = all.find((key) => !fresh.includes(key))!;
  const flipped = Buffer.from(good.get(passedOver)!);
  flipped[20]! ^= 1;
  expect(await faultsOf(2, (objects) => objects.set(passedOver, flipped))).toEqual([]);
  expect(await faultsOf(0, (objects) => objects.set(passedOver, flipped))).toContain(passedOver);
  expect(await faultsOf(2, (objects) => objects.delete(passedOver))).toEqual([passedOver]);
  expect(await faultsOf(2, (objects) => objects.set(passedOver, flipped.subarray(1)))).toEqual([passedOver]);
});

test("a part of an older change record is passed over, and no other", async () => {
  const { changes } = JSON.parse(String(good.get(layout.commit(2))));
  const [, part = ""] = await changeObjects(memoryStorage(good), changes);
  expect(await faultsOf(2, (objects) => objects.delete(part))).toEqual([part]);
  expect(await faultsOf(2, (objects) => objects.set(part, good.get(part)!.subarray(1)))).toEqual([part]);
  const stray = layout.changePart("0".repeat(64));
  expect(await faultsOf(2, (objects) => objects.set(stray, good.get(part)!))).toEqual([stray]);
});

test("what came later is read: a flipped bit in a new page, or in a commit, is named", async () => {
  for (const key of [fresh[0]!, layout.commit(1), layout.commit(3)]) {
    const flipped = Buffer.from(good.get(key)!);
    flipped[flipped.length - 20]! ^= 1;
    expect(await faultsOf(2, (objects) => objects.set(key, flipped))).toContain(key);
  }
});

test("a commit that the earlier run saw must be there", async () => {
  expect(await faultsOf(4, () => {})).toEqual([layout.commit(4)]);
});

test("--since-file tells what was found before it fails to keep that, and needs a name", async () => {
  const storage = directoryStorage(join(from, "kept"));
  for (const [key, bytes] of good) await storage.put(key, bytes);
  const run = (file: string) =>
    runCommand("snapshot", ["verify", "--store", "kept", "--since-file", file], { from });
  // A folder cannot be made below a file.
  await writeFile(join(from, "file"), "");
  const { code, stdout } = await run("file/since.json");
  expect(code).toBe(1);
  expect(stdout).toContain("All good");
  expect(await run("")).toMatchObject({ code: 2 });
});

test("--since-file goes on from the last run without fault, for a week and in the same log", async () => {
  const storage = directoryStorage(join(from, "store"));
  for (const [key, bytes] of good) await storage.put(key, bytes);
  const seen = join(from, "state", "since.json");
  const run = async () => {
    const line = ["verify", "--json", "--store", "store", "--since-file", "state/since.json"];
    const { code, stdout } = await runCommand("snapshot", line, { from });
    return [code, JSON.parse(stdout).passedOver > 0];
  };
  const edit = async (members: object) =>
    writeFile(seen, JSON.stringify({ ...JSON.parse(await readFile(seen, "utf8")), ...members }));
  expect(await run()).toEqual([0, false]);
  expect(JSON.parse(await readFile(seen, "utf8"))).toMatchObject({ commit: 3 });
  expect(await run()).toEqual([0, true]);
  await edit({ digest: "0".repeat(64) });
  expect(await run()).toEqual([0, false]);

  const flipped = Buffer.from(good.get(all[0]!)!);
  flipped[20]! ^= 1;
  await storage.put(all[0]!, flipped);
  expect(await run()).toEqual([0, true]);
  await edit({ wholeAt: new Date(Date.now() - 7 * 24 * 3_600_000).toISOString() });
  const before = await readFile(seen, "utf8");
  expect(await run()).toEqual([1, false]);
  // What has a fault was not seen whole.
  expect(await readFile(seen, "utf8")).toBe(before);

  await storage.put(all[0]!, good.get(all[0]!)!);
  for (const wholeAt of [Date.now() - 30 * 24 * 3_600_000, Date.now() + 30 * 24 * 3_600_000]) {
    await edit({ wholeAt: new Date(wholeAt).toISOString() });
    expect(await run()).toEqual([0, false]);
  }
  // What was seen must be there, however long ago that was.
  await edit({ commit: 4, wholeAt: "2020-01-01T00:00:00.000Z" });
  expect(await run()).toEqual([1, false]);
  expect(JSON.parse(await readFile(seen, "utf8"))).toMatchObject({ commit: 4 });
});
