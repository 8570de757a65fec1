import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { rollback } from "../../snapshots/maintain/rollback.ts";
import { startTestProxy } from "../helpers/http/proxy.ts";
import { bearer, until } from "../helpers/http/proxy-client.ts";
import { publishArchive } from "../helpers/publish/records.ts";
import { findChromium } from "../helpers/servers/chromium.ts";
import { enterKey, openWatched, settled } from "../helpers/servers/site-page.ts";
import { choicesOf, serveSmallSite } from "../helpers/servers/site-served.ts";

const program = findChromium();

describe.skipIf(!program)("the site shows figures of what it says they are of:", () => {
  const site = serveSmallSite();

  /** The archive with a key, once its markets and counts are there. */
  async function openArchive(query: string, at = site.home, by = site.aegis) {
    const watched = await openWatched(site.browser, `${at}#/archive${query}`);
    await enterKey(watched.page, by);
    await settled(watched.page);
    return watched;
  }

  /** Everything that says a number of markets. */
  const figures = (page: Page) =>
    page
      .locator(".market, .count:not(:empty), .tally, .columns-chart, .facet-head .quiet:not(:empty), .pager")
      .allTextContents();

  const quotaUsedUp = {
    status: 429,
    contentType: "application/problem+json",
    headers: { "X-RateLimit-Limit": "100000", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "0" },
    body: JSON.stringify({ code: "QUOTA_EXCEEDED", title: "Quota exceeded", detail: "Wait.", status: 429 }),
  };

  test.each<[name: string, words: string, fail: (page: Page) => Promise<unknown>]>([
    [
      "the quota is used up",
      "Quota exceeded",
      (page) => page.route("**/markets/*", (route) => route.fulfill(quotaUsedUp)),
    ],
    [
      "the service has stopped",
      "cannot be reached",
      (page) => page.route("**/markets/*", (route) => route.abort("connectionrefused")),
    ],
    [
      "only the counts are refused",
      "Quota exceeded",
      (page) => page.route("**/markets/facets?*", (route) => route.fulfill(quotaUsedUp)),
    ],
  ])("when %s, no figure of another query is left, and a retry is in sight", async (_name, words, fail) => {
    const { page, context } = await openArchive("?pageSize=10");
    const before = await figures(page);
    expect(before.length).toBeGreaterThan(30);
    await fail(page);
    await page.click(".pager :text-is('Last')");
    const error = page.locator(".problem .failure");
    await error.waitFor();
    expect(await error.textContent()).toContain(words);
    expect(await figures(page)).toEqual([]);
    const { y } = (await error.locator("button").boundingBox())!;
    expect(y).toBeGreaterThan(0);
    expect(y).toBeLessThan(page.viewportSize()!.height);

    await page.unroute("**/markets/*");
    await page.unroute("**/markets/facets?*");
    await error.locator("button").click();
    await settled(page);
    expect(await page.locator(".failure").count()).toBe(0);
    expect(await page.textContent(".pager p")).toBe("Showing 31 to 40 of 40.");
    await context.close();
  });

  test("before the first snapshot there are no figures either", async () => {
    const { page, context } = await openArchive("");
    await page.goto(`${site.home}#/archive?asOf=2001-01-01`);
    await page.waitForSelector(".problem .failure");
    expect(await figures(page)).toEqual([]);
    await page.click("[data-key='remove asOf']");
    await settled(page);
    expect(await page.textContent(".count")).toBe("40 markets match");
    await context.close();
  });

  test("while the answers are under way, the figures of the query before are grey", async () => {
    const { page, context } = await openArchive("");
    const held = await holdCounts(page);
    await page.click(".choices a:has-text('Crypto')");
    await expect.poll(() => page.textContent(".count")).toBe("20 markets match");
    const opacity =
      await page.evaluate(`[...new Set([...document.querySelectorAll(".choices, .columns-frame")]
      .map((each) => getComputedStyle(each).opacity))]`);
    expect(opacity).toEqual(["0.5"]);
    held.release();
    await settled(page);
    await context.close();
  });

  /** Keeps answers with counts back until they are released or refused. */
  async function holdCounts(page: Page) {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    await page.route("**/markets/facets?*", async (route) =>
      (await promise) ? route.continue() : route.fulfill(quotaUsedUp),
    );
    return { release: () => resolve(true), refuse: () => resolve(false) };
  }

  test("a drag in a histogram goes on when the counts arrive meanwhile, and when they are refused", async () => {
    const { page, context } = await openArchive("");
    for (const end of ["release", "refuse"] as const) {
      const held = await holdCounts(page);
      await page.click(".choices a:has-text('Crypto')");
      await page.waitForSelector("[aria-busy]");
      const chart = page.locator("section:has(> .range #min_composite) .columns-chart");
      const { x, y, width, height } = (await chart.boundingBox())!;
      await page.mouse.move(x + (6.5 / 14) * width, y + height / 2);
      await page.mouse.down();
      held[end]();
      await page.waitForSelector("[aria-busy]", { state: "detached" });
      await page.mouse.move(x + (9.5 / 14) * width, y + height / 2, { steps: 3 });
      await page.mouse.up();
      await expect.poll(() => page.inputValue("#min_composite")).toBe("600");
      expect(await page.inputValue("#max_composite")).toBe("799");
      await page.unroute("**/markets/facets?*");
      await page.goto(`${site.home}#/archive`);
      await settled(page);
    }
    await context.close();
  });

  test("a walk stays with its snapshot when a newer one is published, which a bar offers", async () => {
    const own = await startTestProxy();
    const status = async () => (await own.get("/api/v1/status")).json();
    const { snapshotId: before } = await status();
    const address = `http://127.0.0.1:${own.port}/`;
    const aegis = await own.issue();
    const { page, context, asked, faults } = await openArchive("?pageSize=10", address, aegis);
    const footer = page.locator("footer code");
    const listed = async (query: string) => {
      const answer = await own.get(`/api/v1/markets/historical?${query}`, { headers: bearer(aegis) });
      return answer.json().markets.map(({ question }: { question: string }) => question);
    };
    const shown = () => page.locator(".question").allTextContents();
    expect(await footer.getAttribute("title")).toBe(before);
    expect(await page.locator("#news:not(:empty)").count()).toBe(0);

    await publishArchive(own.storage, { markets: 60, bri: 600 });
    await until("the newer snapshot", async () => (await status()).snapshotId !== before);
    const { snapshotId: after } = await status();
    for (const [word, number] of [
      ["Next", 2],
      ["Next", 3],
      ["Last", 4],
      ["First", 1],
    ] as const) {
      await page.click(`.pager :text-is('${word}')`);
      await expect.poll(shown).toEqual(await listed(`asOf=${before}&pageSize=10&page=${number}`));
      await settled(page);
      expect(await page.textContent(".count")).toBe("40 markets match");
      expect(await choicesOf(page, "category")).toEqual([
        ["Crypto", "20"],
        ["Politics", "20"],
      ]);
      expect(await footer.getAttribute("title")).toBe(before);
    }
    // The last page follows the third, too.
    expect(asked.filter((each) => each.includes("?cursor="))).toHaveLength(3);
    // What a market's page shows and proves is of the same snapshot.
    const [first = ""] = await shown();
    await page.click(".question");
    await page.click("text=Verify in this browser");
    await page.waitForSelector(".proven");
    expect([await page.textContent("h1"), await page.textContent(".chain code")]).toEqual([first, before]);
    await page.click("text=All markets");
    await settled(page);
    expect(await shown()).toEqual(await listed(`asOf=${before}&pageSize=10`));

    await page.click("#news button");
    await expect.poll(shown).toEqual(await listed("pageSize=10"));
    await settled(page);
    expect(await page.textContent(".count")).toBe("60 markets match");
    expect(await footer.getAttribute("title")).toBe(after);
    expect(await page.locator("#news:not(:empty)").count()).toBe(0);
    expect(faults).toEqual([]);
    await context.close();
    await own.stop();
  });

  test("an earlier state is chosen among those before the present one, says which it is, and leads back", async () => {
    const own = await startTestProxy();
    const status = async () => (await own.get("/api/v1/status")).json();
    const { snapshotId: before, publishedAt } = await status();
    await publishArchive(own.storage, { markets: 60, bri: 600 });
    await until("the newer snapshot", async () => (await status()).snapshotId !== before);
    const { snapshotId: after } = await status();
    const address = `http://127.0.0.1:${own.port}/`;
    const watched = await openWatched(site.browser, `${address}#/protocols/aave`);
    const { page, context, faults } = watched;
    const bri = async () => Number(await page.textContent(".bri b"));
    const footer = page.locator("footer > p:first-child");
    expect(await bri()).toBe(600);
    expect(await page.locator(".as-of").count()).toBe(0);
    await enterKey(page, await own.issue({ plan: "developer" }));
    await expect.poll(() => footer.textContent()).toContain("Snapshot ");
    const choose = async () => {
      await page.click("summary:has-text('As it was')");
      await page.waitForSelector("#as-of");
      const offered = await page
        .locator("#as-of option")
        .evaluateAll((all) => all.map((each) => each.getAttribute("value")));
      expect(offered).toEqual([before]);
      await page.click(".as-of >> text=/^Show$/");
      await page.waitForSelector(".state");
    };
    const time = `${publishedAt.slice(0, 10)} ${publishedAt.slice(11, 16)} UTC`;
    const said = `An earlier state: snapshot ${before.slice(0, 12)}, published ${time}.`;
    await choose();
    await expect.poll(bri).toBe(700);
    await expect.poll(() => page.textContent(".state")).toContain(said);
    expect(await page.textContent(".among p")).toContain("of 4");
    expect(await page.locator(".badge").count()).toBe(0);
    expect(await page.textContent(".as-of details")).toContain("No other earlier state can be read.");
    await expect.poll(() => footer.textContent()).toContain(`The present snapshot is ${after.slice(0, 12)}`);
    // As a link that somebody was sent, with all that a key adds.
    expect(page.url()).toBe(`${address}#/protocols/aave?asOf=${before}`);
    await page.reload();
    await page.waitForSelector("text=an earlier state, which needs a key of the Developer or Aegis plan");
    expect(await page.locator("main :is(svg, b)").count()).toBe(0);
    const asked = page.waitForRequest(`**/scores/aave/history?asOf=${before}`);
    await enterKey(page, await own.issue());
    await page.waitForSelector(`text=${said}`);
    await asked;
    expect(await bri()).toBe(700);
    expect(watched.faults).toEqual([]);
    await page.click("text=Show the present one");
    await expect.poll(bri).toBe(600);
    expect(await page.locator(".badge").count()).toBe(1);

    await page.click("nav >> text=Archive");
    await settled(page);
    expect(await page.textContent(".count")).toBe("60 markets match");
    await choose();
    await settled(page);
    await expect.poll(() => page.textContent(".count")).toBe("40 markets match");
    expect(await page.locator(".chosen a").allTextContents()).toEqual([
      `As of: snapshot ${before.slice(0, 12)} × (take away)`,
    ]);
    await page.click(".choices a:has-text('Politics')");
    await settled(page);
    await page.click("text=Show the present one");
    await settled(page);
    expect(new URL(page.url()).hash).toBe("#/archive?category=Politics");
    expect(await page.textContent(".count")).toBe("30 markets match");
    expect(faults).toEqual([]);
    await context.close();
    await own.stop();
  });

  test("when a rollback withdraws the snapshot of a walk, a retry takes the one that is served", async () => {
    const own = await startTestProxy();
    const served = async () => (await own.get("/api/v1/status")).json().commit;
    await publishArchive(own.storage, { markets: 60, bri: 600 });
    await until("the newer snapshot", async () => (await served()) === 2);
    const { page, context } = await openArchive(
      "?pageSize=10",
      `http://127.0.0.1:${own.port}/`,
      await own.issue(),
    );
    await rollback(own.storage, "1", () => new Date());
    await until("the rollback", async () => (await served()) === 3);
    await page.click(".pager :text-is('Next')");
    await page.click(".failure >> text=Try again");
    await settled(page);
    expect(await page.textContent(".pager p")).toBe("Showing 11 to 20 of 40.");
    expect(await page.locator("#news:not(:empty)").count()).toBe(0);
    await context.close();
    await own.stop();
  });

  test("an older snapshot of a process that is late is no news", async () => {
    const { page, context } = await openArchive("");
    const status = await (await site.proxy.get("/api/v1/status")).json();
    const late = { ...status, snapshotId: "0".repeat(64), commit: status.commit - 1 };
    await page.route("**/api/v1/status", (route) => route.fulfill({ json: late }));
    const asked = page.waitForResponse("**/api/v1/status");
    await page.click(".choices a:has-text('Crypto')");
    await asked;
    await settled(page);
    expect(await page.locator("#news:not(:empty)").count()).toBe(0);
    expect(await page.getAttribute("footer code", "title")).toBe(status.snapshotId);
    await context.close();
  });

  test("a reader who stays on a page hears of newer data within a minute", async () => {
    const own = await startTestProxy();
    const { page, context } = await openWatched(site.browser, "about:blank");
    await page.clock.install();
    await page.goto(`http://127.0.0.1:${own.port}/`);
    await page.waitForSelector("footer code");
    const before = await page.getAttribute("footer code", "title");
    await publishArchive(own.storage, { bri: 600 });
    const served = async () => (await own.get("/api/v1/status")).json().snapshotId;
    await until("the newer snapshot", async () => (await served()) !== before);
    await page.clock.runFor(61_000);
    await page.waitForSelector("#news button");
    await page.click("#news button");
    await page.waitForSelector("td[data-name=BRI] >> text=600");
    expect(await page.getAttribute("footer code", "title")).toBe(await served());
    await context.close();
    await own.stop();
  });

  test("scores that could not be loaded are asked for again where they are missing", async () => {
    const { page, context } = await openWatched(site.browser, `${site.home}#/archive`);
    await page.route("**/api/v1/scores*", (route) => route.abort());
    await page.click("nav >> text=Scores");
    await page.waitForSelector(".failure");
    await page.unroute("**/api/v1/scores*");
    await page.click("text=Try again");
    await page.waitForSelector(".board tbody tr");
    expect(await page.locator(".failure").count()).toBe(0);
    await context.close();
  });
});
