import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { MarketPage, ScoreDimensions, ScoreHistory, ScoreList } from "../../schemas/envelopes.ts";
import { meanings } from "../../schemas/meanings.ts";
import { archiveParameters } from "../../schemas/query.ts";
import type { ProtocolScore, ScoreListEntry } from "../../schemas/records.ts";
import { sampleDefaults, writeSample } from "../../snapshots/sample/sample.ts";
import { publishSources, testFolder } from "../helpers/archive-store.ts";
import { findChromium, launch } from "../helpers/chromium.ts";
import { startTestProxy, type TestProxy } from "../helpers/proxy.ts";
import { bearer, until } from "../helpers/proxy-client.ts";
import {
  enterKey,
  focusIsOn,
  openWatched,
  overhang,
  type Screen,
  seriousFaults,
  tabTo,
  tracesOf,
  type WatchedPage,
} from "../helpers/site-page.ts";

const program = findChromium();
const protocols = 40;

describe.skipIf(!program)("the site in Chromium", () => {
  const folder = testFolder();
  let proxy: TestProxy;
  let aegis: string;
  /** Of another owner than the key that the page is given, whose quota is left alone by what tests ask. */
  let own: string;
  let browser: Browser;
  beforeAll(async () => {
    proxy = await startTestProxy({ empty: true });
    const directory = join(folder, "sources");
    await writeSample({ ...sampleDefaults, directory, markets: 2000, protocols, days: 10 });
    await publishSources(directory, proxy.storage, folder);
    aegis = await proxy.issue();
    own = await proxy.issue({ owner: "tests" });
    await until("the proxy to be ready", async () => (await proxy.get("/readyz")).status === 200);
    browser = await launch(program!);
  });
  afterAll(async () => {
    await browser?.close();
    await proxy?.stop();
  });

  const home = () => `http://127.0.0.1:${proxy.port}/`;
  const api = async (path: string, key = own) =>
    (await proxy.get(`/api/v1/${path}`, { headers: bearer(key) })).json();
  const scores = async (): Promise<ScoreListEntry[]> => ((await api("scores")) as ScoreList).scores;
  const markets = (query: string): Promise<MarketPage> => api(`markets/historical?${query}`);

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
      watched = await openWatched(browser, home(), screen);
      ({ page } = watched);
    });
    afterAll(() => watched.context.close());

    const expectSound = async () => {
      expect(await seriousFaults(page)).toEqual([]);
      expect(await overhang(page)).toBeLessThanOrEqual(0);
      expect(watched.faults).toEqual([]);
    };

    test("the scoreboard shows, filters and sorts what the API lists", async () => {
      const list = await scores();
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
      const record: ProtocolScore = await api(`scores/${slug}`);
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
      await enterKey(page, aegis);
      await page.waitForSelector(".chart");
      await page.waitForSelector("text=Percentile");
      const { points }: ScoreHistory = await api(`scores/${slug}/history`);
      expect(points.length).toBeGreaterThan(5);
      expect(await page.locator(".chart .point").count()).toBe(points.length);
      await page.click("summary:has-text('Show as a table')");
      const table = await cellsOf(page, ".plain-table tbody tr");
      expect(table.map(([, bri, tier, confidence]) => [bri, tier, confidence])).toEqual(
        points.map(({ bri, forgeScale, confidence }) => [String(bri), forgeScale, String(confidence)]),
      );
      const { dimensions }: ScoreDimensions = await api(`scores/${slug}/dimensions`);
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
      await expectListed(page, await markets("pageSize=25"));
      expect(await focusIsOn(page, "h1")).toBe(true);
      expect(await meaningsOn(page)).toEqual(
        [meanings.composite, meanings.tier, meanings.marketDimension].map(({ meaning }) => meaning),
      );
      const { remaining } = await api("usage", aegis);
      expect(await page.textContent(".standing")).toContain(`${remaining.toLocaleString("en")} of 100,000`);
      if (screen.width < 750) await page.click("summary:has-text('Filters')");
      await expectSound();

      await page.fill("#category", "CRYPTO");
      await page.fill("#min_composite", "600");
      await page.fill("#max_informed", "70");
      await page.selectOption("#pageSize", "10");
      await page.click(".filters button[type=submit]");
      const query = "category=CRYPTO&min_composite=600&max_informed=70&pageSize=10";
      const first = await markets(query);
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
        await expectListed(page, await markets(`${query}&page=${number}`));
        expect(await page.inputValue("#page")).toBe(String(number));
      }
      await page.goBack();
      await expectListed(page, first);
      expect(await page.inputValue("#category")).toBe("CRYPTO");
      await expectSound();
    });

    test("a market opens with its dimensions, weights and evidence", async () => {
      const { markets: shown } = await markets(
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
      expect(await tracesOf(watched, aegis)).toEqual([]);
      await page.click("text=Forget key");
      await page.waitForSelector("text=The archive needs a key");
      expect(await page.locator(".market").count()).toBe(0);
      expect(await page.textContent(".standing")).toMatch(/^Free plan/);
      expect(await tracesOf(watched, aegis)).toEqual([]);
      await expectSound();
    });
  });

  describe("says what is wrong where it is", () => {
    let watched: WatchedPage;
    let page: Page;
    beforeAll(async () => {
      watched = await openWatched(browser, `${home()}#/archive`);
      ({ page } = watched);
    });
    afterAll(() => watched.context.close());
    const refused = (status: string) => [expect.stringContaining(`status of ${status}`)];

    test("a wrong key, which is then gone from its field", async () => {
      await page.click("text=Enter an API key");
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
      const problem = (await proxy.get("/api/v1/usage", { headers: bearer("prs_live_wrong") })).json();
      await page.waitForSelector(`text=${problem.detail}`);
      expect(await page.textContent("#key-problem strong")).toBe(problem.title);
      expect(await page.textContent(".standing")).toMatch(/^Free plan/);
      watched.faults.splice(0);
    });

    test("a key of a lower plan", async () => {
      await enterKey(page, await proxy.issue({ plan: "developer" }));
      await page.waitForSelector("text=yours is on the Developer plan");
      expect(watched.faults).toEqual([]);
      await page.click("text=Forget key");
    });

    test("a wrong filter, at its field", async () => {
      await enterKey(page, aegis);
      await page.waitForSelector(".market");
      for (const [field, value, label] of [
        ["min_composite", "5", "Composite, at least"],
        ["min_oracle", "101", "Oracle, at least"],
        ["from", "2025-02-30", "Resolved, from"],
        ["max_composite", "many", "Composite, at most"],
      ] as const) {
        expect(await page.textContent(`label[for=${field}]`)).toBe(label);
        await page.fill(`#${field}`, value);
        await page.click(".filters button[type=submit]");
        const { detail } = await api(`markets/historical?${field}=${value}`);
        await page.waitForSelector(`#problem-${field} >> text=${detail.replace(field, `“${label}”`)}`);
        expect(await page.textContent(`#problem-${field}`)).not.toContain("_");
        expect(await focusIsOn(page, `#${field}[aria-invalid]`)).toBe(true);
        expect(await page.locator(".market").count()).toBe(0);
        expect(await seriousFaults(page)).toEqual([]);
        expect(watched.faults.splice(0)).toEqual(refused("400"));
        await page.fill(`#${field}`, "");
      }
      await page.fill("#min_informed", "2");
      await page.fill("#max_informed", "1");
      await page.click("text=Show markets");
      await page.waitForSelector("text=“Informed, at least” is above “Informed, at most”.");
      await page.fill("#max_informed", "");
      await page.fill("#min_informed", "");
      await page.fill("#from", "2025-02-02");
      await page.fill("#to", "2025-02-01");
      await page.click("text=Show markets");
      await page.waitForSelector("text=“Resolved, from” is later than “Resolved, to”.");
      watched.faults.splice(0);
      await page.fill("#from", "");
      await page.fill("#to", "");
      await page.click("text=Show markets");
      await page.waitForSelector(".market");
      expect(await page.locator(".failure, [aria-invalid]").count()).toBe(0);
    });

    test("an unknown protocol and an unknown page", async () => {
      await page.goto(`${home()}#/protocols/no-such-one`);
      await page.waitForSelector("text=No such protocol");
      expect(watched.faults.splice(0)).toEqual(refused("404"));
      await page.goto(`${home()}#/protocols/../keys`);
      await page.waitForSelector("text=No such page");
      expect(watched.faults).toEqual([]);
    });
  });

  test("the scoreboard's filters stand in its address, and work from there", async () => {
    const wanted = (await scores())
      .filter(({ forgeScale }) => ["CAST", "MITHRIL"].includes(forgeScale))
      .sort((a, b) => a.confidence - b.confidence || (a.slug < b.slug ? -1 : 1));
    const { chain } = wanted[0]!;
    const rows = wanted.filter((entry) => entry.chain === chain).map(asRow);
    const { page, context, faults } = await openWatched(browser, home());
    await page.fill("#filter", chain);
    for (const tier of ["MITHRIL", "CAST"]) await page.click(`.chip:has-text("${tier}")`);
    for (const _ of ["down", "up"]) await page.click("th button:has-text('Confidence')");
    const address = `${home()}#/?${new URLSearchParams({ find: chain, tier: "CAST,MITHRIL", sort: "Confidence" })}`;
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
    const { page, context, faults } = await openWatched(browser, `${home()}#/archive?page=999&pageSize=500`);
    await enterKey(page, aegis);
    await page.waitForSelector("text=Showing none of 2,000.");
    await page.click(".pager :text-is('Previous')");
    await expectListed(page, await markets("page=4&pageSize=500"));
    expect(faults).toEqual([]);
    await context.close();
  });

  test("has a field for every filter of the archive", async () => {
    const { page, context } = await openWatched(browser, `${home()}#/archive`);
    await enterKey(page, aegis);
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
    const { page, context, faults } = await openWatched(browser, home());
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
    await page.keyboard.type(aegis);
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
    await expectListed(page, await markets("outcome=Yes&pageSize=25"));
    expect(await focusIsOn(page, "#results")).toBe(true);
    await tabTo(page, ".question");
    await page.keyboard.press("Enter");
    expect(await page.locator(".signals > li").count()).toBe(6);
    await tabTo(page, ".pager a");
    await page.keyboard.press("Enter");
    await expectListed(page, await markets("outcome=Yes&pageSize=25&page=2"));
    expect(faults).toEqual([]);
    await context.close();
  });
});

