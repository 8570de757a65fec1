import { setTimeout as pause } from "node:timers/promises";
import { expect, test } from "vitest";
import { layout } from "../../../snapshots/store/layout.ts";
import { verify } from "../../../snapshots/verify/verify.ts";
import { append } from "../../helpers/store/appended-commits.ts";
import { changedStorage, memoryStorage } from "../../helpers/store/storages.ts";
import { goodStore } from "../../helpers/store/tamper.ts";

/** A store whose answers come in another order than they were asked for. */
function shuffled(objects: Map<string, Buffer>) {
  const source = memoryStorage(objects);
  const most = { underway: 0, atOnce: 0 };
  const storage = changedStorage(source, {
    async get(key, options) {
      most.underway += 1;
      most.atOnce = Math.max(most.atOnce, most.underway);
      await pause((key.charCodeAt(key.length - 8) * 7) % 5);
      most.underway -= 1;
      return source.get(key, options);
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
  const source = memoryStorage(objects);
  const told = await verify(source, () => {});
  expect(told.faults.length).toBeGreaterThan(10);
  let [underway, atOnce, read] = [0, 0, 0];
  const storage = changedStorage(source, {
    async get(key, options) {
      const bytes = await source.get(key, options);
      if (bytes?.length !== huge.length) return bytes;
      underway += 1;
      [read, atOnce] = [read + 1, Math.max(atOnce, underway)];
      await pause(1);
      underway -= 1;
      return bytes;
    },
  });
  expect(await verify(storage, () => {})).toEqual(told);
  expect(read).toBeGreaterThan(10);
  expect(atOnce).toBe(1);
});
