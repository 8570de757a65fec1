import { mkdir, mkdtemp, readdir, readFile, rm, stat, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, expect, test, vi } from "vitest";
import { cachedOnDisk } from "../../../snapshots/store/backends/disk-cache.ts";
import { layout, sha256 } from "../../../snapshots/store/layout.ts";
import { mountSmallDisk } from "../../helpers/store/small-disk.ts";
import { countingStorage, memoryStorage } from "../../helpers/store/storages.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";

const folder = testFolder();
const disk = mountSmallDisk(400);
let directory: string;
beforeEach(async () => {
  directory = join(await mkdtemp(join(folder, "run-")), "cache");
});

const objectOf = (n: number, bytes = 10_000) => Buffer.alloc(bytes, `object ${n} `);

/** A store of objects that are named by their hash, read through a cache of the same folder. */
function open(objects: readonly Buffer[], maxBytes = 2 ** 20) {
  const content = new Map(objects.map((bytes) => [layout.page(sha256(bytes)), bytes]));
  const store = countingStorage(memoryStorage(content));
  const warnings: string[] = [];
  const warn = (line: string) => warnings.push(line);
  const storage = cachedOnDisk(store, { directory, maxBytes, warn });
  const reads = () => store.calls.length;
  const get = (bytes: Buffer) => storage.get(layout.page(sha256(bytes)));
  return { storage, content, warnings, reads, get };
}

const pathOf = (bytes: Buffer) => join(directory, sha256(bytes).slice(0, 2), sha256(bytes));
const eventually = <T>(work: () => T) => vi.waitFor(work, { timeout: 590_000, interval: 1 });
const kept = (bytes: Buffer) => eventually(() => stat(pathOf(bytes)));

async function files(): Promise<string[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name));
}

test("an object is read from the store once, also after a restart and by other processes", async () => {
  const one = objectOf(1);
  const first = open([one]);
  expect(await first.get(one)).toEqual(one);
  await kept(one);
  expect(await first.get(one)).toEqual(one);
  expect(first.reads()).toBe(1);
  const second = open([one]);
  expect(await second.get(one)).toEqual(one);
  expect(second.reads()).toBe(0);
  // Nobody else on the machine may read what is kept.
  expect((await stat(pathOf(one))).mode & 0o077).toBe(0);
});

test("a kept object that was altered, cut or emptied is read from the store again", async () => {
  const one = objectOf(1);
  await open([one]).get(one);
  for (const damaged of [objectOf(2), one.subarray(1), Buffer.alloc(0)]) {
    await kept(one);
    await writeFile(pathOf(one), damaged);
    const { get, reads, warnings } = open([one]);
    expect(await get(one)).toEqual(one);
    expect(reads()).toBe(1);
    expect(warnings).toEqual([]);
    await eventually(async () => expect(await readFile(pathOf(one))).toEqual(one));
  }
});

test("a part of a page is taken from the whole, which is kept", async () => {
  const page = Buffer.from(Array.from({ length: 1000 }, (_, n) => n % 251));
  const { storage, reads } = open([page]);
  const key = layout.page(sha256(page));
  const part = (offset: number, bytes: number) => storage.get(key, { range: { offset, bytes } });
  expect(await part(100, 50)).toEqual(page.subarray(100, 150));
  await kept(page);
  expect(await part(900, 100)).toEqual(page.subarray(900));
  expect(reads()).toBe(1);
  // Parts that are kept are not checked here, but those that are cut are read from the store.
  await writeFile(pathOf(page), Buffer.alloc(950));
  expect(await part(900, 50)).toEqual(Buffer.alloc(50));
  expect(await part(900, 100)).toEqual(page.subarray(900));
  expect(reads()).toBe(2);
  await expect(part(900, 101)).rejects.toThrow("it ends before byte 1001");
  expect(await storage.get(layout.page(sha256("")), { range: { offset: 0, bytes: 1 } })).toBeUndefined();
});

test("what the store gives under another hash is passed on and not kept, nor is what has no hash", async () => {
  const [one, two, three] = [objectOf(1), objectOf(2), objectOf(3)];
  const { storage, content, get } = open([one, two]);
  content.set(layout.page(sha256(one)), objectOf(9));
  content.set(layout.checked, one);
  content.set(layout.manifest(sha256(three)), three);
  expect(await get(one)).toEqual(objectOf(9));
  expect(await storage.get(layout.checked)).toEqual(one);
  expect(await storage.get(layout.manifest(sha256(three)))).toEqual(three);
  // Written in the order of reading.
  await get(two);
  await kept(two);
  expect(await files()).toEqual([pathOf(two)]);
});

