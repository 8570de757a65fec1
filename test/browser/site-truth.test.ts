import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { forgeTiers } from "../../schemas/scales.ts";
import { findChromium, launch } from "../helpers/chromium.ts";
import { startTestProxy, type TestProxy } from "../helpers/proxy.ts";
import { enterKey, openWatched, phone } from "../helpers/site-page.ts";

const program = findChromium();

describe.skipIf(!program)("what the site draws is true:", () => {
  let proxy: TestProxy;
  let key: string;
  let browser: Browser;
  beforeAll(async () => {
    proxy = await startTestProxy();
    key = await proxy.issue();
    browser = await launch(program!);
  });
  afterAll(async () => {
    await browser?.close();
    await proxy?.stop();
  });

  const home = () => `http://127.0.0.1:${proxy.port}/`;

  /** Makes every answer with counts by tier say these, lowest tier first, and one share at all scores. */
  const countTiers = (page: Page, tiers: readonly (readonly [count: number, disputed: number])[]) =>
    page.route("**/markets/facets?*", async (route) => {
      const response = await route.fetch();
      const json = await response.json();
      const buckets = forgeTiers.map((value, place) => {
        const [count = 0, disputed = 0] = tiers[place] ?? [];
        return { value, count, disputed };
      });
      for (const bucket of json.facets?.composite?.buckets ?? [])
        Object.assign(bucket, { count: 1000, disputed: 16 });
      if (json.facets?.tier) json.facets.tier = { ...json.facets.tier, distinct: 7, buckets };
      await route.fulfill({ response, json });
    });

  test("every share of disputed markets has its dot on the axis, or an arrow with its number", async () => {
    const { page, context, faults } = await openWatched(browser, `${home()}#/archive?show=score`, phone);
    // Of few markets nothing can be said; a dot of theirs would press all others to the floor.
    await countTiers(page, [
      [1, 1],
      [5000, 100],
      [5000, 90],
      [5000, 80],
      [5000, 70],
      [5000, 60],
      [63, 3],
    ]);
    await enterKey(page, key);
    const chart = page.locator(".shares:has(h3:text-is('By tier')) .chart");
    await chart.waitFor();
    expect(await chart.locator("g").count()).toBe(7);
    expect(await chart.locator("g circle").count()).toBe(6);
    const [top, ...dots] = await chart.locator(".grid, circle").evaluateAll((all) => [
      Math.min(
        ...all.flatMap((each) => {
          const [, y] = /^M[\d.]+ ([\d.]+)H/.exec(each.getAttribute("d") ?? "") ?? [];
          return y === undefined ? [] : [Number(y)];
        }),
      ),
      ...all.flatMap((each) => (each.hasAttribute("cy") ? [Number(each.getAttribute("cy"))] : [])),
    ]);
    expect(dots).toHaveLength(6);
    expect(Math.min(...dots)).toBeGreaterThanOrEqual(top!);
    expect(await chart.locator("g:has(.beyond) text").allTextContents()).toEqual(["100 %"]);
    expect(faults).toEqual([]);
    await context.close();
  });
});
