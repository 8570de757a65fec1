import { beforeAll, describe, expect, test } from "vitest";
import { bearer } from "../helpers/http/proxy-client.ts";
import { findChromium } from "../helpers/servers/chromium.ts";
import { arrived } from "../helpers/servers/site-page.ts";
import { asRow, protocols, serveSite } from "../helpers/servers/site-served.ts";
import { idle, isFocused } from "./pages/look.ts";
import { type Visit, visit } from "./pages/visit.ts";

const program = findChromium();

describe.skipIf(!program)("the site", () => {
  const site = serveSite();

  test("the scoreboard's filters stand in its address, and work from there", async () => {
    const wanted = (await site.scores())
      .filter(({ forgeScale }) => ["CAST", "MITHRIL"].includes(forgeScale))
      .sort((a, b) => a.confidence - b.confidence || (a.slug < b.slug ? -1 : 1));
    const { chain } = wanted[0]!;
    const rows = wanted.filter((entry) => entry.chain === chain).map(asRow);
    const { page, scoreboard, protocol, arriveAt, look } = await visit(site);
    await scoreboard.filter.fill(chain);
    for (const tier of ["MITHRIL", "CAST"]) await scoreboard.tier(tier).click();
    for (const _ of ["down", "up"]) await scoreboard.sort("Confidence").click();
    const path = `#/?${new URLSearchParams({ find: chain, tier: "CAST,MITHRIL", sort: "Confidence" })}`;
    const expectShown = async () => {
      // The page before it has a table too.
      const shown = async () => [page.url(), await scoreboard.shown()];
      await expect.poll(shown).toEqual([`${site.home}${path}`, rows]);
    };
    await expectShown();
    await arriveAt(path);
    await expectShown();
    expect(await scoreboard.filter.inputValue()).toBe(chain);
    await scoreboard.filter.fill("zz");
    await scoreboard.filter.press("Tab");
    await page.waitForURL(/find=zz/);
    await scoreboard.filter.fill(chain);
    expect(await scoreboard.pressed.count()).toBe(2);
    // After the way back from a protocol, by that page's link and by the browser.
    await scoreboard.protocols.first().click();
    await protocol.allScores.click();
    await expectShown();
    await page.goBack();
    await protocol.table.waitFor();
    await page.goBack();
    await expectShown();
    await look("Scores");
    await page.getByText(`${protocols} of ${protocols}`).waitFor();
    expect(await scoreboard.pressed.count()).toBe(0);
  });

  test("letters ask for nothing, and change no address: browsers fetch the icon for each", async () => {
    const ways = { key: site.aegis, alone: true };
    const { page, context, archive, scoreboard } = await visit(site, "", ways);
    await scoreboard.rows.first().waitFor();
    const network = await context.newCDPSession(page);
    await network.send("Network.enable");
    let asked: string[] = [];
    network.on("Network.requestWillBeSent", ({ request }) => asked.push(request.url));
    await page.clock.pauseAt(Date.now() + 1000);
    for (const [view, field] of [
      ["#/", scoreboard.filter],
      ["#/archive", archive.search],
    ] as const) {
      await page.evaluate(`location.hash = ${JSON.stringify(view)}`);
      await arrived(page);
      await field.waitFor();
      await idle(page);
      const address = page.url();
      asked = [];
      await field.pressSequentially("finish ahead");
      expect([asked, page.url()]).toEqual([[], address]);
    }
    // The list, and the counts.
    await page.clock.runFor(300);
    await page.waitForURL(/q=finish\+ahead/);
    await archive.settled();
    expect(asked.map((each) => new URL(each).pathname).sort()).toEqual([
      "/api/v1/markets/facets",
      "/api/v1/markets/historical",
      "/api/v1/status",
    ]);
  });

  test("a shared address shows the same, also where a market leads back to it", async () => {
    const query = "category=CRYPTO&tier=DAMASCUS,MITHRIL&max_oracle=60&from=2025-06-01&page=2&pageSize=10";
    const { page, archive, market } = await visit(site, `#/archive?${query}`, { key: site.aegis });
    const expectAll = async () => {
      await archive.expectListed(await site.markets(query));
      expect(await archive.chosen.allTextContents()).toEqual([
        "Category: CRYPTO × (take away)",
        "Tier: DAMASCUS or MITHRIL × (take away)",
        "Oracle ≤ 60 × (take away)",
        "Resolved from 2025-06-01 × (take away)",
        "Clear all",
      ]);
      await archive.currentValues.first().waitFor();
      expect(await archive.currentValues.allTextContents()).toEqual(["CRYPTO", "MITHRIL", "DAMASCUS"]);
      const fields = ["max_oracle", "from"].map((name) => archive.field(name).inputValue());
      expect(await Promise.all(fields)).toEqual(["60", "2025-06-01"]);
    };
    const scrolled = () => page.evaluate<number>("scrollY");
    await expectAll();
    await archive.questions.last().hover();
    const height = await scrolled();
    expect(height).toBeGreaterThan(100);
    await archive.questions.last().click();
    await market.signals.waitFor();
    expect(await scrolled()).toBe(0);
    await page.goBack();
    await expectAll();
    await expect.poll(scrolled).toBe(height);
    await archive.questions.first().click();
    await market.allMarkets.click();
    await expectAll();
  });

  test("Ctrl+K finds protocols, views, filters of the archive and words to search for", async () => {
    const { page, hash, shell, scoreboard, protocol } = await visit(site);
    const link = scoreboard.protocols.nth(3);
    // The row may not be laid out yet, so it may have no text as it is seen.
    const [name, address] = [(await link.textContent())!, (await link.getAttribute("href"))!];
    const { go, box, found } = shell.jump;
    await go(name.toUpperCase());
    await expect.poll(() => found.first().getAttribute("href")).toBe(address);
    await page.keyboard.press("Enter");
    await protocol.table.waitFor();
    expect(hash()).toBe(address);
    await go("tier mithril", "ArrowDown", "Enter");
    await page.waitForURL("**/#/archive?tier=MITHRIL");
    await go("numbers mean", "Enter");
    await page.waitForURL("**/#/meanings");
    await go("rate cut", "ArrowDown", "ArrowUp", "Enter");
    await page.waitForURL("**/#/archive?q=rate+cut");
    await go("x", "Escape");
    await box.waitFor({ state: "hidden" });
    expect(hash()).toBe("#/archive?q=rate+cut");
  });

  describe("says what is wrong where it is:", () => {
    let reader: Visit;
    beforeAll(async () => {
      reader = await visit(site, "#/archive", { shared: true });
    });
    /** The faults that the browser told since the last look. */
    const expectFaults = (...statuses: string[]) =>
      expect(reader.faults.splice(0)).toEqual(
        statuses.map((status) => expect.stringContaining(`status of ${status}`)),
      );

    test("a wrong key, which is then gone from its field", async () => {
      const { askForKey, key, standing } = reader.shell;
      await askForKey.click();
      expect(await isFocused(key.field)).toBe(true);
      for (const [given, statuses] of [
        ["prs_live_wrong", ["401"]],
        ["Schlüssel", []],
        ["", []],
      ] as const) {
        await key.offer(given);
        await key.problem.waitFor();
        expect(await key.field.inputValue()).toBe("");
        expect(await key.isFaulty()).toBe(true);
        expectFaults(...statuses);
      }
      await key.offer("prs_live_wrong");
      const problem = (await site.proxy.get("/api/v1/usage", { headers: bearer("prs_live_wrong") })).json();
      await key.problem.filter({ hasText: problem.detail }).waitFor();
      expect(await key.problemTitle.textContent()).toBe(problem.title);
      expect(await standing.textContent()).toMatch(/^Free plan/);
      reader.faults.splice(0);
    });

    test("a key of a lower plan", async () => {
      const { shell, page } = reader;
      await shell.enterKey(await site.proxy.issue({ plan: "developer" }));
      await page.getByText("yours is on the Developer plan").waitFor();
      expectFaults();
      await shell.forgetKey.click();
    });

    test.each([
      ["min_composite", "5", "Composite, at least"],
      ["min_oracle", "101", "Oracle, at least"],
      ["from", "2025-02-30", "Resolved, from"],
      ["max_composite", "many", "Composite, at most"],
    ])("a wrong %s, at its field", async (name, value, label) => {
      const { archive, shell } = reader;
      if (!(await shell.forgetKey.isVisible())) await shell.enterKey(site.aegis);
      await archive.markets.first().waitFor();
      expect(await archive.field(name).getAttribute("aria-label")).toBe(label);
      await archive.field(name).fill(value);
      await archive.field(name).press("Enter");
      const { detail } = await site.api(`markets/historical?${name}=${value}`);
      const problem = archive.fieldProblem(name);
      await problem.getByText(detail.replace(name, `“${label}”`)).waitFor();
      expect(await problem.textContent()).not.toContain("_");
      expect(await archive.isFaulty(name)).toBe(true);
      expect(await archive.markets.count()).toBe(0);
      // The list and the counts are refused alike; the page may have given up one of them before its answer.
      const refused = new Set([expect.stringContaining("status of 400")]);
      expect(new Set(reader.faults.splice(0))).toEqual(refused);
      await archive.chosen.first().click();
      await archive.markets.first().waitFor();
    });
  });
});
