import { readFile } from "node:fs/promises";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { LabelFacet, ScoreFacet } from "../../schemas/envelopes.ts";
import type { HistoricalMarket } from "../../schemas/records.ts";
import { forgeTiers } from "../../schemas/scales.ts";
import { bearer } from "../helpers/http/proxy-client.ts";
import { findChromium } from "../helpers/servers/chromium.ts";
import {
  enterKey,
  focusIsOn,
  openWatched,
  settled,
  tracesOf,
  type WatchedPage,
} from "../helpers/servers/site-page.ts";
import { cellsOf, choicesOf, expectListed, factsOf, serveSite } from "../helpers/servers/site-served.ts";

const program = findChromium();

describe.skipIf(!program)("the archive of the site in Chromium", () => {
  const site = serveSite();
  let watched: WatchedPage;
  let page: Page;
  beforeAll(async () => {
    watched = await openWatched(site.browser, site.home);
    ({ page } = watched);
    await enterKey(page, site.aegis);
  });
  afterAll(() => watched?.context.close());

  const facetsOf = (query: string) => site.api(`markets/facets?${query}`);
  const grouped = (value: number) => value.toLocaleString("en");
  const counted = (value: number) => `${grouped(value)} ${value === 1 ? "market" : "markets"}`;

  test("the archive counts beside every choice what that choice leads to", async () => {
    await page.click("nav >> text=Archive");
    await expectListed(page, await site.markets("pageSize=25"));
    expect(await focusIsOn(page, "h1")).toBe(true);
    await page.waitForSelector(".choices a");
    expect(watched.faults).toEqual([]);

    // Choosing one tier and then another; the counts of tiers are those without the choice of tiers.
    await page.click(".choices a:has-text('TEMPERED')");
    await expectListed(page, await site.markets("tier=TEMPERED&pageSize=25"));
    await page.click(".choices a:has-text('FORGED')");
    const query = "tier=FORGED,TEMPERED";
    await expectListed(page, await site.markets(`${query}&pageSize=25`));
    expect(await focusIsOn(page, "a[data-key='tier FORGED']")).toBe(true);
    const { facets } = await facetsOf(
      `by=category,disputed,outcome,formula_version,composite,month&${query}`,
    );
    const tiers: LabelFacet = (await facetsOf("by=tier")).facets.tier;
    expect(await choicesOf(page, "tier")).toEqual(
      forgeTiers.toReversed().map((name) => {
        const { count = 0 } = tiers.buckets.find(({ value }) => value === name) ?? {};
        return [name, grouped(count)];
      }),
    );
    // Letter case does not tell categories apart, so their choices and counts do not either.
    const categories = new Map<string, number>();
    for (const { value, count } of (facets.category as LabelFacet).buckets)
      categories.set(value.toLowerCase(), (categories.get(value.toLowerCase()) ?? 0) + count);
    expect(
      (await choicesOf(page, "category")).map(([value = "", count]) => [value.toLowerCase(), count]),
    ).toEqual(
      [...categories].toSorted(([, a], [, b]) => b - a).map(([value, count]) => [value, grouped(count)]),
    );
    for (const [facet, words] of [
      ["disputed", { true: "Disputed", false: "Undisputed" }],
      ["outcome", {}],
      ["formula_version", {}],
    ] as const) {
      const { buckets }: LabelFacet = facets[facet];
      const spelled = (value: string) => (words as Record<string, string>)[value] ?? value;
      expect(await choicesOf(page, facet)).toEqual(
        buckets.map(({ value, count }) => [spelled(value), grouped(count)]),
      );
    }
    const composite = page.locator("section:has(> .range #min_composite) .columns-chart title");
    expect(await composite.allTextContents()).toEqual(
      (facets.composite as ScoreFacet).buckets.map(
        ({ from, to, count }) => `${from} to ${to}: ${grouped(count)} ${count === 1 ? "market" : "markets"}`,
      ),
    );
    await page.click("a[data-key='remove tier']");
    await expectListed(page, await site.markets("pageSize=25"));
  });

  test("ranges are brushed or typed, and words searched, as the API answers", async () => {
    const frame = (name: string) => page.locator(`section:has(> .range #${name}) .columns-chart`);
    const drag = async (name: string, from: number, to: number) => {
      const { x, y, width, height } = (await frame(name).boundingBox())!;
      await page.mouse.move(x + from * width, y + height / 2);
      await page.mouse.down();
      await page.mouse.move(x + to * width, y + height / 2, { steps: 3 });
      await page.mouse.up();
    };
    const { x, y } = (await frame("min_composite").boundingBox())!;
    await page.mouse.move(x + 9, y + 9);
    await page.mouse.down();
    await page.mouse.move(x + 99, y + 9);
    expect(await page.locator(".columns-chart .cold").count()).toBeGreaterThan(0);
    await page.keyboard.press("Escape");
    await page.mouse.up();
    expect(await page.locator(".columns-chart .cold").count()).toBe(0);
    expect(new URL(page.url()).hash).toBe("#/archive");
    await drag("min_composite", 6.5 / 14, 9.5 / 14);
    let query = "min_composite=600&max_composite=799";
    await expectListed(page, await site.markets(`${query}&pageSize=25`));
    expect(await page.inputValue("#max_composite")).toBe("799");
    const { buckets } = (await facetsOf(`by=month&${query}`)).facets.month;
    await drag("from", 1.5 / buckets.length, 1 - 1.5 / buckets.length);
    // The fields follow the address, which changes a moment after the pointer is up.
    const chosen = async () => [await page.inputValue("#from"), await page.inputValue("#to")];
    const months = async () => (await chosen()).map((day) => day.slice(0, 7));
    await expect.poll(months).toEqual([buckets[1].value, buckets.at(-2).value]);
    const [from, to] = await chosen();
    expect(from).toBe(`${buckets[1].value}-01`);
    query += `&from=${from}&to=${to}`;
    await expectListed(page, await site.markets(`${query}&pageSize=25`));

    await page.fill("#max_informed", "70");
    await page.press("#max_informed", "Tab");
    query += "&max_informed=70";
    const first = await site.markets(`${query}&pageSize=25`);
    await expectListed(page, first);
    await page.fill("#q", "finish AHEAD");
    const searched = await site.markets(`${query}&q=finish+ahead&pageSize=25`);
    expect(searched.total).toBeLessThan(first.total);
    expect(searched.total).toBeGreaterThan(25);
    await expectListed(page, searched);
    expect(await focusIsOn(page, "#q")).toBe(true);
    await page.fill("#q", "finis");
    await page.click(".pager a:text-is('finis*')");
    await expectListed(page, await site.markets(`${query}&q=finis*&pageSize=25`));
    await page.goBack();
    await expectListed(page, await site.markets(`${query}&q=finis&pageSize=25`));
    await page.goBack();
    await expectListed(page, first);
    await page.click("text=Clear all");
    await expectListed(page, await site.markets("pageSize=25"));
  });

  test("a month that flattens all others leaves them to be seen on a logarithmic scale", async () => {
    const { buckets } = (await facetsOf("by=month")).facets.month;
    const counts = buckets.map(({ count }: { count: number }) => count);
    const heights = () =>
      page
        .locator(".months .column")
        .evaluateAll((all) => all.map((each) => Math.round(Number(each.getAttribute("height")))));
    const most = Math.max(...counts);
    const plain = counts.map((count: number) => Math.round(Math.max(1.5, (100 * count) / most)));
    expect(await heights()).toEqual(plain);
    await page.click(".scale");
    expect(await heights()).toEqual(
      counts.map((count: number) => Math.round((100 * Math.log1p(count)) / Math.log1p(most))),
    );
    expect(await page.locator(".months .grid").count()).toBe(Math.floor(Math.log10(most)));
    await page.click(".scale");
    expect(await heights()).toEqual(plain);
  });

  test("arrow keys walk over a picture and choose from it", async () => {
    const { buckets }: { buckets: ScoreFacet["buckets"] } = (await facetsOf("by=composite")).facets.composite;
    const [, second, third] = buckets;
    await page.focus(".sheet .columns-chart");
    await page.keyboard.press("ArrowRight");
    const said = `${second!.from} to ${second!.to}: ${counted(second!.count)}`;
    expect(await page.textContent("svg:focus + .said")).toBe(said);
    expect(await page.getAttribute("svg:focus", "aria-valuetext")).toBe(said);
    await page.keyboard.press("Shift+ArrowRight");
    expect(await page.locator("svg:focus .hot").count()).toBe(2);
    await page.keyboard.press("Escape");
    expect(await page.locator("svg:focus .cold").count()).toBe(0);
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("Shift+ArrowRight");
    await page.keyboard.press("Enter");
    const query = `min_composite=${second!.from}&max_composite=${third!.to}`;
    await expectListed(page, await site.markets(`${query}&pageSize=25`));
    expect(await focusIsOn(page, ".sheet .columns-chart")).toBe(true);
    await page.click("a[data-key='remove min_composite']");
    await settled(page);
    await page.click("a[data-key='remove max_composite']");
    await expectListed(page, await site.markets("pageSize=25"));
  });

  test("on a phone the filters are a sheet that says how many markets they leave", async () => {
    const { width, height } = page.viewportSize()!;
    await page.setViewportSize({ width: 390, height: 844 });
    // The page hears of its new size a little later.
    await page.waitForSelector(".sheet", { state: "hidden" });
    await page.click("button:text-is('Filters')");
    await page.click("[data-key='tier FORGED']");
    const { total } = await site.markets("tier=FORGED&pageSize=1");
    await page.click(`.done >> text=Show ${grouped(total)} markets`);
    await page.waitForSelector(".sheet", { state: "hidden" });
    await expectListed(page, await site.markets("tier=FORGED&pageSize=25"));
    await page.click("button:text-is('Filters')");
    await page.waitForSelector(".sheet:modal");
    expect(watched.faults).toEqual([]);
    await page.setViewportSize({ width, height });
    await page.waitForSelector("[data-key='tier FORGED']");
    await page.click("a[data-key='remove tier']");
    await expectListed(page, await site.markets("pageSize=25"));
    // From the top of the page, the keyboard comes to the markets without a way through all choices.
    await page.focus(".skip");
    for (const key of ["Enter", "Tab", "Enter", "Tab"]) await page.keyboard.press(key);
    expect(await focusIsOn(page, ".question")).toBe(true);
  });

  test("the list is paged", async () => {
    const all = await site.markets("pageSize=25");
    const last = Math.ceil(all.total / 25);
    for (const [how, number] of [
      [() => page.click(".pager :text-is('Next')"), 2],
      [() => page.click(".pager :text-is('Last')"), last],
      [() => page.click(".pager :text-is('Previous')"), last - 1],
      [() => page.click(".pager :text-is('First')"), 1],
      [() => page.fill("#page", "3").then(() => page.click(".pager :text-is('Go')")), 3],
    ] as const) {
      await how();
      await expectListed(page, await site.markets(`pageSize=25&page=${number}`));
      expect(await page.inputValue("#page")).toBe(String(number));
    }
  });

  test("shares of disputed markets come with their intervals and numbers", async () => {
    await page.click(".tabs >> text=Do scores mean something?");
    await page.waitForSelector(".chart .first");
    expect(await page.locator(".chart .mean").count()).toBe(2);
    expect(await page.locator(".chart .second").count()).toBe(0);
    await page.click(".versions a:has-text('bri-pm-v1')");
    await page.waitForSelector(".chart .second");
    // One version beside another, never beside all, which contain it.
    const names = ["bri-pm-v1", "bri-pm-v2"] as const;
    expect(await page.locator(".legend span").allTextContents()).toEqual(["● bri-pm-v1", "◆ bri-pm-v2"]);
    expect(await page.locator(".chart .mean").count()).toBe(0);
    const asked = async (version: string) =>
      (await facetsOf(`by=composite,tier&formula_version=${version}`)).facets as {
        composite: ScoreFacet;
        tier: LabelFacet;
      };
    const [one, other] = [await asked(names[0]), await asked(names[1])];
    const wanted = (name: string, of: string, { count = 0, disputed = 0 } = {}) => {
      const percent = (share: number) => `${Number((100 * share).toFixed(share < 0.1 ? 1 : 0))} %`;
      const [low, high] = wilsonRoots(disputed, count);
      const known = count > 0;
      return [
        name,
        of,
        known ? percent(disputed / count) : "–",
        known ? `${percent(low)} to ${percent(high)}` : "–",
        grouped(count),
      ];
    };
    const tables = page.locator(".shares table");
    expect(await cellsOf(page, ".shares:nth-of-type(1) tbody tr")).toEqual(
      one.composite.buckets.flatMap((bucket, place) => [
        wanted(`${bucket.from}`, names[0], bucket),
        wanted(`${bucket.from}`, names[1], other.composite.buckets[place]),
      ]),
    );
    const ofTier = ({ tier }: { tier: LabelFacet }, name: string) =>
      tier.buckets.find(({ value }) => value === name);
    expect(await cellsOf(page, ".shares:nth-of-type(2) tbody tr")).toEqual(
      forgeTiers.flatMap((name) => [
        wanted(name, names[0], ofTier(one, name)),
        wanted(name, names[1], ofTier(other, name)),
      ]),
    );
    expect(await tables.count()).toBe(2);
    expect(await page.locator(".verdict").allTextContents()).toEqual(
      names.map((name) => expect.stringMatching(new RegExp(`^${name}: Below \\d+, .* interval from`))),
    );
    expect(watched.faults).toEqual([]);
    await page.goBack();
    await page.waitForSelector(".chart .second", { state: "detached" });
  });

  test("what matches is offered as files, and as lines to paste", async () => {
    await page.goto(`${site.home}#/archive?tier=RAW,CAST&disputed=false&show=file`);
    await page.waitForSelector(".take");
    const { proxy } = site;
    const key = bearer(site.aegis);
    for (const [name, type] of [
      ["CSV", "text/csv; bom=present"],
      ["NDJSON", "application/x-ndjson"],
    ] as const) {
      const line = (await page.textContent(`[aria-label="Command for ${name}"]`))!;
      const path = /"(http[^"]+)"/.exec(line)![1]!.replace(site.home, "/");
      expect(line).toContain(`-H "x-api-key: $KEY" -H "Accept: ${type}"`);
      const direct = await proxy.get(path, { headers: { ...key, accept: type } });
      expect(direct.status).toBe(200);
      const saved = page.waitForEvent("download");
      await page.click(`text=Download ${name}`);
      expect(String(await readFile(await (await saved).path()))).toBe(direct.text);
    }
    const saved = page.waitForEvent("download");
    await page.click("text=Download profile");
    const profile = JSON.parse(String(await readFile(await (await saved).path())));
    expect(profile).toEqual({
      shareCredentialsVersion: 1,
      endpoint: new URL("/delta-sharing/", site.home).href,
      bearerToken: site.aegis,
    });
    const shares = await proxy.get("/delta-sharing/shares", { headers: bearer(profile.bearerToken) });
    expect(shares.json().items).toEqual([{ name: "prs" }]);
    expect(watched.faults).toEqual([]);
  });

  test("a market has an address of its own, with evidence, computation and a proof to verify", async () => {
    const { markets } = await site.markets("pageSize=25");
    const record = markets.find(({ dimensions }) =>
      dimensions.some(({ evidence, computation }) => evidence.length > 0 && computation.raises.length > 0),
    )!;
    await page.goto(`${site.home}#/archive`);
    await page.click(`.question[href="#/markets/${record.id}"]`);
    await page.waitForSelector(".signals");
    await expectMarket(record);

    await page.click("text=Verify in this browser");
    await page.waitForSelector(".proven");
    const { snapshotId } = await site.api("status");
    expect(await page.textContent(".chain")).toContain(snapshotId);
    expect(await page.textContent(".chain")).toContain("Nobody signed it");
    expect(watched.faults).toEqual([]);
    // An answer that was changed on its way is found out.
    await page.route("**/proof?*", async (route) => {
      const answer = await (await route.fetch()).json();
      const market = answer.market.replace(/"composite":\d+/, '"composite":999');
      await route.fulfill({ json: { ...answer, market } });
    });
    await page.click("text=Verify in this browser");
    await page.waitForSelector("text=does not belong to the snapshot");
    expect(await page.locator(".proven").count()).toBe(0);
    await page.unroute("**/proof?*");
    await page.click("text=All markets");
    await page.waitForSelector(".market");
  });

  async function expectMarket(record: HistoricalMarket): Promise<void> {
    expect(await page.textContent("h1")).toBe(record.question);
    expect(await factsOf(page)).toMatchObject({
      Disputed: record.disputed ? "Yes" : "No",
      "Main risk driver": record.topRiskDriver,
      Identifier: record.id,
      "Formula version": record.formulaVersion,
    });
    const signals = page.locator(".signals > li");
    expect(await signals.locator("h3").allTextContents()).toEqual(record.dimensions.map(({ name }) => name));
    expect(await signals.locator(".score > :nth-child(2)").allTextContents()).toEqual(
      record.dimensions.map(({ score }) => `Risk ${score}`),
    );
    expect(await signals.locator(".score .quiet").allTextContents()).toEqual(
      record.dimensions.map(({ weight }) => `Weight ${weight}`),
    );
    for (const { computation } of record.dimensions)
      expect(await page.textContent(".signals")).toContain(`Baseline ${computation.baseline}`);
    const evidence = record.dimensions.flatMap((dimension) => dimension.evidence);
    const links = await signals
      .locator("a:not(.term)")
      .evaluateAll((all) =>
        all.map((each) => [each.getAttribute("href"), each.textContent, each.getAttribute("rel")]),
      );
    expect(links).toEqual(
      evidence.map(({ reference }) => [reference.url, reference.label, "noopener noreferrer"]),
    );
  }

  test("the key is forgotten on demand, and was left nowhere", async () => {
    expect(await tracesOf(watched, site.aegis)).toEqual([]);
    await page.click("text=Forget key");
    await page.waitForSelector("text=The archive needs a key");
    expect(await page.locator(".market").count()).toBe(0);
    expect(await page.textContent(".standing")).toMatch(/^Free plan/);
    expect(await tracesOf(watched, site.aegis)).toEqual([]);
    expect(watched.faults).toEqual([]);
  });
});

/**
 * Wilson's interval by its definition: the shares p from which the observed one lies z standard deviations, the roots
 * of (share − p)² = z² p (1 − p) / n.
 */
function wilsonRoots(hits: number, n: number): [number, number] {
  const share = hits / n;
  const bisect = (from: number, to: number) => {
    let [inside, outside] = [from, to];
    for (let step = 0; step < 60; step += 1) {
      const p = (inside + outside) / 2;
      if ((share - p) ** 2 <= (1.959964 ** 2 * p * (1 - p)) / n) inside = p;
      else outside = p;
    }
    return inside;
  };
  return [hits === 0 ? 0 : bisect(share, 0), hits === n ? 1 : bisect(share, 1)];
}
