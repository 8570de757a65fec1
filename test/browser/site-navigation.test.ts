import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { archiveParameters } from "../../schemas/query.ts";
import { bearer } from "../helpers/http/proxy-client.ts";
import { findChromium } from "../helpers/servers/chromium.ts";
import {
  arrived,
  enterKey,
  focusIsOn,
  openWatched,
  settled,
  tabTo,
  type WatchedPage,
} from "../helpers/servers/site-page.ts";
import { asRow, expectListed, protocols, rowsOf, serveSite } from "../helpers/servers/site-served.ts";

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
      await expect.poll(shown).toEqual([address, rows]);
    };
    await expectShown();
    // As a link that somebody was sent, after the way back from a protocol, and by that page's link.
    await page.goto("about:blank");
    await page.goto(address);
    await expectShown();
    expect(await page.inputValue("#filter")).toBe(chain);
    await page.fill("#filter", "zz");
    await page.press("#filter", "Tab");
    await page.waitForURL(/find=zz/);
    await page.fill("#filter", chain);
    expect(await page.locator("[aria-pressed=true]").count()).toBe(2);
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

  test("letters ask for nothing, and change no address: browsers fetch the icon for each", async () => {
    const { page, context } = await openWatched(site.browser, site.home);
    await page.waitForSelector("tbody tr");
    await enterKey(page, site.aegis);
    const network = await context.newCDPSession(page);
    await network.send("Network.enable");
    let asked: string[] = [];
    network.on("Network.requestWillBeSent", ({ request }) => asked.push(request.url));
    await page.clock.pauseAt(Date.now() + 1000);
    for (const [view, field] of [
      ["#/", "#filter"],
      ["#/archive", "#q"],
    ] as const) {
      await page.evaluate(`location.hash = ${JSON.stringify(view)}`);
      await arrived(page);
      await page.waitForSelector(`${field} >> visible=true`);
      await page.waitForSelector("[aria-busy]", { state: "detached" });
      const address = page.url();
      asked = [];
      await page.locator(field).pressSequentially("finish ahead");
      expect([asked, page.url()]).toEqual([[], address]);
    }
    // The list, and the counts.
    await page.clock.runFor(300);
    await page.waitForURL(/q=finish\+ahead/);
    await settled(page);
    expect(asked.map((each) => new URL(each).pathname).sort()).toEqual([
      "/api/v1/markets/facets",
      "/api/v1/markets/historical",
      "/api/v1/status",
    ]);
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
      .filter((name) => !["page", "pageSize", "cursor", "skip"].includes(name));
    const fields = await page
      .locator("#q, .explorer .facet input")
      .evaluateAll((all) => all.map((each) => [each.id, each.getAttribute("aria-label")]));
    expect(fields.map(([id]) => id).sort()).toEqual(names.sort());
    expect(new Set(fields.map(([, label]) => label)).size).toBe(names.length);
    await context.close();
  });

  test("a shared address shows the same, with everything that stands in it", async () => {
    const query = "category=CRYPTO&tier=DAMASCUS,MITHRIL&max_oracle=60&from=2025-06-01&page=2&pageSize=10";
    const { page, context, faults } = await openWatched(site.browser, `${site.home}#/archive?${query}`);
    await enterKey(page, site.aegis);
    const expectAll = async () => {
      await expectListed(page, await site.markets(query));
      expect(await page.locator(".chosen a").allTextContents()).toEqual([
        "Category: CRYPTO × (take away)",
        "Tier: DAMASCUS or MITHRIL × (take away)",
        "Oracle ≤ 60 × (take away)",
        "Resolved from 2025-06-01 × (take away)",
        "Clear all",
      ]);
      await page.waitForSelector(".choices [aria-current]");
      expect(await page.locator(".choices [aria-current] span.value").allTextContents()).toEqual([
        "CRYPTO",
        "MITHRIL",
        "DAMASCUS",
      ]);
      expect([await page.inputValue("#max_oracle"), await page.inputValue("#from")]).toEqual([
        "60",
        "2025-06-01",
      ]);
    };
    await expectAll();
    // From a market the way back leads to the same place.
    await page.locator(".question").last().hover();
    const height = await page.evaluate<number>("scrollY");
    expect(height).toBeGreaterThan(100);
    await page.locator(".question").last().click();
    await page.waitForSelector(".signals");
    expect(await page.evaluate("scrollY")).toBe(0);
    await page.goBack();
    await expectAll();
    await expect.poll(() => page.evaluate("scrollY")).toBe(height);
    await page.click(".question");
    await page.click("text=All markets");
    await expectAll();
    expect(faults).toEqual([]);
    await context.close();
  });

  test("Ctrl+K finds protocols, views, filters of the archive and words to search for", async () => {
    const watched = await openWatched(site.browser, site.home);
    const { page, context } = watched;
    await page.waitForSelector("tbody tr");
    const link = page.locator("tbody a[href^='#/protocols/']").nth(3);
    const [name, slug] = [
      await link.innerText(),
      (await link.getAttribute("href"))!.slice("#/protocols/".length),
    ];
    const go = async (text: string, ...keys: string[]) => {
      await page.keyboard.press("Control+k");
      await page.keyboard.type(text);
      await page.locator(".jump li a").first().waitFor();
      for (const key of keys) await page.keyboard.press(key);
    };
    await page.keyboard.press("Control+k");
    await page.keyboard.type(name.toUpperCase());
    await page.waitForSelector(`.jump li:first-child a[href="#/protocols/${slug}"]`);
    expect(watched.faults).toEqual([]);
    await page.keyboard.press("Enter");
    await page.waitForSelector(".dimensions");
    expect(new URL(page.url()).hash).toBe(`#/protocols/${slug}`);
    await go("tier mithril", "ArrowDown", "Enter");
    await page.waitForURL("**/#/archive?tier=MITHRIL");
    await go("numbers mean", "Enter");
    await page.waitForURL("**/#/meanings");
    await go("rate cut", "ArrowDown", "ArrowUp", "Enter");
    await page.waitForURL("**/#/archive?q=rate+cut");
    await go("x", "Escape");
    await page.waitForSelector(".jump", { state: "hidden" });
    expect(new URL(page.url()).hash).toBe("#/archive?q=rate+cut");
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
    await tabTo(page, "th.col-confidence button");
    await page.keyboard.press("Enter");
    expect(await page.getAttribute("th.col-confidence", "aria-sort")).toBe("descending");
    await tabTo(page, "tbody a");
    await page.keyboard.press("Enter");
    await page.waitForSelector(".dimensions");
    expect(await focusIsOn(page, "h1")).toBe(true);
    await tabTo(page, ".promise button");
    await page.keyboard.press("Enter");
    expect(await focusIsOn(page, "#key")).toBe(true);
    await page.keyboard.type(site.aegis);
    await page.keyboard.press("Enter");
    await page.waitForSelector("#history ~ .frame .point");
    expect(await focusIsOn(page, "button:not([hidden])")).toBe(true);
    for (let presses = 0; !(await focusIsOn(page, "nav a:nth-child(2)")); presses += 1) {
      expect(presses).toBeLessThan(20);
      await page.keyboard.press("Shift+Tab");
    }
    await page.keyboard.press("Enter");
    await page.waitForSelector(".market");
    await tabTo(page, "#min_composite");
    await page.keyboard.type("500");
    await page.keyboard.press("Enter");
    await expectListed(page, await site.markets("min_composite=500&pageSize=25"));
    await tabTo(page, "[data-key='outcome Yes']");
    await page.keyboard.press("Enter");
    await expectListed(page, await site.markets("min_composite=500&outcome=Yes&pageSize=25"));
    await page.waitForSelector("[data-key='outcome Yes'][aria-current]:focus");
    await tabTo(page, ".question");
    await page.keyboard.press("Enter");
    await page.waitForSelector(".signals");
    expect(await page.locator(".signals > li").count()).toBe(6);
    await page.goBack();
    await page.waitForSelector(".pager a");
    await tabTo(page, ".pager a");
    await page.keyboard.press("Enter");
    await expectListed(page, await site.markets("min_composite=500&outcome=Yes&pageSize=25&page=2"));
    expect(faults).toEqual([]);
    await context.close();
  });

  describe("says what is wrong where it is:", () => {
    let watched: WatchedPage;
    let page: Page;
    beforeAll(async () => {
      watched = await openWatched(site.browser, `${site.home}#/archive`);
      ({ page } = watched);
    });
    afterAll(() => watched.context.close());
    const refused = (status: string) => [expect.stringContaining(`status of ${status}`)];

    test("a wrong key, which is then gone from its field", async () => {
      await page.click("summary:has-text('Enter an API key')");
      for (const [key, status] of [
        ["prs_live_wrong", ["401"]],
        ["Schlüssel", []],
        ["", []],
      ] as const) {
        await page.fill("#key", key);
        await page.click("text=Use key");
        await page.waitForSelector("#key-problem .failure");
        expect(await page.inputValue("#key")).toBe("");
        expect(await focusIsOn(page, "#key[aria-invalid]")).toBe(true);
        expect(watched.faults.splice(0)).toEqual(status.flatMap(refused));
      }
      await page.fill("#key", "prs_live_wrong");
      await page.click("text=Use key");
      const problem = (await site.proxy.get("/api/v1/usage", { headers: bearer("prs_live_wrong") })).json();
      await page.waitForSelector(`text=${problem.detail}`);
      expect(await page.textContent("#key-problem strong")).toBe(problem.title);
      expect(await page.textContent(".standing")).toMatch(/^Free plan/);
      watched.faults.splice(0);
    });

    test("a key of a lower plan", async () => {
      await enterKey(page, await site.proxy.issue({ plan: "developer" }));
      await page.waitForSelector("text=yours is on the Developer plan");
      expect(watched.faults).toEqual([]);
      await page.click("text=Forget key");
    });

    test("a wrong filter, at its field", async () => {
      await enterKey(page, site.aegis);
      await page.waitForSelector(".market");
      for (const [field, value, label] of [
        ["min_composite", "5", "Composite, at least"],
        ["min_oracle", "101", "Oracle, at least"],
        ["from", "2025-02-30", "Resolved, from"],
        ["max_composite", "many", "Composite, at most"],
      ] as const) {
        expect(await page.getAttribute(`#${field}`, "aria-label")).toBe(label);
        await page.fill(`#${field}`, value);
        await page.press(`#${field}`, "Enter");
        const { detail } = await site.api(`markets/historical?${field}=${value}`);
        await page.waitForSelector(`#problem-${field} >> text=${detail.replace(field, `“${label}”`)}`);
        expect(await page.textContent(`#problem-${field}`)).not.toContain("_");
        expect(await focusIsOn(page, `#${field}[aria-invalid]`)).toBe(true);
        expect(await page.locator(".market").count()).toBe(0);
        // The list and the counts are refused alike; the page may have given up one of them before its answer.
        expect(new Set(watched.faults.splice(0))).toEqual(
          new Set([expect.stringContaining("status of 400")]),
        );
        await page.click("a[data-key^='remove']");
        await page.waitForSelector(".market");
      }
      await page.goto(`${site.home}#/archive?min_informed=2&max_informed=1`);
      await page.waitForSelector("text=“Informed, at least” is above “Informed, at most”.");
      expect(await page.inputValue("#min_informed")).toBe("2");
      await page.goto(`${site.home}#/archive?from=2025-02-02&to=2025-02-01`);
      await page.waitForSelector("text=“Resolved, from” is later than “Resolved, to”.");
      await page.goto(`${site.home}#/archive?colour=red`);
      await page.waitForSelector("text=colour");
      watched.faults.splice(0);
      await page.click("a[data-key='remove colour']");
      await page.waitForSelector(".market");
      expect(await page.locator(".failure, [aria-invalid]").count()).toBe(0);
    });

    test("an unknown protocol, page and market", async () => {
      await page.goto(`${site.home}#/protocols/no-such-one`);
      await page.waitForSelector("text=No such protocol");
      // What programs are told to ask next is not for readers, and trying again does not help.
      expect(await page.textContent(".failure")).toBe("No such protocol No protocol of this name is scored.");
      // A refusal of the test before may come late.
      expect(watched.faults.splice(0).filter((fault) => !fault.includes("status of 400"))).toEqual(
        refused("404"),
      );
      await page.goto(`${site.home}#/protocols/../keys`);
      await page.waitForSelector("text=No such page");
      expect(watched.faults).toEqual([]);
      await page.goto(`${site.home}#/markets/00000000-0000-4000-8000-000000000000`);
      await page.waitForSelector(".failure");
      expect(watched.faults.splice(0)).toEqual(refused("404"));
    });
  });
});
