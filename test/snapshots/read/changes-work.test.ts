import { beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import type { ChangeRecord } from "../../../schemas/store/snapshot.ts";
import type { Sides } from "../../../snapshots/changes/difference.ts";
import { Entries } from "../../../snapshots/changes/entries.ts";
import { atOnce } from "../../../snapshots/changes/sort.ts";
import { leafHash } from "../../../snapshots/format/tree.ts";
import { ObjectCache } from "../../../snapshots/read/catalog/caches.ts";
import { Catalog } from "../../../snapshots/read/catalog/catalog.ts";
import { netOf } from "../../../snapshots/read/changes/change-lines.ts";
import { PageTexts } from "../../../snapshots/read/changes/change-texts.ts";
import { ChangesReader } from "../../../snapshots/read/changes/changes.ts";
import type { Payer } from "../../../snapshots/read/changes/effort.ts";
import { SnapshotExpiredError } from "../../../snapshots/read/errors.ts";
import { layout, sha256 } from "../../../snapshots/store/layout.ts";
import { readCommit } from "../../../snapshots/store/log/commits.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import { publishRecords, recordsOf } from "../../helpers/publish/records.ts";
import { countingStorage, memoryStorage } from "../../helpers/store/storages.ts";
import { replaceCommit } from "../../helpers/store/tamper.ts";

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

const idOf = (number: number) => `00000000-0000-4000-8000-${String(number).padStart(12, "0")}`;

test("a large difference gives others their turn after every piece of it", async () => {
  const [removed, added] = [50_000, 30_000];
  const sides: Sides = { before: new Watched(), after: new Watched() };
  const leaf = leafHash(Buffer.from("{}"));
  for (let n = 0; n < removed; n += 1) sides.before.add({ id: idOf(n), resolvedAt: n }, leaf);
  for (let n = 0; n < added; n += 1) sides.after.add({ id: idOf(removed + n), resolvedAt: n }, leaf, n);
  const objects = new ObjectCache(memoryStorage(new Map()), 1000);
  const net = await netOf(sides, new PageTexts(objects), async () => {
    Watched.since = 0;
  });
  expect([net.deletes.length / 4, net.puts.length]).toEqual([removed, added]);
  expect([net.puts[0], net.puts[added - 1]]).toEqual([added - 1, 0]);
  expect(Watched.most).toBe(atOnce);
  // A fifth of what strings took, so that larger ones are kept for whoever asks again.
  expect(net.bytes).toBeLessThan(17 * removed + 5 * added);
});

test("a page is held once, however many of its markets differ", () => {
  const texts = new PageTexts(new ObjectCache(memoryStorage(new Map()), 1000));
  const pages = ["a", "b", "c"].map((hash) => ({ markets: 2, hash, bytes: 1, runs: [] }));
  expect(pages.flatMap((page) => [texts.add(page), texts.add(page)])).toEqual([0, 0, 1, 1, 2, 2]);
  expect(texts.bytes).toBe(3 * 4000);
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
  const plan = async (reader: ChangesReader, by: Payer) => (await reader.ask(since(), by)).plan();

  test("is paid for as it is done, and not again while its result is kept", async () => {
    const reader = new ChangesReader(catalog);
    const [first, second] = [payer(), payer()];
    const { count } = await plan(reader, first);
    expect(count).toBe(40);
    expect(first.paid).toBe(3);
    expect((await plan(reader, second)).count).toBe(count);
    expect(second.paid).toBe(0);
  });

  test("ends when its client leaves or cannot pay, and whoever else waits goes on himself", async () => {
    const reader = new ChangesReader(catalog);
    await expect(plan(reader, payer({ has: 1 }))).rejects.toThrow("no units left");
    const [leaving, staying] = [payer({ leaves: 1 }), payer()];
    const [left, stayed] = await Promise.allSettled([plan(reader, leaving), plan(reader, staying)]);
    expect([left!.status, stayed!.status]).toEqual(["rejected", "fulfilled"]);
    expect([leaving.paid, staying.paid]).toEqual([1, 3]);
    const gone = payer({ leaves: 0 });
    await expect(plan(new ChangesReader(catalog), gone)).rejects.toThrow("nobody waits");
    expect(gone.paid).toBe(0);
  });

  describe("with a record whose parts have other numbers of lines than it says", () => {
    const objects = new Map<string, Buffer>();
    const reading = countingStorage(memoryStorage(objects));
    let forged: Catalog;
    beforeAll(async () => {
      for (const n of [0, 1]) await publishRecords(reading, recordsOf(n, n + 20));
      const { changes } = (await readCommit(reading, 2))!;
      const record: ChangeRecord = JSON.parse(String(objects.get(layout.changeRecord(changes!.hash))));
      for (const part of record.after) part.lines += 1;
      const bytes = Buffer.from(JSON.stringify(record));
      const ref = { hash: sha256(bytes), bytes: bytes.length };
      objects.set(layout.changeRecord(ref.hash), bytes);
      replaceCommit(objects, { changes: ref });
      forged = new Catalog(reading, { cacheBytes: 2 ** 22 });
      await forged.refresh();
      reading.calls.length = 0;
    });
    async function planForged() {
      const [until, since] = (await forged.log.believed()).map(({ snapshotId }) => snapshotId);
      return (await new ChangesReader(forged).ask({ since: since!, until, skip: 0 }, payer())).plan();
    }

    test("is done with the snapshots themselves", async () => {
      expect((await planForged()).count).toBe(2);
      expect(reading.calls.some(({ key }) => key.startsWith(layout.pages))).toBe(true);
    });

    test("ends where both of these together have more that differs than an answer may have", async () => {
      // The market that one side has more stands for half of what is too much.
      const add = vi.spyOn(Entries.prototype, "add").mockImplementation(function (this: Entries) {
        this.size += 1_250_001;
      });
      onTestFinished(() => add.mockRestore());
      await expect(planForged()).rejects.toThrow(SnapshotExpiredError);
    });
  });
});
