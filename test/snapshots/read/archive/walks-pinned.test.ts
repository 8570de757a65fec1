import { afterEach, describe, expect, test } from "vitest";
import type { HistoricalMarket } from "../../../../schemas/records.ts";
import type { Storage } from "../../../../snapshots/store/storage.ts";
import { plainFilter } from "../../../helpers/archive/plain-filter.ts";
import { idsOf } from "../../../helpers/archive/walk.ts";
import { type ArchiveProxy, type Query, startArchiveProxy } from "../../../helpers/http/archive-proxy.ts";
import { inArchiveOrder, publishRecords, recordsOf } from "../../../helpers/publish/records.ts";
import { memoryStorage } from "../../../helpers/store/storages.ts";

const running = new Set<ArchiveProxy>();
const newStore = () => memoryStorage(new Map());

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
