import { setTimeout as pause } from "node:timers/promises";
import { beforeAll, expect, test } from "vitest";
import { publishedSite } from "../../../proxy/site/files.ts";
import { feedVersion } from "../../../schemas/versions.ts";
import { changeObjects } from "../../../snapshots/changes/record.ts";
import { compressPage } from "../../../snapshots/format/page.ts";
import { leafHash, pageRootOf } from "../../../snapshots/format/tree.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { Trust } from "../../../snapshots/trust/trust.ts";
import { askedBeforeThreads, judgePage, PageCheck } from "../../../snapshots/verify/page-check.ts";
import { verify } from "../../../snapshots/verify/verify.ts";
import { exportNewest } from "../../helpers/archive/exports.ts";
import { publishArchive, recordsOf } from "../../helpers/publish/records.ts";
import { append } from "../../helpers/store/appended-commits.ts";
import { testKey } from "../../helpers/store/signing.ts";
import { aroundCalls, changedStorage, countingStorage, memoryStorage } from "../../helpers/store/storages.ts";
import { goodStore, type Objects } from "../../helpers/store/tamper.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";

const folder = testFolder();
let good: Objects;
/** The pages that verify reads when it goes on from the second of three commits, and when it begins from none. */
let [fresh, all]: [string[], string[]] = [[], []];

const isPage = (key: string) => key.startsWith(layout.page.prefix);

