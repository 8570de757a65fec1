import { describe, expect, test } from "vitest";
import { archiveParameters } from "../../schemas/query.ts";
import { findChromium } from "../helpers/chromium.ts";
import { enterKey, focusIsOn, openWatched, tabTo } from "../helpers/site-page.ts";
import { asRow, expectListed, protocols, rowsOf, serveSite } from "../helpers/site-served.ts";

const program = findChromium();

describe.skipIf(!program)("the site", () => {
  const site = serveSite();

  test("the scoreboard's filters stand in its address, and work from there", async () => {
    const wanted = (await site.scores())
      .filter(({ forgeScale }) => ["CAST", "MITHRIL"].includes(forgeScale))
      .sort((a, b) => a.confidence - b.confidence || (a.slug < b.slug ? -1 : 1));
    const { chain } = wanted[0]!;
    const rows = wanted.filter((entry) => entry.chain === chain).map(asRow);
    const { page, context, faults } = await openWatched(site.browser, site.home);
    await page.fill("#filter", chain);
    for (const tier of ["MITHRIL", "CAST"]) await page.click(`.chip:has-text("${tier}")`);
    for (const _ of ["down", "up"]) await page.click("th button:has-text('Confidence')");
    const address = `${site.home}#/?${new URLSearchParams({ find: chain, tier: "CAST,MITHRIL", sort: "Confidence" })}`;
    const expectShown = async () => {
      // The page before it has a table too.
      const shown = async () => [page.url(), await rowsOf(page)];
      await expect.poll(shown, { timeout: 60_000 }).toEqual([address, rows]);
    };
    await expectShown();
    // As a link that somebody was sent, after the way back from a protocol, and by that page's link.
    await page.goto("about:blank");
    await page.goto(address);
    await expectShown();
    expect(await page.inputValue("#filter")).toBe(chain);
    await page.click("tbody a");
    await page.click("text=All scores");
    await expectShown();
    await page.goBack();
    await page.waitForSelector(".dimensions");
    await page.goBack();
    await expectShown();
    await page.click("nav >> text=Scores");
    await page.waitForSelector(`text=${protocols} of ${protocols}`);
    expect(await page.locator("[aria-pressed=true]").count()).toBe(0);
    expect(faults).toEqual([]);
    await context.close();
  });

  test("a page past the end leads back", async () => {
    const { page, context, faults } = await openWatched(
      site.browser,
      `${site.home}#/archive?page=999&pageSize=500`,
    );
    await enterKey(page, site.aegis);
    await page.waitForSelector("text=Showing none of 2,000.");
    await page.click(".pager :text-is('Previous')");
    await expectListed(page, await site.markets("page=4&pageSize=500"));
    expect(faults).toEqual([]);
    await context.close();
  });

  test("has a field for every filter of the archive", async () => {
    const { page, context } = await openWatched(site.browser, `${site.home}#/archive`);
    await enterKey(page, site.aegis);
    await page.waitForSelector(".market");
    const names = archiveParameters
      .map(({ name }) => name)
      .filter((name) => !["page", "cursor", "skip"].includes(name));
    const fields = await page
      .locator(".filters :is(input, select)")
      .evaluateAll((all) => all.map(({ id }) => id));
    expect(fields.sort()).toEqual(names.sort());
    const labels = page.locator(".filters label");
    expect(new Set(await labels.allTextContents()).size).toBe(names.length);
    await context.close();
  });

  test("can be used from the keyboard alone", async () => {
    const { page, context, faults } = await openWatched(site.browser, site.home);
    await page.waitForSelector("tbody tr");
    await page.keyboard.press("Tab");
    expect(await focusIsOn(page, ".skip")).toBe(true);
    await page.keyboard.press("Enter");
    expect(await focusIsOn(page, "main")).toBe(true);
    await tabTo(page, "#filter");
    await page.keyboard.type("bridge");
    await tabTo(page, ".chip");
    await page.keyboard.press("Space");
    await page.keyboard.press("Space");
    await tabTo(page, "th:nth-child(4) button");
    await page.keyboard.press("Enter");
    expect(await page.getAttribute("th:nth-child(4)", "aria-sort")).toBe("descending");
    await tabTo(page, "tbody a");
    await page.keyboard.press("Enter");
    await page.waitForSelector(".dimensions");
    expect(await focusIsOn(page, "h1")).toBe(true);
    await tabTo(page, "main button");
    await page.keyboard.press("Enter");
    expect(await focusIsOn(page, "#key")).toBe(true);
    await page.keyboard.type(site.aegis);
    await page.keyboard.press("Enter");
    await page.waitForSelector(".chart");
    expect(await focusIsOn(page, "button:not([hidden])")).toBe(true);
    for (let presses = 0; !(await focusIsOn(page, "nav a:nth-child(2)")); presses += 1) {
      expect(presses).toBeLessThan(20);
      await page.keyboard.press("Shift+Tab");
    }
    await page.keyboard.press("Enter");
    await page.waitForSelector(".market");
    await tabTo(page, "#outcome");
    await page.keyboard.type("Yes");
    await page.keyboard.press("Enter");
    await expectListed(page, await site.markets("outcome=Yes&pageSize=25"));
    expect(await focusIsOn(page, "#results")).toBe(true);
    await tabTo(page, ".question");
    await page.keyboard.press("Enter");
    expect(await page.locator(".signals > li").count()).toBe(6);
    await tabTo(page, ".pager a");
    await page.keyboard.press("Enter");
    await expectListed(page, await site.markets("outcome=Yes&pageSize=25&page=2"));
    expect(faults).toEqual([]);
    await context.close();
  });
});
