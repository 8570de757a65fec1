import type { Page, Route } from "playwright-core";
import { describe, expect, onTestFinished, test } from "vitest";
import { rollback } from "../../snapshots/maintain/rollback.ts";
import { takenUp } from "../helpers/http/live-feed.ts";
import { startTestProxy, type TestProxy } from "../helpers/http/proxy.ts";
import { bearer, until } from "../helpers/http/proxy-client.ts";
import { publishArchive } from "../helpers/publish/records.ts";
import { findChromium } from "../helpers/servers/chromium.ts";
import { serveSmallSite } from "../helpers/servers/site-served.ts";
import { idle } from "./pages/look.ts";
import { visit } from "./pages/visit.ts";

const program = findChromium();

describe.skipIf(!program)("the site shows figures of what it says they are of:", () => {
  const site = serveSmallSite();

  const statusOf = async (proxy: TestProxy) => (await proxy.get("/api/v1/status")).json();

  /** A store and service of a test's own, where newer data can be published. */
  async function ownSite() {
    const proxy = await startTestProxy();
    onTestFinished(() => proxy.stop());
    const status = () => statusOf(proxy);
    const first = await status();
    return {
      ...{ proxy, status, first, browser: site.browser, home: `http://127.0.0.1:${proxy.port}/` },
      /** Publishes 60 markets in place of 40, and a BRI of 600 in place of 700. */
      publishNewer: async () => {
        const { snapshotId } = await publishArchive(proxy.storage, { markets: 60, bri: 600 });
        await takenUp(proxy, snapshotId);
        return snapshotId;
      },
    };
  }

  const counts = "**/markets/facets?*";
  const markets = "**/markets/*";
  const quotaUsedUp = {
    status: 429,
    contentType: "application/problem+json",
    headers: { "X-RateLimit-Limit": "100000", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "0" },
    body: JSON.stringify({ code: "QUOTA_EXCEEDED", title: "Quota exceeded", detail: "Wait.", status: 429 }),
  };

  const refuse = (route: Route) => route.fulfill(quotaUsedUp);
  const abort = (route: Route) => route.abort("connectionrefused");
  test.each<[name: string, words: string, addresses: string, fail: (route: Route) => Promise<void>]>([
    ["the quota is used up", "Quota exceeded", markets, refuse],
    ["the service has stopped", "cannot be reached", markets, abort],
    ["only the counts are refused", "Quota exceeded", counts, refuse],
  ])(
    "when %s, no figure of another query is left, and a retry is in sight",
    async (_, words, addresses, fail) => {
      const { page, archive, shell } = await visit(site, "#/archive?pageSize=10", {
        key: site.aegis,
        faulty: true,
      });
      expect((await archive.figures()).length).toBeGreaterThan(30);
      await page.route(addresses, fail);
      await archive.turn("Last");
      await archive.problem.waitFor();
      expect(await archive.problem.textContent()).toContain(words);
      expect(await archive.figures()).toEqual([]);
      const { y } = (await shell.tryAgain.boundingBox())!;
      expect(y).toBeGreaterThan(0);
      expect(y).toBeLessThan(page.viewportSize()!.height);

      await page.unrouteAll();
      await shell.tryAgain.click();
      await archive.settled();
      expect(await archive.failures.count()).toBe(0);
      expect(await archive.range.textContent()).toBe("Showing 31 to 40 of 40.");
    },
  );

  /** Keeps answers with counts back until they are released or refused. */
  async function holdCounts(page: Page) {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    await page.route(counts, async (route) =>
      (await promise) ? route.continue() : route.fulfill(quotaUsedUp),
    );
    return { release: () => resolve(true), refuse: () => resolve(false) };
  }

  test("while the answers are under way, the figures of the query before are grey", async () => {
    const { page, archive } = await visit(site, "#/archive", { key: site.aegis });
    const held = await holdCounts(page);
    await archive.choice("category", "Crypto").click();
    await expect.poll(() => archive.count.textContent()).toBe("20 markets match");
    expect(await archive.opacity()).toEqual(["0.5"]);
    held.release();
    await archive.settled();
  });

  test.each(["release", "refuse"] as const)(
    "a drag in a histogram goes on when the counts arrive meanwhile, and when they are refused: %s",
    async (end) => {
      const { page, archive } = await visit(site, "#/archive", { key: site.aegis, faulty: true });
      const composite = archive.histogram("min_composite");
      const held = await holdCounts(page);
      await archive.choice("category", "Crypto").click();
      await page.waitForSelector("[aria-busy]");
      await composite.press(6);
      held[end]();
      await idle(page);
      await composite.reach(9, 3);
      await composite.release();
      await expect.poll(() => archive.field("min_composite").inputValue()).toBe("600");
      expect(await archive.field("max_composite").inputValue()).toBe("799");
    },
  );

  test("a walk stays with its snapshot until a reader takes a newer one, an earlier one, or the one left by a rollback", async () => {
    const own = await ownSite();
    const key = await own.proxy.issue();
    const reader = await visit(own, "#/archive?pageSize=10", { key, faulty: true });
    const { asked, archive, asOf, faults, market, shell } = reader;
    const before = own.first.snapshotId;
    const listed = async (query: string) => {
      const answer = await own.proxy.get(`/api/v1/markets/historical?${query}`, { headers: bearer(key) });
      return answer.json().markets.map(({ question }: { question: string }) => question);
    };
    const shown = () => archive.questions.allTextContents();
    expect(await shell.snapshot()).toBe(before);
    expect(await shell.anyNews.count()).toBe(0);

    const after = await own.publishNewer();
    for (const [word, number] of [
      ["Next", 2],
      ["Next", 3],
      ["Last", 4],
      ["First", 1],
    ] as const) {
      await archive.turn(word);
      await expect.poll(shown).toEqual(await listed(`asOf=${before}&pageSize=10&page=${number}`));
      await archive.settled();
      expect(await archive.count.textContent()).toBe("40 markets match");
      expect(await archive.choices("category")).toEqual([
        ["Crypto", "20"],
        ["Politics", "20"],
      ]);
      expect(await shell.snapshot()).toBe(before);
    }
    // The last page follows the third, too.
    expect(asked.filter((each) => each.includes("?cursor="))).toHaveLength(3);
    // What a market's page shows and proves is of the same snapshot.
    const [first = ""] = await shown();
    await archive.questions.first().click();
    await market.verify.click();
    await market.proven.waitFor();
    expect([await shell.heading.textContent(), await market.snapshot.textContent()]).toEqual([first, before]);
    await market.allMarkets.click();
    await archive.settled();
    expect(await shown()).toEqual(await listed(`asOf=${before}&pageSize=10`));

    await shell.news.click();
    await expect.poll(shown).toEqual(await listed("pageSize=10"));
    await archive.settled();
    expect(await archive.count.textContent()).toBe("60 markets match");
    expect(await shell.snapshot()).toBe(after);
    expect(await shell.anyNews.count()).toBe(0);

    // An earlier state is a filter beside others, which stay when it is left.
    await archive.choice("category", "Politics").click();
    await archive.settled();
    expect(await asOf.open()).toEqual([before]);
    await asOf.show();
    await expect.poll(() => archive.count.textContent()).toBe("20 markets match");
    await archive.chosen.getByText(`As of: snapshot ${before.slice(0, 12)}`).waitFor();
    await asOf.present.click();
    await expect.poll(() => archive.count.textContent()).toBe("30 markets match");
    await archive.settled();
    expect(await archive.chosen.allTextContents()).toEqual(["Category: Politics × (take away)"]);
    expect(faults).toEqual([]);

    // When a rollback withdraws the snapshot of a walk, a retry takes the one that is served.
    await rollback(own.proxy.storage, "1", () => new Date());
    await until("the rollback", async () => (await own.status()).commit === 3);
    await archive.turn("Next");
    await shell.tryAgain.click();
    await archive.settled();
    expect(await archive.range.textContent()).toBe("Showing 11 to 20 of 20.");
    expect(await shell.anyNews.count()).toBe(0);
  });

  test("an earlier state of a protocol says which it is, is an address of its own, and leads back", async () => {
    const own = await ownSite();
    const { snapshotId: before, publishedAt } = own.first;
    const after = await own.publishNewer();
    const reader = await visit(own, "#/protocols/aave");
    const { page, protocol, shell, asOf } = reader;
    const bri = async () => Number(await protocol.bri.textContent());
    expect(await bri()).toBe(600);
    expect(await asOf.panel.count()).toBe(0);
    await shell.enterKey(await own.proxy.issue({ plan: "developer" }));
    await expect.poll(() => shell.colophon.textContent()).toContain("Snapshot ");
    const time = `${publishedAt.slice(0, 10)} ${publishedAt.slice(11, 16)} UTC`;
    const said = `An earlier state: snapshot ${before.slice(0, 12)}, published ${time}.`;
    expect(await asOf.open()).toEqual([before]);
    await asOf.show();
    await expect.poll(bri).toBe(700);
    await expect.poll(() => asOf.state.textContent()).toContain(said);
    expect(await protocol.among.textContent()).toContain("of 4");
    expect(await protocol.badge.count()).toBe(0);
    expect(await asOf.others.textContent()).toContain("No other earlier state can be read.");
    const present = `The present snapshot is ${after.slice(0, 12)}`;
    await expect.poll(() => shell.colophon.textContent()).toContain(present);
    // As a link that somebody was sent, with all that a key adds.
    expect(page.url()).toBe(`${own.home}#/protocols/aave?asOf=${before}`);
    await page.reload();
    await page.getByText("an earlier state, which needs a key of the Developer or Aegis plan").waitFor();
    expect(await shell.pictures.count()).toBe(0);
    const asked = page.waitForRequest(`**/scores/aave/history?asOf=${before}`);
    await shell.enterKey(await own.proxy.issue());
    await asOf.state.filter({ hasText: said }).waitFor();
    await asked;
    expect(await bri()).toBe(700);
    await asOf.present.click();
    await expect.poll(bri).toBe(600);
    expect(await protocol.badge.count()).toBe(1);
  });

  test("an older snapshot of a process that is late is no news", async () => {
    const { page, archive, shell } = await visit(site, "#/archive", { key: site.aegis });
    const status = await statusOf(site.proxy);
    const late = { ...status, snapshotId: "0".repeat(64), commit: status.commit - 1 };
    await page.route("**/api/v1/status", (route) => route.fulfill({ json: late }));
    const asked = page.waitForResponse("**/api/v1/status");
    await archive.choice("category", "Crypto").click();
    await asked;
    await archive.settled();
    expect(await shell.anyNews.count()).toBe(0);
    expect(await shell.snapshot()).toBe(status.snapshotId);
  });

  test("a reader who stays on a page hears of newer data within a minute", async () => {
    const own = await ownSite();
    const nowhere = { browser: site.browser, home: "about:blank" };
    const { page, shell, scoreboard } = await visit(nowhere, "", { faulty: true, alone: true });
    await page.clock.install();
    await page.goto(own.home);
    await expect.poll(shell.snapshot).toBe(own.first.snapshotId);
    const after = await own.publishNewer();
    await page.clock.runFor(61_000);
    await shell.news.click();
    await scoreboard.cell("BRI").filter({ hasText: "600" }).waitFor();
    expect(await shell.snapshot()).toBe(after);
  });

  test("scores that could not be loaded are asked for again where they are missing", async () => {
    const { page, look, shell, scoreboard } = await visit(site, "#/archive", { faulty: true });
    await page.route("**/api/v1/scores*", (route) => route.abort());
    await look("Scores");
    await shell.failure.waitFor();
    await page.unroute("**/api/v1/scores*");
    await shell.tryAgain.click();
    await scoreboard.rows.first().waitFor();
    expect(await shell.failure.count()).toBe(0);
  });
});