test("an object that must be fresh is read from the store, and so is a part of one that is no page", async () => {
  const one = objectOf(1);
  const { storage, content, get } = open([one]);
  await get(one);
  await kept(one);
  const key = layout.page(sha256(one));
  content.set(key, objectOf(2));
  expect(await storage.get(key)).toEqual(one);
  expect(await storage.get(key, { fresh: true })).toEqual(objectOf(2));
  const range = { offset: 0, bytes: 8 };
  expect(await storage.get(key, { fresh: true, range })).toEqual(objectOf(2).subarray(0, 8));
  content.set(layout.exportFile(sha256(one)), objectOf(3));
  expect(await storage.get(layout.exportFile(sha256(one)), { range })).toEqual(objectOf(3).subarray(0, 8));
});

test("the files stay within the bound, and those that were not used for longest go first", async () => {
  const objects = Array.from({ length: 180 }, (_, n) => objectOf(n));
  const maxBytes = 2 ** 20;
  const { get } = open(objects, maxBytes);
  await get(objects[0]!);
  await kept(objects[0]!);
  // Files that nobody has used for so many days, of which the first is used now.
  for (const [n, bytes] of objects.slice(1, 70).entries()) {
    await mkdir(join(pathOf(bytes), ".."), { recursive: true });
    await writeFile(pathOf(bytes), bytes);
    const time = new Date(Date.now() - (100 - n) * 86_400_000);
    await utimes(pathOf(bytes), time, time);
  }
  await get(objects[1]!);
  for (const [n, bytes] of objects.slice(70).entries()) {
    await get(bytes);
    await kept(bytes);
    if (n % 10 > 0) continue;
    const held = await Promise.all((await files()).map(async (path) => (await stat(path)).size));
    expect(held.reduce((sum, size) => sum + size, 0)).toBeLessThanOrEqual(maxBytes);
    if (bytes === objects[90]) {
      const left = await files();
      expect(left).toContain(pathOf(objects[1]!));
      expect(left).not.toContain(pathOf(objects[2]!));
      expect(left).toContain(pathOf(objects[69]!));
    }
  }
});

test("files of others in the folder stay, and what killed processes left goes", async () => {
  const one = objectOf(1);
  const part = join(directory, "ab");
  await mkdir(part, { recursive: true });
  const own = join(part, "notes.txt");
  const left = join(part, `${"ab".repeat(32)}.1.0123456789ab.new`);
  const old = new Date(Date.now() - 86_400_000);
  for (const path of [own, left]) {
    await writeFile(path, "x".repeat(2 ** 21));
    await utimes(path, old, old);
  }
  await open([one]).get(one);
  await kept(one);
  expect((await files()).toSorted()).toEqual([own, pathOf(one)].toSorted());
});

const fullDisk = "a full disk is told once, holds whole objects, and is used again when it has room";
test.skipIf(!disk)(fullDisk, async () => {
  directory = join(disk!, "cache");
  const objects = Array.from({ length: 45 }, (_, n) => objectOf(n));
  const first = open(objects);
  for (const bytes of objects) expect(await first.get(bytes)).toEqual(bytes);
  await eventually(() => expect(first.warnings).toHaveLength(1));
  expect(first.warnings[0]).toMatch(/^\S+cache: .*ENOSPC/);
  // What fits is of use all the same.
  const second = open(objects);
  for (const bytes of objects) expect(await second.get(bytes)).toEqual(bytes);
  expect(second.reads()).toBeLessThan(first.reads());
  const left = (await files()).filter((path) => !path.endsWith(".new"));
  expect(left.length).toBeGreaterThan(10);
  for (const path of left) expect(path.endsWith(sha256(await readFile(path)))).toBe(true);
  for (const path of left) await rm(path);
  // Behind what still waits in both, for which there is room now.
  for (const [n, { content, get }] of [first, second].entries()) {
    const late = objectOf(100 + n);
    content.set(layout.page(sha256(late)), late);
    expect(await get(late)).toEqual(late);
    await kept(late);
  }
  expect(first.warnings).toHaveLength(1);
});

test("a folder that cannot be used is told once and does no harm", async () => {
  await writeFile(directory, "a file");
  const objects = [objectOf(1), objectOf(2)];
  const { get, warnings, reads } = open(objects);
  for (const bytes of [...objects, ...objects]) expect(await get(bytes)).toEqual(bytes);
  expect(reads()).toBe(4);
  expect(warnings).toHaveLength(1);
  expect(warnings[0]).toContain(directory);
});