const spoken = (key: string) => `${key.charAt(0).toUpperCase()}${key.slice(1).replaceAll("_", " ")}`;

/** What a row of the scoreboard says of an entry. */
function asRow(entry: ScoreListEntry): string[] {
  const { slug, category, chain, bri, forgeScale, confidence, delta, updatedAt } = entry;
  const change = delta > 0 ? `▲up +${delta}` : delta < 0 ? `▼down −${-delta}` : "unchanged, 0";
  const time = `${updatedAt.slice(0, 10)} ${updatedAt.slice(11, 16)} UTC`;
  return [`${slug}${category} · ${chain}`, String(bri), forgeScale, String(confidence), change, time];
}

const meaningsOn = (page: Page) => page.locator(".meanings dd").allTextContents();

/** A colour #rrggbb as computed styles have it. */
const rgb = (colour: string) =>
  `rgb(${[1, 3, 5].map((at) => Number.parseInt(colour.slice(at, at + 2), 16)).join(", ")})`;

const rowsOf = (page: Page) => cellsOf(page, ".board tbody tr");

function cellsOf(page: Page, rows: string): Promise<string[][]> {
  return page
    .locator(rows)
    .evaluateAll((all) => all.map((row) => [...row.children].map((cell) => cell.textContent ?? "")));
}

async function factsOf(page: Page): Promise<Record<string, string>> {
  const pairs = await page
    .locator(".facts > div")
    .evaluateAll((all) =>
      all.map((row) => [
        row.querySelector("dt")?.textContent ?? "",
        row.querySelector("dd")?.textContent ?? "",
      ]),
    );
  return Object.fromEntries(pairs);
}

/** Waits until the explorer shows this page of markets, and its total. */
async function expectListed(page: Page, { total, markets }: MarketPage): Promise<void> {
  const questions = markets.map(({ question }) => question);
  const number = total.toLocaleString("en");
  await until(
    `the questions ${questions.join()}`,
    async () => (await page.locator(".question").allTextContents()).join() === questions.join(),
  );
  expect(await page.textContent("main .count")).toBe(
    `${number} market${total === 1 ? " matches" : "s match"}`,
  );
}
