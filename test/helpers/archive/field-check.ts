import { expect, test } from "vitest";
import { layout } from "../../../snapshots/store/layout.ts";
import type { ServedArchive } from "../http/archive-served.ts";
import { sourceScores } from "./source-rows.ts";

/** Defines the tests that what is served equals the sources, row by row and field by field. */
export function testFields(served: ServedArchive): void {
  test("every market equals its source row in every field, and there are no others", async () => {
    const expected = await served.expected();
    expect(served.markets.length).toBe(expected.length);
    // As text: that compares the order of members too.
    served.markets.forEach((market, place) => {
      const [shown, source] = [JSON.stringify(market), JSON.stringify(expected[place])];
      if (shown !== source) expect(market).toEqual(expected[place]);
      expect(shown).toBe(source);
    });
  });

  test("every score record equals the newest source row of its slug in every field", async () => {
    const expected = await sourceScores(served.directory);
    const { records } = served.proxy.catalog.current()!.manifest.scores;
    expect(Object.keys(records).sort()).toEqual([...expected.keys()].sort());
    for (const [slug, source] of expected) {
      const stored = await served.storage.get(layout.stableScore(slug));
      expect(JSON.stringify(JSON.parse(String(stored)))).toBe(JSON.stringify(source));
    }
  });
}