async function check(objects: Objects, since: number) {
  const storage = countingStorage(memoryStorage(objects));
  const report = await verify(storage, () => {}, { since });
  const read = new Set(storage.calls.flatMap(({ operation, key }) => (operation === "get" ? key : [])));
  return { report, read, pages: [...read].filter(isPage) };
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

test("a part of an older change record is passed over, and no other", async () => {
  const { changes } = JSON.parse(String(good.get(layout.commit(2))));
  const [, part = ""] = await changeObjects(memoryStorage(good), changes);
  expect(await faultsOf(2, (objects) => objects.delete(part))).toEqual([part]);
  expect(await faultsOf(2, (objects) => objects.set(part, good.get(part)!.subarray(1)))).toEqual([part]);
  const stray = layout.changePart("0".repeat(64));
  expect(await faultsOf(2, (objects) => objects.set(stray, good.get(part)!))).toEqual([stray]);
});

// What the command goes on from, and for how long, is in test/scripts/sessions/since.txt.

// What verify tells is the same in whatever order answers come, on how many threads, and while others publish.

/** A store whose answers come in another order than they were asked for, and how many were under way at once. */
function shuffled(objects: Map<string, Buffer>, counted = (_: number) => true) {
  const source = memoryStorage(objects);
  const most = { underway: 0, atOnce: 0, read: 0 };
  const storage = changedStorage(source, {
    async get(key, options) {
      const bytes = await source.get(key, options);
      if (!counted(bytes?.length ?? 0)) return bytes;
      most.underway += 1;
      most.read += 1;
      most.atOnce = Math.max(most.atOnce, most.underway);
      await pause((key.charCodeAt(key.length - 8) * 7) % 5);
      most.underway -= 1;
      return bytes;
    },
  });
  return { storage, most };
}

test("tells the same, in the same order, whatever order answers come in", async () => {
  const objects = await goodStore();
  for (const prefix of [layout.page.prefix, layout.publicObject.prefix, layout.privateObject.prefix])
    for (const [place, key] of [...objects.keys()].filter((key) => key.startsWith(prefix)).entries())
      if (place % 2 === 0) objects.delete(key);
  const told = await verify(memoryStorage(objects), () => {});
  expect(told.faults.length).toBeGreaterThan(5);
  expect(await verify(shuffled(objects).storage, () => {})).toEqual(told);
});

test("reads a long log side by side, and not more of it at once than it may", async () => {
  const objects = new Map<string, Buffer>();
  const source = memoryStorage(objects);
  for (let commit = 1; commit <= 200; commit += 1) await append(source);
  const { storage, most } = shuffled(objects);
  expect(await verify(storage, () => {})).toMatchObject({ commits: 200, collected: 199 });
  expect(most.atOnce).toBeGreaterThan(32);
  expect(most.atOnce).toBeLessThanOrEqual(64);
});

test("reads one at a time what is too large for its place, and tells the same", async () => {
  const objects = await goodStore();
  const huge = Buffer.alloc(5 * 1024 * 1024);
  for (const key of objects.keys())
    if (layout.page.has(key) || layout.stableScore.has(key)) objects.set(key, huge);
  const told = await verify(memoryStorage(objects), () => {});
  expect(told.faults.length).toBeGreaterThan(10);
  const { storage, most } = shuffled(objects, (bytes) => bytes === huge.length);
  expect(await verify(storage, () => {})).toEqual(told);
  expect(most.read).toBeGreaterThan(10);
  expect(most.atOnce).toBe(1);
});

const signing = { key: testKey() };
const names = { api: "https://api.example.org/api/v1", site: "https://cdn.example.org/" };

/** The store before a publish that also exports, and after it. */
async function twoStates(): Promise<[before: Objects, after: Objects]> {
  const objects: Objects = new Map();
  const storage = memoryStorage(objects);
  await publishArchive(storage, { markets: 30, bri: 700, names, signing });
  await publishArchive(storage, { markets: 40, bri: 650, names, signing });
  const before = new Map(objects);
  await publishArchive(storage, { markets: 50, bri: 300, names, signing });
  await exportNewest(storage, folder, { signing, changes: true });
  return [before, objects];
}

/** Checks a store that changes right before a call, and says how many calls there were. */
async function checkedWhile(before: Objects, after: Objects, change: number) {
  const objects = new Map(before);
  let calls = 0;
  const storage = aroundCalls(memoryStorage(objects), (work) => {
    calls += 1;
    if (calls === change) {
      objects.clear();
      for (const [key, bytes] of after) objects.set(key, bytes);
    }
    return work();
  });
  const options = { site: publishedSite, signing, trust: new Trust([signing.key]) };
  const { faults } = await verify(storage, () => {}, options);
  return { calls, faults: faults.map(({ key }) => key) };
}

test("a publish during the check is no fault, and whatever it left behind is one", async () => {
  const [before, after] = await twoStates();
  const { calls } = await checkedWhile(before, after, 0);
  // The log is read first.
  for (let change = 1; change <= calls; change += change < 8 ? 1 : 31)
    expect(await checkedWhile(before, after, change), `before call ${change}`).toMatchObject({ faults: [] });

  // Signed records name a commit that somebody took away, and the page of another was altered meanwhile.
  const lost = new Map(after);
  lost.delete(layout.commit(3));
  const [page] = [...before.keys()].filter(layout.page.has);
  const damaged = new Map(after).set(page!, Buffer.from("x"));
  expect((await checkedWhile(before, lost, 3)).faults).toContain(layout.commit(3));
  expect((await checkedWhile(before, damaged, 3)).faults).toContain(page);
});

const pages = askedBeforeThreads + 26;

/** Some say another root than they have. */
async function askedPage(number: number) {
  const lines = recordsOf(number, number + 3).map((market) => Buffer.from(JSON.stringify(market)));
  const { page, stored } = await compressPage(lines);
  const leaves = (number % 5 === 0 ? lines : lines.toReversed()).map(leafHash);
  const root = pageRootOf(leaves).toString("hex");
  return { pageKey: `page ${number}`, segmentKey: "segment", stored, page: { ...page, root }, feedVersion };
}
const asked = await Promise.all(Array.from({ length: pages }, (_, number) => askedPage(number)));

test("pages are judged the same on whatever thread that is", async () => {
  await using threads = new PageCheck();
  const judged = await Promise.all(asked.map((one) => threads.ask(one)));
  expect(judged).toEqual(asked.map(judgePage));
  expect(judged[askedBeforeThreads + 1]).toMatchObject({ key: "segment" });
});

test("pages under way fail when their thread ends, and so do those that come later", async () => {
  const threads = new PageCheck();
  const results = Promise.allSettled(asked.map((one) => threads.ask(one)));
  await threads[Symbol.asyncDispose]();
  const statuses = (await results).map(({ status }) => status);
  expect(statuses.slice(0, askedBeforeThreads)).not.toContain("rejected");
  expect(statuses.slice(askedBeforeThreads)).toContain("rejected");
  await expect(threads.ask(asked[0]!)).rejects.toThrow("a thread that checks pages ended with");
});
