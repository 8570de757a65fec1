import { expect, test } from "vitest";
import { MarketPage } from "../../../schemas/envelopes.ts";
import type { ServedArchive } from "../http/archive-served.ts";
import { sourceMarkets } from "./archive-source-rows.ts";
import { cursorWalk, idsOf, pageWalk } from "./archive-walk.ts";

/** Defines the tests that every walk shows the whole archive once, in its order. */
export function testWalks(served: ServedArchive, pageSizes: { cursor: number[]; page: number[] }): void {
  const cases = [
    ...pageSizes.cursor.map((pageSize) => ({ name: "cursor", walk: cursorWalk, pageSize })),
    ...pageSizes.page.map((pageSize) => ({ name: "page", walk: pageWalk, pageSize })),
  ];

  test.for(cases)("a $name walk at pageSize $pageSize shows every market once, in order", async (how) => {
    const { pageSize } = how;
    const expected = await sourceIds(served);
    const total = expected.length;
    let shown = 0;
    let number = 0;
    for await (const page of how.walk(served.proxy, { pageSize })) {
      number += 1;
      const ids = expected.slice(shown, shown + pageSize);
      const { markets: _, nextCursor, timestamp: __, ...numbers } = MarketPage.parse(page);
      expect(numbers).toEqual({
        version: "bri-pm-v1",
        tier: "enterprise",
        count: ids.length,
        total,
        page: number,
        pageSize,
      });
      expect(idsOf(page).join()).toBe(ids.join());
      shown += ids.length;
      expect(nextCursor === null).toBe(shown === total);
    }
    expect(shown).toBe(total);
  });
}

const known = new WeakMap<ServedArchive, Promise<string[]>>();

/** Ids of the sources in the archive's order. */
function sourceIds(served: ServedArchive): Promise<string[]> {
  const ids = known.get(served) ?? sourceMarkets(served.directory).then((rows) => rows.map((row) => row.id));
  known.set(served, ids);
  return ids;
}
