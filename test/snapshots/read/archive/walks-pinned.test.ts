import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import type { HistoricalMarket } from "../../../../schemas/records.ts";
import { directoryStorage } from "../../../../snapshots/store/backends/directory.ts";
import type { Storage } from "../../../../snapshots/store/storage.ts";
import { plainFilter } from "../../../helpers/archive/plain-filter.ts";
import { cursorWalk, idsOf } from "../../../helpers/archive/walk.ts";
import { type ArchiveProxy, type Query, startArchiveProxy } from "../../../helpers/http/archive-proxy.ts";
import { inArchiveOrder, publishRecords, recordsOf } from "../../../helpers/publish/records.ts";
import { describeStores } from "../../../helpers/store/stores.ts";
import { testFolder } from "../../../helpers/store/test-folder.ts";

const folder = testFolder();
const running = new Set<ArchiveProxy>();
let stores = 0;

function newStore(): Storage {
  stores += 1;
  return directoryStorage(join(folder, `store-${stores}`));
}

async function start(storage: Storage): Promise<ArchiveProxy> {
  const proxy = await startArchiveProxy(storage);
  running.add(proxy);
  return proxy;
}

async function stop(proxy: ArchiveProxy): Promise<void> {
  running.delete(proxy);
  await proxy.stop();
}

afterEach(async () => {
  for (const proxy of running) await stop(proxy);
});

/** Other content: markets gone, changed and added, at both ends and in between. */
function otherContent(markets: readonly HistoricalMarket[], round: number): HistoricalMarket[] {
  const kept = markets.filter((_, place) => place % 7 !== round % 7 && place > round % 3);
  const changed = kept.map((market, place) =>
    place % 5 === round % 5
      ? { ...market, composite: 300 + ((place + round) % 701), category: "Moved" }
      : market,
  );
  return [...changed, ...recordsOf(10_000 + round * 10, 10_010 + round * 10)];
}

describe("a walk keeps to the snapshot it began in", () => {
  test("while other content is published between every two of its pages", async () => {
    const storage = newStore();
    const markets = recordsOf(0, 135);
    const { snapshotId } = await publishRecords(storage, markets);
    const proxy = await start(storage);
    const queries: Query[] = [
      { pageSize: 5 },
      { pageSize: 4, category: "CRYPTO", min_oracle: 20 },
      { pageSize: 3, outcome: "No", disputed: "true", to: "2025-01-20" },
    ];
    const walks = queries.map((query) => ({
      expected: plainFilter(markets, query).map(({ id }) => id),
      pages: cursorWalk(proxy, query),
      seen: [] as string[],
      done: false,
    }));
    for (let round = 0; walks.some(({ done }) => !done); round += 1) {
      for (const walk of walks) {
        const { value: page, done = false } = await walk.pages.next();
        walk.done = done;
        if (!page) continue;
        expect(page.total).toBe(walk.expected.length);
        walk.seen.push(...idsOf(page));
      }
      await publishRecords(storage, otherContent(markets, round));
      await proxy.refresh();
      expect(proxy.catalog.current()?.commit.snapshotId).not.toBe(snapshotId);
    }
    for (const { seen, expected } of walks) expect(seen).toEqual(expected);
    // More snapshots than a proxy keeps in memory were published meanwhile.
    expect(proxy.catalog.current()?.commit.commit).toBeGreaterThan(26);
  });

  test("while its pages alternate between proxies, one polling late and one restarted", async () => {
    const storage = newStore();
    const markets = recordsOf(0, 240);
    await publishRecords(storage, markets);
    const late = await start(storage);
    let prompt = await start(storage);
    const content = otherContent(markets, 1);
    await publishRecords(storage, content);
    await prompt.refresh();
    // The walk begins in a snapshot that the late proxy has not taken up.
    let page = await prompt.page({ pageSize: 11, max_design: 80 });
    const expected = plainFilter(inArchiveOrder(content), { max_design: 80 }).map(({ id }) => id);
    const seen = idsOf(page);
    for (let round = 2; page.nextCursor !== null; round += 1) {
      await publishRecords(storage, otherContent(markets, round));
      if (round % 4 === 0) {
        await stop(prompt);
        prompt = await start(storage);
      } else await prompt.refresh();
      if (round === 15) await late.refresh();
      page = await (round % 2 ? prompt : late).page({ cursor: page.nextCursor });
      expect(page.total).toBe(expected.length);
      seen.push(...idsOf(page));
    }
    expect(seen).toEqual(expected);
    expect(late.catalog.current()?.commit.commit).toBe(16);
  });

  test("and says which snapshot that is", async () => {
    const storage = newStore();
    const first = await publishRecords(storage, recordsOf(0, 50));
    const proxy = await start(storage);
    const { nextCursor } = await proxy.page({ pageSize: 20 });
    const second = await publishRecords(storage, recordsOf(0, 60));
    await proxy.refresh();
    const ids = async (query: Query) => (await proxy.get(query)).headers["x-snapshot-id"];
    expect(await ids({ cursor: nextCursor! })).toBe(first.snapshotId);
    expect(await ids({ pageSize: 20 })).toBe(second.snapshotId);
  });

  test("which a page number does not", async () => {
    const storage = newStore();
    await publishRecords(storage, recordsOf(0, 50));
    const proxy = await start(storage);
    expect((await proxy.page({ page: 2, pageSize: 20 })).total).toBe(50);
    await publishRecords(storage, recordsOf(0, 60));
    expect((await proxy.page({ page: 2, pageSize: 20 })).total).toBe(50);
    await proxy.refresh();
    expect((await proxy.page({ page: 2, pageSize: 20 })).total).toBe(60);
  });
});

describeStores("a walk over a store in %s keeps to its snapshot", ({ newStore }) => {
  test("from its first page to its last", async () => {
    const storage = newStore();
    const contents = [recordsOf(0, 120), recordsOf(60, 200)];
    await publishRecords(storage, contents[0]!);
    const proxy = await start(storage);
    let page = await proxy.page({ pageSize: 30 });
    const seen = idsOf(page);
    for (let round = 1; page.nextCursor !== null; round += 1) {
      const report = await publishRecords(storage, contents[round % 2]!);
      expect(report.outcome).toBe("published");
      await proxy.refresh();
      page = await proxy.page({ cursor: page.nextCursor });
      expect(page.total).toBe(120);
      seen.push(...idsOf(page));
    }
    expect(seen).toEqual(contents[0]!.map(({ id }) => id));
  });
});
