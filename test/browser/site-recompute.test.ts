import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { verifierText } from "../../snapshots/trust/notes/note-keys.ts";
import { startTestProxy } from "../helpers/http/proxy.ts";
import { until } from "../helpers/http/proxy-client.ts";
import { market, publishRecords } from "../helpers/publish/records.ts";
import { findChromium } from "../helpers/servers/chromium.ts";
import { enterKey, focusIsOn, openWatched, settled } from "../helpers/servers/site-page.ts";
import { serveSite } from "../helpers/servers/site-served.ts";
import { testKey } from "../helpers/store/signing.ts";

const program = findChromium();

describe.skipIf(!program)("the archive recomputed in Chromium", () => {
  const site = serveSite();

  /** The archive with a key, once its markets and counts are there. */
  async function openArchive(query: string, at = site.home, by = site.aegis) {
    const watched = await openWatched(site.browser, `${at}#/archive${query}`);
    await enterKey(watched.page, by);
    await settled(watched.page);
    return watched;
  }

  async function recompute(page: Page, trust = ""): Promise<void> {
    if (!(await page.isVisible("#trust"))) await page.click("text=Recompute here");
    await page.fill("#trust", trust);
    await page.click("text=Fetch and recompute");
  }

  async function recomputed(page: Page, trust = ""): Promise<void> {
    await recompute(page, trust);
    await page.waitForSelector(".count.recomputed");
    await settled(page);
  }

  /** Every number of markets that the page shows, except in the list. */
  const figures = async (page: Page) => ({
    total: await page.textContent("main .count"),
    counts: await page.locator(".choices a, .columns-chart title, .facet-head").allTextContents(),
    shares: await page.locator(".verdict, .shares td").allTextContents(),
  });
  const marked = (page: Page) => page.locator(".recomputed").count();
  const askedOf = (asked: readonly string[]) => asked.filter((address) => address.includes("/markets/"));

  /** Leads to another query, and waits until its answers are there. */
  async function go(page: Page, query: string): Promise<void> {
    await page.evaluate(`new Promise((resolve) => {
      const side = document.querySelector(".side");
      const ended = new MutationObserver(() => side.hasAttribute("aria-busy") || resolve(ended.disconnect()));
      ended.observe(side, { attributeFilter: ["aria-busy"] });
      location.hash = ${JSON.stringify(`#/archive${query}`)};
    })`);
    await settled(page);
  }

  test("numbers are those of the service under any filter, and ask it for nothing", async () => {
    const queries = [
      "",
      "?tier=TEMPERED,FORGED&min_composite=600",
      "?disputed=true&max_informed=70&show=score",
      "?category=politics&from=2025-06-10&to=2025-11-03&min_oracle=10",
      "?show=score&compare=bri-pm-v1&compare=bri-pm-v2",
      "?q=finis*+ahead&outcome=Yes",
      "?min_composite=990",
    ];
    const watched = await openArchive("?show=file");
    const { page, asked } = watched;
    const served = [];
    for (const query of queries) {
      await go(page, query);
      served.push(await figures(page));
    }
    expect(new Set(served.map(({ total }) => total)).size).toBeGreaterThan(4);
    await recomputed(page);
    expect(await page.textContent(".recomputing")).toMatch(
      /Fetched\d+ kB in \d requests?Vouched for bynobody but/,
    );
    expect(watched.faults).toEqual([]);
    const before = asked.length;
    for (const [place, query] of queries.entries()) {
      await go(page, query);
      expect(await figures(page)).toEqual(served[place]);
      expect(await page.locator(".facet.recomputed").count()).toBe(await page.locator(".facet").count());
    }
    // Lists are asked for, with the hashes that prove them, and once the words of the questions.
    const paths = askedOf(asked.slice(before)).map((address) => new URL(address).pathname);
    expect(new Set(paths)).toEqual(new Set(["/api/v1/markets/historical", "/api/v1/markets/index/sections"]));
    expect(watched.faults).toEqual([]);

    // What was fetched is kept while the reader looks elsewhere, and left on demand.
    await page.click("nav >> text=Scores");
    await page.waitForSelector(".board tbody tr");
    await page.goBack();
    await page.waitForSelector(".count.recomputed");
    await settled(page);
    await page.click("#recompute");
    await page.click("text=Show the service’s numbers again");
    await page.waitForSelector(".recomputed", { state: "detached" });
    await settled(page);
    expect(await figures(page)).toEqual(served.at(-1));
    await watched.context.close();
  });

  test("a brush draws what it would lead to as it moves, and asks nobody", async () => {
    const { page, asked, context, faults } = await openArchive("?show=score");
    await recomputed(page);
    await page.click(".recomputing >> text=Close");
    const all = await figures(page);
    const { x, y, width, height } = (await page
      .locator("section:has(> .range #min_composite) .columns-chart")
      .boundingBox())!;
    const at = (column: number) => page.mouse.move(x + ((column + 0.5) / 14) * width, y + height / 2);
    const before = asked.length;
    await at(6);
    await page.mouse.down();
    await at(9);
    const { total } = await site.markets("min_composite=600&max_composite=799");
    const words = `${total.toLocaleString("en")} markets match`;
    await expect.poll(() => page.textContent("main .count")).toBe(words);
    const months = await site.api("markets/facets?by=month&min_composite=600&max_composite=799");
    const { value, count } = months.facets.month.buckets[0];
    await expect
      .poll(() => page.locator(".months .columns-chart title").first().textContent())
      .toBe(`${value}: ${count} markets`);
    // Back to a single column, and to none: Chromium takes the pointer away where it becomes a scroll.
    await at(6);
    const one = await site.markets("min_composite=600&max_composite=649");
    await expect.poll(() => page.textContent("main .count")).toBe(`${one.total} markets match`);
    await page.locator("section:has(> .range #min_composite) .columns-chart").dispatchEvent("pointercancel");
    await expect.poll(() => figures(page)).toEqual(all);
    await page.mouse.up();
    await at(6);
    await page.mouse.down();
    await at(9);
    await page.mouse.up();
    await expect.poll(() => page.inputValue("#max_composite")).toBe("799");
    await settled(page);
    expect(await page.textContent("main .count")).toBe(words);
    expect(askedOf(asked.slice(before))).toEqual([]);
    expect(faults).toEqual([]);
    await context.close();
  });

  /** Changes a byte of what is served of the index from now on. */
  const tamper = (page: Page) =>
    page.route("**/markets/index/sections?*", async (route) => {
      const response = await route.fetch();
      const body = await response.body();
      body[Math.floor(body.length / 2)]! ^= 1;
      await route.fulfill({ response, body });
    });

  test("a byte that was changed is refused, named and shown, and nothing is marked", async () => {
    const { page, context, faults } = await openArchive("");
    const before = await figures(page);
    await tamper(page);
    await recompute(page);
    const failure = page.locator(".recomputing .failure");
    expect(await failure.textContent()).toMatch(/of segment \d+ has the hash/);
    expect(await page.textContent(".recomputing")).toContain("No number of this page is verified.");
    expect(await focusIsOn(page, "#recompute")).toBe(true);
    expect(await marked(page)).toBe(0);
    expect(await figures(page)).toEqual(before);

    await page.unroute("**/markets/index/sections?*");
    await recomputed(page);
    expect(await page.locator(".failure").count()).toBe(0);
    // Words are fetched later. When they are wrong, no number stays.
    await tamper(page);
    await page.fill("#q", "finish");
    await page.waitForSelector(".problem .failure");
    expect(await failure.textContent()).toMatch(/The words of segment \d+ has the hash/);
    expect(await marked(page)).toBe(0);
    expect(await page.locator(".market, .count b, .tally, .columns-chart").count()).toBe(0);
    await page.click(".problem >> text=Try again");
    await settled(page);
    expect(await marked(page)).toBe(0);
    expect(faults).toEqual([]);
    await context.close();
  });

  test("a list that is longer than what was counted is refused", async () => {
    const { page, context } = await openArchive("");
    await recomputed(page);
    await page.route("**/markets/historical?*", async (route) => {
      const response = await route.fetch();
      const json = await response.json();
      await route.fulfill({ response, json: { ...json, total: json.total + 1 } });
    });
    await page.click(".choices a:has-text('TEMPERED')");
    await page.waitForSelector(".problem .failure");
    expect(await page.textContent(".problem .failure")).toContain("markets are said to match");
    expect(await marked(page)).toBe(0);
    // One that cannot be had is missed; the numbers stand.
    await page.unroute("**/markets/historical?*");
    await recomputed(page);
    await page.route("**/markets/historical?*", (route) => route.abort());
    await page.click(".choices a:has-text('FORGED')");
    await page.waitForSelector(".side .failure");
    const { total } = await site.markets("tier=FORGED,TEMPERED");
    expect(await page.textContent(".count.recomputed")).toBe(`${total.toLocaleString("en")} markets match`);
    await context.close();
  });

  test("a newer snapshot is offered anew, of which only what changed is fetched", async () => {
    const own = await startTestProxy({ empty: true });
    const signing = { key: testKey() };
    const records = (count: number) => Array.from({ length: count }, (_, index) => market(index));
    await publishRecords(own.storage, records(40), 700, { signing });
    await until("the proxy to be ready", async () => (await own.get("/readyz")).status === 200);
    const address = `http://127.0.0.1:${own.port}/`;
    const { page, context, asked, faults } = await openArchive("", address, await own.issue());
    const trust = verifierText(testKey());
    // A key that did not sign the log, and something that is none.
    await recompute(page, verifierText(testKey("prs.example/other")));
    await page.waitForSelector(".recomputing .failure >> text=None of the keys signed");
    await recompute(page, "key");
    await page.waitForSelector("#trust[aria-invalid]");
    await recomputed(page, trust);
    expect(await page.textContent(".recomputing")).toContain("Vouched for bythe signature of the key");
    expect(await page.textContent(".recomputing")).not.toContain("you entered no key");
    const hashes = () => asked.flatMap((each) => new URL(each).searchParams.get("of")?.split(",") ?? []);
    const first = hashes();
    expect(new Set(first).size).toBe(first.length);

    await publishRecords(own.storage, records(60), 600, { signing });
    await until(
      "the newer snapshot",
      async () => (await (await own.get("/api/v1/status")).json()).commit === 2,
    );
    await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))");
    await page.click("#news button");
    await expect.poll(() => page.textContent("main .count")).toBe("60 markets match");
    await settled(page);
    expect(await marked(page)).toBe(0);
    await page.click("text=Recompute here");
    expect(await page.textContent(".recomputing")).toContain("only what changed");
    // The key is still there.
    expect(await page.inputValue("#trust")).toBe(trust);
    await page.click("text=Fetch and recompute");
    await page.waitForSelector(".count.recomputed");
    expect(await page.textContent("main .count")).toBe("60 markets match");
    const all = hashes();
    expect(all.length).toBeGreaterThan(first.length);
    expect(new Set(all).size).toBe(all.length);
    expect(faults).toEqual([]);
    await context.close();
    await own.stop();
  });
});
