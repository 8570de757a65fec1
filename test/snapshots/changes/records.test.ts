import { Readable } from "node:stream";
import { gunzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import type { HistoricalMarket } from "../../../schemas/records.ts";
import type { Commit } from "../../../schemas/store/stored-objects.ts";
import { ChangePart, changeObjects, partLines, putLine } from "../../../snapshots/changes/record.ts";
import { differingRows } from "../../../snapshots/changes/walk.ts";
import { compressPage } from "../../../snapshots/format/page.ts";
import { rollback } from "../../../snapshots/maintain/rollback.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { newestCommit, readCommit } from "../../../snapshots/store/log/commits.ts";
import { objectsIn, readParsed } from "../../../snapshots/store/objects.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import { inArchiveOrder, publishRecords, recordsOf } from "../../helpers/publish/records.ts";
import { append } from "../../helpers/store/appended-commits.ts";
import { contentOf, memoryStorage } from "../../helpers/store/storages.ts";
import { newestManifest, rebuild } from "../../helpers/store/tamper.ts";
import { faultsOf } from "../../helpers/store/verified.ts";

/** The lines of each side of a commit's record, newest first, and its counts. */
async function recordOf(storage: Storage, commit: Commit) {
  const read = objectsIn(storage);
  const { before, after, ...record } = await readParsed(read, layout.changeRecord, commit.changes!);
  const linesOf = async (parts: typeof before) => {
    const lines: string[] = [];
    for (const ref of parts.toReversed()) {
      const key = layout.changePart(ref.hash);
      const stored = await read(key, ref);
      const part = new ChangePart(key, stored, ref.lines);
      const puts = part.checked().map(({ line }) => String(putLine(line)));
      lines.push(...puts);
      expect(String(gunzipSync(stored))).toBe(puts.join(""));
    }
    return lines;
  };
  const { since, until, counts } = record;
  return { since, until, counts, before: await linesOf(before), after: await linesOf(after) };
}

const put = (market: HistoricalMarket) => `${JSON.stringify({ op: "put", market })}\n`;
const newest = async (storage: Storage) => (await newestCommit(storage))!;

/** Old markets 0 to 1999, then: 100 gone, 3 corrected of which one moves to the other end, 1200 added. */
const first = recordsOf(0, 2_000);
const corrected = [
  { ...first[50]!, question: "Corrected?" },
  { ...first[900]!, resolvedAt: "2031-01-01T00:00:00.000Z" },
  { ...first[1_999]!, composite: 1000, tier: "RAW" as const },
];
const isCorrected = ({ id }: HistoricalMarket) => corrected.some((other) => other.id === id);
const second = inArchiveOrder([
  ...first.filter((market, n) => !(n >= 300 && n < 400) && !isCorrected(market)),
  ...corrected,
  ...recordsOf(5_000, 6_200),
]);
const ids = new Set(first.map(({ id }) => id));
const lost = first.filter((market, n) => (n >= 300 && n < 400) || isCorrected(market));
const gained = second.filter((market) => !ids.has(market.id) || isCorrected(market));
const counts = { added: 1_200, changed: 3, removed: 100 };

test("a change record holds what the archive lost and gained, newest first; a rollback's has it the other way round", async () => {
  const storage = memoryStorage(new Map());
  await publishRecords(storage, first);
  const report = await publishRecords(storage, second);
  const commit = await newest(storage);
  const record = await recordOf(storage, commit);
  expect(record).toEqual({
    since: (await readCommit(storage, 1))!.entry.snapshotId,
    until: commit.entry.snapshotId,
    counts,
    before: lost.map(put),
    after: gained.map(put),
  });
  expect(record.after.length).toBeGreaterThan(2 * partLines);
  expect((await readCommit(storage, 1))!.changes).toBeNull();
  // Also of a market that moved.
  const fields = { question: 1, composite: 1, tier: 1, resolvedAt: 1 };
  expect(report.changes!.markets).toMatchObject(counts);
  expect(report.changes!.markets.details!.fields).toEqual(fields);
  const back = await rollback(storage, "1", () => new Date("2026-03-02T00:00:00.000Z"));
  expect(await recordOf(storage, back)).toEqual({
    since: record.until,
    until: record.since,
    counts: { added: 100, changed: 3, removed: 1_200 },
    before: record.after,
    after: record.before,
  });
  expect(back.changeCounts).toEqual({ added: 100, changed: 3, removed: 1_200 });
  expect(await faultsOf(storage)).toEqual([]);
});

describe("a change record that is lost or damaged", () => {
  /** A store with a commit for each of these archives of two markets, of which one is another each time. */
  async function commits(count: number) {
    const objects = new Map<string, Buffer>();
    const storage = memoryStorage(objects);
    const publish = (round: number, choices = {}) =>
      publishRecords(storage, recordsOf(round, round + 2), 700, choices);
    for (let round = 0; round < count; round += 1) await publish(round);
    return { objects, storage, publish };
  }
  const keysOf = async (storage: Storage, number: number) =>
    changeObjects(storage, (await readCommit(storage, number))!.changes!);
  const faults = async (storage: Storage) => (await faultsOf(storage)).map(({ key }) => key);

  test("is named by verify, and made again by every publish", async () => {
    const { objects, storage, publish } = await commits(3);
    const content = await contentOf(storage);
    const keys = [...(await keysOf(storage, 2)), ...(await keysOf(storage, 3))];
    expect(keys).toHaveLength(6);
    for (const [n, key] of keys.entries()) {
      const bytes = objects.get(key)!;
      // Gone, of another length, or of other bytes.
      const harmed = [undefined, bytes.subarray(1), Buffer.from(bytes.map((byte) => byte ^ 1))][n % 3];
      if (harmed) objects.set(key, harmed);
      else objects.delete(key);
      expect(await faults(storage)).toEqual([key]);
      const told: string[] = [];
      const again = await publish(2, { warn: (line: string) => told.push(line) });
      expect(again).toMatchObject({ outcome: "unchanged" });
      expect(told).toEqual([expect.stringMatching(`${key}: .*; it is made again from both snapshots`)]);
      expect(await contentOf(storage)).toEqual(content);
    }
    for (const key of keys) objects.delete(key);
    // Nothing but a record names its parts.
    expect((await faults(storage)).sort()).toEqual([keys[0], keys[3]].sort());
    expect(await publish(3)).toMatchObject({ outcome: "published", commit: 4 });
    expect(await faults(storage)).toEqual([]);
    const after = await contentOf(storage);
    for (const key of keys) expect(after[key]).toBe(content[key]);
  });

  test("is missed nowhere among the 32 newest, though the store has more", async () => {
    const { objects, storage, publish } = await commits(36);
    const content = await contentOf(storage);
    for (const commit of [5, 6, 20, 35, 36]) {
      const [record = ""] = await keysOf(storage, commit);
      objects.delete(record);
      expect(await publish(35)).toMatchObject({ outcome: "unchanged", commit: 36 });
      expect(await contentOf(storage)).toEqual(content);
    }
  });

  test("is made again by --repair however old it is", async () => {
    const { objects, storage, publish } = await commits(2);
    for (let more = 0; more < 32; more += 1) await append(storage);
    await publish(1);
    const [record = ""] = await keysOf(storage, 2);
    objects.delete(record);
    await publish(1);
    expect(await faults(storage)).toEqual([record]);
    await publish(1, { faulty: new Set([record]) });
    expect(await faults(storage)).toEqual([]);
  });

  test("stays so where a snapshot was collected", async () => {
    const { objects, storage, publish } = await commits(2);
    objects.delete(layout.manifest((await readCommit(storage, 1))!.manifest.hash));
    const [record = "", , part = ""] = await keysOf(storage, 2);
    objects.delete(part);
    const told: string[] = [];
    await publish(1, { warn: (line: string) => told.push(line) });
    expect(told).toEqual([]);
    expect(await faults(storage)).toEqual([part]);
    objects.delete(record);
    expect(await faults(storage)).toEqual([]);
  });
});

test.for([-1, 1])(
  "a run with %d markets more than its segment says has no place in a comparison",
  async (more) => {
    const objects = new Map<string, Buffer>();
    const storage = memoryStorage(objects);
    await publishRecords(storage, recordsOf(0, 40));
    const older = newestManifest(objects);
    await publishRecords(storage, recordsOf(10, 60));
    const part = (pages: HistoricalMarket[][]) => void pages.push(pages.at(-1)!.splice(0, 10));
    const { pages } = await rebuild(objects, part, async (lines) => {
      if (lines.length !== 10) return compressPage(lines);
      const own = [...lines, ...recordsOf(100, 101).map((market) => Buffer.from(JSON.stringify(market)))];
      const { page, stored } = await compressPage(own.slice(0, 10 + more));
      return { page: { ...page, markets: 10 }, stored };
    });
    const walk = differingRows(objectsIn(storage), older, newestManifest(objects));
    const refused = `${pages.at(-1)}: run 0 does not have as many markets as its table says`;
    await expect(Readable.from(walk).toArray()).rejects.toThrow(refused);
  },
);
