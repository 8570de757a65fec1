import { Readable } from "node:stream";
import { promisify } from "node:util";
import { gunzipSync } from "node:zlib";
import { beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import type { ChangeRecord } from "../../../../schemas/store/stored-objects.ts";
import {
  comparisonsPerTurn,
  Entries,
  idColumn,
  type Sides,
} from "../../../../snapshots/changes/difference.ts";
import { putLine, rowOf } from "../../../../snapshots/changes/record.ts";
import { compressPiece } from "../../../../snapshots/format/gzip.ts";
import { runMarkets } from "../../../../snapshots/format/page.ts";
import type { StreamChunk } from "../../../../snapshots/read/answer.ts";
import type { Payer } from "../../../../snapshots/read/budgets.ts";
import { ObjectCache } from "../../../../snapshots/read/catalog/caches.ts";
import { Catalog } from "../../../../snapshots/read/catalog/catalog.ts";
import {
  type ChangeTexts,
  netOf,
  pageTexts,
  partTexts,
  placeIn,
  readChanges,
  readChangesGzip,
  tagOf,
} from "../../../../snapshots/read/changes/change-lines.ts";
import { changesReader } from "../../../../snapshots/read/changes/changes.ts";
import { layout, sha256 } from "../../../../snapshots/store/layout.ts";
import { readCommit } from "../../../../snapshots/store/log/commits.ts";
import type { Storage } from "../../../../snapshots/store/storage.ts";
import { publishRecords, recordsOf } from "../../../helpers/publish/records.ts";
import { aroundCalls, countingStorage, memoryStorage } from "../../../helpers/store/storages.ts";
import { replaceCommit } from "../../../helpers/store/tamper.ts";

/** Entries that count how many were looked at since the last yield. */
class Watched extends Entries {
  static since = 0;
  static most = 0;

  static look(): void {
    Watched.since += 1;
    Watched.most = Math.max(Watched.most, Watched.since);
  }

  override copyId(...parts: Parameters<Entries["copyId"]>): void {
    Watched.look();
    super.copyId(...parts);
  }

  override tag(index: number): number {
    Watched.look();
    return super.tag(index);
  }
}

const numbers = (count: number, from = 0) => Array.from({ length: count }, (_, n) => from + n);
const idOf = (number: number) => `00000000-0000-4000-8000-${String(number).padStart(12, "0")}`;
const rowAt = (number: number) => rowOf({ id: idOf(number), resolvedAt: number, line: Buffer.from("{}") });

test("a large difference gives others their turn after every piece of it", async () => {
  const [removed, added] = [50_000, 30_000];
  const sides: Sides = { before: new Watched(), after: new Watched() };
  for (let n = 0; n < removed; n += 1) sides.before.add(rowAt(n));
  for (let n = 0; n < added; n += 1) sides.after.add(rowAt(removed + n), n);
  const objects = new ObjectCache(memoryStorage(new Map()), 1000);
  const texts = pageTexts(objects, [{ markets: 2, hash: "a", bytes: 1, runs: [], runHashes: "" }]);
  let yields = 0;
  const net = await netOf(sides, texts, async () => {
    Watched.since = 0;
    yields += 1;
  });
  expect([net.deletes.length / 4, net.puts.length]).toEqual([removed, added]);
  expect([net.puts[0], net.puts[added - 1]]).toEqual([added - 1, 0]);
  expect(Watched.most).toBe(comparisonsPerTurn);
  // Each is paid for.
  expect(yields).toBeLessThan((20 * (removed + added)) / comparisonsPerTurn);
  // A fifth of what strings took, so that larger ones are kept for whoever asks again.
  expect(net.bytes).toBe(16 * removed + 4 * added + texts.bytes);
});

test("a page is held once, however many of its markets differ, and a part as it is added", () => {
  const objects = new ObjectCache(memoryStorage(new Map()), 1000);
  const pages = ["a", "b", "c"].map((hash) => ({ markets: 2, hash, bytes: 1, runs: [], runHashes: "" }));
  const held: typeof pages = [];
  expect(pages.flatMap((page) => [placeIn(held, page), placeIn(held, page)])).toEqual([0, 0, 1, 1, 2, 2]);
  expect(pageTexts(objects, held).bytes).toBe(3 * 4000);
  const parts = ["a", "b"].map((hash) => ({ hash, bytes: 1, lines: 3 }));
  const texts = partTexts(objects, parts);
  expect([texts.bytes, texts.lines(1)]).toEqual([600, 3]);
});

test("whole runs of a difference are sent as they are stored, and lines of others are read run by run, once", async () => {
  const lines = 40;
  const textOf = (source: number, line: number) => Buffer.from(`{"id":"${source}/${line}"}`);
  const putOf = (source: number, line: number) => String(putLine(textOf(source, line)));
  const linesIn = (run: number) => numbers(Math.min(runMarkets, lines - run * runMarkets), run * runMarkets);
  const [read, pieces]: [string[], string[]] = [[], []];
  const texts: ChangeTexts = {
    ...{ bytes: 0, lines: () => lines },
    async run(source, run) {
      read.push(`${source}/${run}`);
      return linesIn(run).map((line) => textOf(source, line));
    },
    async piece(source, run) {
      pieces.push(`${source}/${run}`);
      const puts = linesIn(run).map((line) => putOf(source, line));
      return compressPiece(Buffer.from(puts.join("")), 1);
    },
  };
  const sent = async (chunks: AsyncIterable<StreamChunk>) =>
    Buffer.concat((await Readable.from(chunks).toArray()).map(({ text }: StreamChunk) => text));
  // Which of the lines of two objects are left out, and how many lines are skipped.
  for (const [without, skip, whole] of [
    [[], 0, ["0/0", "0/1", "0/2", "1/0", "1/1", "1/2"]],
    [[], 1, ["0/1", "0/2", "1/0", "1/1", "1/2"]],
    [[], runMarkets, ["0/1", "0/2", "1/0", "1/1", "1/2"]],
    [[0], 0, ["0/1", "0/2", "1/0", "1/1", "1/2"]],
    [[7, lines + 20], 0, ["0/1", "0/2", "1/0", "1/2"]],
    [[2 * lines - 1], 0, ["0/0", "0/1", "0/2", "1/0", "1/1"]],
  ] as const) {
    const places = numbers(2 * lines)
      .filter((place) => !without.some((other) => other === place))
      .map((place) => [Math.floor(place / lines), place % lines] as const);
    const puts = Uint32Array.from(places, (place) => tagOf(...place));
    const net = { deletes: idColumn(0), puts, texts, bytes: 0 };
    const expected = places.slice(skip).map((place) => putOf(...place));
    read.length = pieces.length = 0;
    expect(String(await sent(readChanges(net, skip)))).toBe(expected.join(""));
    expect(new Set(read).size).toBe(read.length);
    read.length = 0;
    expect(String(gunzipSync(await sent(readChangesGzip(net, skip))))).toBe(expected.join(""));
    expect(pieces).toEqual(whole);
    expect(read.filter((run) => pieces.includes(run))).toEqual([]);
  }
});

describe("work on a far difference", () => {
  /** Each commit differs from the one before, so that there are many records to add up. */
  const commits = 61;
  let store: Storage;
  const ids: string[] = [];
  let catalog: Catalog;
  beforeAll(async () => {
    store = memoryStorage(new Map());
    for (let n = 0; n < commits; n += 1)
      ids.push((await publishRecords(store, recordsOf(n, n + 20))).snapshotId);
    catalog = new Catalog(store, { cacheBytes: 2 ** 22 });
    await catalog.refresh();
  });

  /** A payer who counts, and leaves or runs out of units after so many payments. */
  function payer({ leaves = Infinity, has = Infinity } = {}) {
    const counted = { paid: 0, gone: () => counted.paid >= leaves, pay: async () => {} };
    counted.pay = async () => {
      if (counted.paid >= has) throw new Error("no units left");
      counted.paid += 1;
    };
    return counted;
  }
  const since = () => ({ since: ids[0]!, until: ids[commits - 1]!, skip: 0 });
  const plan = async (reader: ReturnType<typeof changesReader>, by: Payer) =>
    (await reader(since(), by)).plan();

  test("is paid for as it is done, and not again while its result is kept", async () => {
    const reader = changesReader(catalog);
    const [first, second] = [payer(), payer()];
    const { count } = await plan(reader, first);
    expect(count).toBe(40);
    expect(first.paid).toBe(3);
    expect((await plan(reader, second)).count).toBe(count);
    expect(second.paid).toBe(0);
  });

  test("ends when its client leaves or cannot pay, and whoever else waits goes on himself", async () => {
    const reader = changesReader(catalog);
    await expect(plan(reader, payer({ has: 1 }))).rejects.toThrow("no units left");
    const [leaving, staying] = [payer({ leaves: 1 }), payer()];
    const [left, stayed] = await Promise.allSettled([plan(reader, leaving), plan(reader, staying)]);
    expect([left!.status, stayed!.status]).toEqual(["rejected", "fulfilled"]);
    expect([leaving.paid, staying.paid]).toEqual([1, 3]);
    const gone = payer({ leaves: 0 });
    await expect(plan(changesReader(catalog), gone)).rejects.toThrow("nobody waits");
    expect(gone.paid).toBe(0);
  });

  test("reads records and parts side by side, and leaves connections for others", async () => {
    const [turn, reads] = [promisify(setImmediate), { underway: 0, most: 0 }];
    const watched = aroundCalls(store, async (work, { key }) => {
      if (!key.startsWith(layout.changePart.prefix)) return work();
      reads.underway += 1;
      reads.most = Math.max(reads.most, reads.underway);
      await turn();
      reads.underway -= 1;
      return work();
    });
    const reading = new Catalog(watched, { cacheBytes: 2 ** 22 });
    await reading.refresh();
    expect((await plan(changesReader(reading), payer())).count).toBe(40);
    expect(reads).toEqual({ underway: 0, most: 16 });
  });

  describe("with a record that was forged", () => {
    /** Two snapshots and a record between them that says so many lines more. */
    async function forged(more: number) {
      const objects = new Map<string, Buffer>();
      const reading = countingStorage(memoryStorage(objects));
      for (const n of [0, 1]) await publishRecords(reading, recordsOf(n, n + 20));
      const { changes } = (await readCommit(reading, 2))!;
      const record: ChangeRecord = JSON.parse(String(objects.get(layout.changeRecord(changes!.hash))));
      // Each side has one line.
      record.after[0]!.lines += more;
      const bytes = Buffer.from(JSON.stringify(record));
      const ref = { hash: sha256(bytes), bytes: bytes.length };
      objects.set(layout.changeRecord(ref.hash), bytes);
      replaceCommit(objects, { changes: ref });
      const catalog = new Catalog(reading, { cacheBytes: 2 ** 22 });
      await catalog.refresh();
      reading.calls.length = 0;
      const part = layout.changePart(record.after[0]!.hash);
      const isRead = (prefix: string) => reading.calls.some(({ key }) => key.startsWith(prefix));
      const [until, since] = (await catalog.log.believed()).map(({ snapshotId }) => snapshotId);
      const planned = async () =>
        (await changesReader(catalog)({ since: since!, until, skip: 0 }, payer())).plan();
      return { planned, partRead: () => isRead(part), pagesRead: () => isRead(layout.page.prefix) };
    }

    test.for([
      ["a line more than there is", 1, true],
      ["as many lines as an answer may have", 2_499_998, true],
      ["more lines than an answer may have", 2_499_999, false],
    ] as const)("to have %s is done with the snapshots themselves", async ([, more, looked]) => {
      const { planned, partRead, pagesRead } = await forged(more);
      expect((await planned()).count).toBe(2);
      expect([partRead(), pagesRead()]).toEqual([looked, true]);
    });

    test("ends where both of these together have more that differs than an answer may have", async () => {
      const { planned } = await forged(1);
      // The market that one side has more stands for half of what is too much.
      const add = vi.spyOn(Entries.prototype, "add").mockImplementation(function (this: Entries) {
        this.size += 1_250_001;
      });
      onTestFinished(() => add.mockRestore());
      await expect(planned()).rejects.toMatchObject({ code: "SNAPSHOT_EXPIRED" });
    });
  });
});
