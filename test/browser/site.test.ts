import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { ScoreDimensions, ScoreHistory } from "../../schemas/envelopes.ts";
import { meanings } from "../../schemas/meanings.ts";
import type { ProtocolScore, ScoreListEntry } from "../../schemas/records.ts";
import { findChromium } from "../helpers/chromium.ts";
import {
  enterKey,
  focusIsOn,
  openWatched,
  overhang,
  type Screen,
  seriousFaults,
  tracesOf,
  type WatchedPage,
} from "../helpers/site-page.ts";
import {
  asRow,
  cellsOf,
  expectListed,
  factsOf,
  meaningsOn,
  protocols,
  rgb,
  rowsOf,
  serveSite,
  spoken,
} from "../helpers/site-served.ts";

const program = findChromium();

describe.skipIf(!program)("the site in Chromium", () => {
  const site = serveSite();

  const screens: Screen[] = [
    { scheme: "light", width: 1280 },
    { scheme: "light", width: 390 },
    { scheme: "dark", width: 1280 },
    { scheme: "dark", width: 390 },
  ];

  describe.each(screens)("on a $scheme screen $width wide", (screen) => {
    let watched: WatchedPage;
    let page: Page;
    beforeAll(async () => {
      watched = await openWatched(site.browser, site.home, screen);
      ({ page } = watched);
    });
    afterAll(() => watched.context.close());

    const expectSound = async () => {
      expect(await seriousFaults(page)).toEqual([]);
      expect(await overhang(page)).toBeLessThanOrEqual(0);
      expect(watched.faults).toEqual([]);
    };

    test("the scoreboard shows, filters and sorts what the API lists", async () => {
      const list = await site.scores();
      await page.waitForSelector("tbody tr");
      expect(await rowsOf(page)).toEqual(list.map(asRow));
      expect(await page.textContent(".count")).toBe(`${protocols} of ${protocols} protocols`);
      await expectSound();

      expect(await meaningsOn(page)).toEqual(
        [meanings.bri, meanings.tier, meanings.confidence, meanings.delta].map(({ meaning }) => meaning),
      );

      const { category, chain } = list[0]!;
      const finds: [text: string, found: (entry: ScoreListEntry) => boolean][] = [
        [" FI", (entry) => [entry.slug, entry.category, entry.chain].join(" ").toLowerCase().includes("fi")],
        [category, (entry) => entry.category === category],
        [`${chain.toLowerCase()}  ${category}`, (entry) => entry.category + entry.chain === category + chain],
      ];
      let found: ScoreListEntry[] = [];
      for (const [text, isFound] of finds) {
        await page.fill("#filter", text);
        found = list.filter(isFound);
        expect(found.length).toBeGreaterThan(0);
        expect(found.length).toBeLessThan(protocols);
        expect(await rowsOf(page)).toEqual(found.map(asRow));
      }
      expect(await page.textContent(".count")).toBe(`${found.length} of ${protocols} protocols`);
      await page.fill("#filter", "no such protocol");
      expect(await page.isVisible("text=No protocol matches")).toBe(true);
      await page.fill("#filter", "");

      for (const tier of ["CAST", "MITHRIL"]) await page.click(`.chip:has-text("${tier}")`);
      const chosen = list.filter(({ forgeScale }) => ["CAST", "MITHRIL"].includes(forgeScale));
      expect(chosen.length).toBeGreaterThan(2);
      expect(await rowsOf(page)).toEqual(chosen.map(asRow));

      await page.click("th button:has-text('Confidence')");
      const down = chosen.toSorted((a, b) => b.confidence - a.confidence || (a.slug < b.slug ? -1 : 1));
      expect(await rowsOf(page)).toEqual(down.map(asRow));
      await page.click("th button:has-text('Confidence')");
      const up = chosen.toSorted((a, b) => a.confidence - b.confidence || (a.slug < b.slug ? -1 : 1));
      expect(await rowsOf(page)).toEqual(up.map(asRow));
      expect(await page.locator("[aria-sort]").allTextContents()).toEqual(["Confidence"]);
      expect(await page.getAttribute("[aria-sort]", "aria-sort")).toBe("ascending");
      await expectSound();
    });

    test("a protocol's page has the numbers of its record", async () => {
      const slug = (await page.textContent("tbody tr th a"))!;
      const record: ProtocolScore = await site.api(`scores/${slug}`);
      await page.click("tbody tr th a");
      await page.waitForSelector(".dimensions");
      expect(await focusIsOn(page, "h1")).toBe(true);
      expect([await page.textContent("h1"), await page.title()]).toEqual([
        slug,
        `${slug} · Protocol Risk Scores`,
      ]);
      expect(await page.textContent(".bri b")).toBe(String(record.bri));
      expect(await cellsOf(page, ".dimensions tbody tr")).toEqual(
        Object.entries(record.dimensions).map(([key, value]) => [spoken(key), String(value)]),
      );
      const { cascade, findings, metadata } = record;
      expect(await factsOf(page)).toMatchObject({
        "Forge Scale": record.forgeScale,
        Confidence: String(record.confidence),
        "Blast radius": String(cascade.blastRadius),
        "Upstream dependencies": String(cascade.upstreamDeps),
        Critical: String(findings.critical),
        High: String(findings.high),
        Medium: String(findings.medium),
        Category: metadata.category,
        Chain: metadata.chain,
        "Value locked (TVL)": metadata.tvl,
        Contracts: String(metadata.contracts),
        "Z factor": String(metadata.zFactor),
      });
      expect(await page.textContent(".hash")).toBe(record.evidenceHash);
      const text = (await page.textContent("article")) ?? "";
      for (const about of ["bri", "tier", "confidence", "delta", "protocolDimension"] as const)
        expect(text).toContain(meanings[about].meaning);
      await expectSound();
    });

    test("a key brings history and moves, and what is left of its quota", async () => {
      const slug = (await page.textContent("h1"))!;
      await enterKey(page, site.aegis);
      await page.waitForSelector(".chart");
      await page.waitForSelector("text=Percentile");
      const { points }: ScoreHistory = await site.api(`scores/${slug}/history`);
      expect(points.length).toBeGreaterThan(5);
      expect(await page.locator(".chart .point").count()).toBe(points.length);
      await page.click("summary:has-text('Show as a table')");
      const table = await cellsOf(page, ".plain-table tbody tr");
      expect(table.map(([, bri, tier, confidence]) => [bri, tier, confidence])).toEqual(
        points.map(({ bri, forgeScale, confidence }) => [String(bri), forgeScale, String(confidence)]),
      );
      const { dimensions }: ScoreDimensions = await site.api(`scores/${slug}/dimensions`);
      const moves = await cellsOf(page, ".dimensions tbody tr");
      expect(moves.map(([name, score, , percentile]) => [name, score, percentile])).toEqual(
        dimensions.map(({ key, score, percentile }) => [spoken(key), String(score), String(percentile)]),
      );
      expect(
        moves.map(([, , change = ""]) => Number(/[+−]?\d+$/u.exec(change)?.[0].replace("−", "-"))),
      ).toEqual(dimensions.map(({ change7d }) => change7d));
      await expectSound();
    });

    test("the archive is filtered and paged as the API says", async () => {
      await page.click("nav >> text=Archive");
      await page.waitForSelector(".market");
      await expectListed(page, await site.markets("pageSize=25"));
      expect(await focusIsOn(page, "h1")).toBe(true);
      expect(await meaningsOn(page)).toEqual(
        [meanings.composite, meanings.tier, meanings.marketDimension].map(({ meaning }) => meaning),
      );
      const { remaining } = await site.api("usage", site.aegis);
      expect(await page.textContent(".standing")).toContain(`${remaining.toLocaleString("en")} of 100,000`);
      if (screen.width < 750) await page.click("summary:has-text('Filters')");
      await expectSound();

      await page.fill("#category", "CRYPTO");
      await page.fill("#min_composite", "600");
      await page.fill("#max_informed", "70");
      await page.selectOption("#pageSize", "10");
      await page.click(".filters button[type=submit]");
      const query = "category=CRYPTO&min_composite=600&max_informed=70&pageSize=10";
      const first = await site.markets(query);
      expect(first.total).toBeGreaterThan(30);
      await expectListed(page, first);
      expect(await focusIsOn(page, "#results")).toBe(true);

      const last = Math.ceil(first.total / 10);
      for (const [how, number] of [
        [() => page.click(".pager :text-is('Next')"), 2],
        [() => page.click(".pager :text-is('Last')"), last],
        [() => page.click(".pager :text-is('Previous')"), last - 1],
        [() => page.click(".pager :text-is('First')"), 1],
        [() => page.fill("#page", "3").then(() => page.click(".pager :text-is('Go')")), 3],
      ] as const) {
        await how();
        await expectListed(page, await site.markets(`${query}&page=${number}`));
        expect(await page.inputValue("#page")).toBe(String(number));
      }
      await page.goBack();
      await expectListed(page, first);
      expect(await page.inputValue("#category")).toBe("CRYPTO");
      await expectSound();
    });

    test("a market opens with its dimensions, weights and evidence", async () => {
      const { markets: shown } = await site.markets(
        "category=CRYPTO&min_composite=600&max_informed=70&pageSize=10",
      );
      const place = shown.findIndex(({ dimensions }) =>
        dimensions.some(({ evidence }) => evidence.length > 0),
      );
      const record = shown[place]!;
      const item = page.locator(".market").nth(place);
      await item.locator(".question").click();
      expect(await item.locator(".question").getAttribute("aria-expanded")).toBe("true");
      const signals = item.locator(".signals > li");
      expect(await signals.locator("h4").allTextContents()).toEqual(
        record.dimensions.map(({ name }) => name),
      );
      expect(await signals.locator(".score > :nth-child(2)").allTextContents()).toEqual(
        record.dimensions.map(({ score }) => `Risk ${score}`),
      );
      for (const about of ["marketDimension", "topRiskDriver"] as const)
        expect(await item.textContent()).toContain(meanings[about].meaning);
      // Risk has a colour of its own, no tier's and not that of scores where more is safer.
      const colours = await page.evaluate<
        string[]
      >(`["--risk", "--safety", "--t1", "--t2", "--t3", "--t4", "--t5",
        "--t6", "--t7", "--accent"].map((name) => getComputedStyle(document.documentElement).getPropertyValue(name))`);
      expect(new Set(colours).size).toBe(colours.length);
      const [fill, risk = ""] = await page.evaluate<string[]>(`(() => {
        const style = getComputedStyle(document.querySelector(".signals .bar .value"));
        return [style.fill, style.getPropertyValue("--risk")];
      })()`);
      expect(fill).toBe(rgb(risk));
      expect(await signals.locator(".score .quiet").allTextContents()).toEqual(
        record.dimensions.map(({ weight }) => `weight ${weight}`),
      );
      const evidence = record.dimensions.flatMap((dimension) => dimension.evidence);
      const links = await signals
        .locator("a")
        .evaluateAll((all) =>
          all.map((each) => [each.getAttribute("href"), each.textContent, each.getAttribute("rel")]),
        );
      expect(links).toEqual(
        evidence.map(({ reference }) => [reference.url, reference.label, "noopener noreferrer"]),
      );
      await expectSound();
    });

    test("the key is forgotten on demand, and was left nowhere", async () => {
      expect(await tracesOf(watched, site.aegis)).toEqual([]);
      await page.click("text=Forget key");
      await page.waitForSelector("text=The archive needs a key");
      expect(await page.locator(".market").count()).toBe(0);
      expect(await page.textContent(".standing")).toMatch(/^Free plan/);
      expect(await tracesOf(watched, site.aegis)).toEqual([]);
      await expectSound();
    });
  });
});
