import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { LabelFacet, ScoreDimensions, ScoreFacet, ScoreHistory } from "../../schemas/envelopes.ts";
import { meanings } from "../../schemas/meanings.ts";
import type { HistoricalMarket, ProtocolScore, ScoreListEntry } from "../../schemas/records.ts";
import { forgeTiers } from "../../schemas/scales.ts";
import { badgeColours } from "../../snapshots/artefacts/badge.ts";
import { bearer } from "../helpers/http/proxy-client.ts";
import { findChromium } from "../helpers/servers/chromium.ts";
import {
  enterKey,
  focusIsOn,
  openWatched,
  tracesOf,
  unsoundness,
  type WatchedPage,
} from "../helpers/servers/site-page.ts";
import { pictureFile, takePicture } from "../helpers/servers/site-picture.ts";
import {
  asRow,
  cellsOf,
  choicesOf,
  expectListed,
  factsOf,
  protocols,
  rowsOf,
  serveSite,
  spoken,
} from "../helpers/servers/site-served.ts";

const program = findChromium();
const root = new URL("../..", import.meta.url).pathname;

describe.skipIf(!program)("the site in Chromium", () => {
  const site = serveSite();
  let watched: WatchedPage;
  let page: Page;
  beforeAll(async () => {
    watched = await openWatched(site.browser, site.home);
    ({ page } = watched);
  });
  afterAll(() => watched?.context.close());

  const facetsOf = (query: string) => site.api(`markets/facets?${query}`);
  const grouped = (value: number) => value.toLocaleString("en");

  test("the scoreboard shows, filters and sorts what the API lists", async () => {
    const list = await site.scores();
    await page.waitForSelector("tbody tr");
    expect(await rowsOf(page)).toEqual(list.map(asRow));
    expect(await page.textContent(".count")).toBe(`${protocols} of ${protocols} protocols`);
    const firstRow = (await page.locator("tbody tr").first().boundingBox())!;
    expect(firstRow.y + firstRow.height).toBeLessThan(600);

    const { category, chain, tvl } = list[0]!;
    const finds: [text: string, found: (entry: ScoreListEntry) => boolean][] = [
      [" FI", (entry) => [entry.slug, entry.category, entry.chain].join(" ").toLowerCase().includes("fi")],
      [category, (entry) => entry.category === category],
      [`${chain.toLowerCase()}  ${category}`, (entry) => entry.category + entry.chain === category + chain],
      [tvl, (entry) => entry.tvl === tvl],
    ];
    for (const [text, isFound] of finds) {
      await page.fill("#filter", text);
      const found = list.filter(isFound);
      expect(found.length).toBeGreaterThan(0);
      expect(found.length).toBeLessThan(protocols);
      expect(await rowsOf(page)).toEqual(found.map(asRow));
      expect(await page.textContent(".count")).toBe(`${found.length} of ${protocols} protocols`);
    }
    await page.fill("#filter", "no such protocol");
    expect(await page.isVisible("text=No protocol matches")).toBe(true);
    await page.fill("#filter", "");

    await page.click("th button:has-text('TVL')");
    const amount = ({ tvl }: ScoreListEntry) =>
      Number(tvl.slice(1, -1)) * 1000 ** ["", "K", "M", "B", "T"].indexOf(tvl.at(-1)!);
    expect(await rowsOf(page)).toEqual(list.toSorted((a, b) => amount(b) - amount(a)).map(asRow));

    // One tier by its button, another by its part of the picture.
    await page.click(".chip:has-text('CAST')");
    await page.locator(".distribution .column.tier-6").first().click();
    const chosen = list.filter(({ forgeScale }) => ["CAST", "MITHRIL"].includes(forgeScale));
    expect(chosen.length).toBeGreaterThan(2);
    await page.click("th button:has-text('Confidence')");
    const down = chosen.toSorted((a, b) => b.confidence - a.confidence || (a.slug < b.slug ? -1 : 1));
    expect(await rowsOf(page)).toEqual(down.map(asRow));
    await page.click("th button:has-text('Confidence')");
    const up = chosen.toSorted((a, b) => a.confidence - b.confidence || (a.slug < b.slug ? -1 : 1));
    expect(await rowsOf(page)).toEqual(up.map(asRow));
    expect(await page.locator("[aria-sort]").allTextContents()).toEqual(["Confidence"]);
    expect(await page.getAttribute("[aria-sort]", "aria-sort")).toBe("ascending");
    expect(await unsoundness(watched)).toEqual([]);
  });

  test("of many protocols it draws those that are looked at, and all on demand", async () => {
    const [entry] = await site.scores();
    const scores = Array.from({ length: 300 }, (_, place) => ({
      ...entry,
      slug: `p${place}`,
      bri: 999 - place,
    }));
    const { page: other, context, faults } = await openWatched(site.browser, `${site.home}#/archive`);
    await other.route("**/api/v1/scores", (route) =>
      route.fulfill({ json: { count: 300, updatedAt: entry!.updatedAt, scores } }),
    );
    await other.click("nav >> text=Scores");
    await other.waitForSelector("text=300 of 300");
    const rows = other.locator(".board tbody tr");
    expect(await rows.count()).toBe(60);
    await rows.last().scrollIntoViewIfNeeded();
    await other.waitForSelector("tbody >> text=p100");
    await other.focus("text=/^Show \\d+ more/");
    await other.keyboard.press("Enter");
    await expect.poll(() => rows.count()).toBe(300);
    await other.fill("#filter", "p29");
    expect(await rows.count()).toBe(11);
    expect(faults).toEqual([]);
    await context.close();
  });

  test("numbers say what they mean, at a tap and at the focus", async () => {
    const shown = () => page.locator("#meaning:popover-open").allTextContents();
    expect(await page.locator("[data-meaning]").count()).toBeGreaterThan(20);
    for (const [column, about] of [
      ["TVL", "tvl"],
      ["BRI", "bri"],
      ["Tier", "tier"],
      ["Confidence", "confidence"],
      ["Change", "delta"],
    ] as const) {
      await page.locator(`td[data-name=${column}]`).first().click();
      expect(await shown()).toEqual([meanings[about].meaning]);
      await page.keyboard.press("Escape");
      expect(await shown()).toEqual([]);
      await page.locator(`th button:has-text('${column}')`).focus();
      expect(await shown()).toEqual([meanings[about].meaning]);
      const described = await page.getAttribute(":focus", "aria-describedby");
      expect(await page.textContent(`#${described}`)).toBe(meanings[about].meaning);
    }
    await page.click("h1");
    expect(await shown()).toEqual([]);
  });

  test("a protocol's page has the numbers of its record, and its place among all", async () => {
    const slug = (await page.textContent("tbody tr th a"))!;
    const record: ProtocolScore = await site.api(`scores/${slug}`);
    const list = await site.scores();
    await page.click("tbody tr th a");
    await page.waitForSelector(".among .columns-chart");
    expect(await focusIsOn(page, "h1")).toBe(true);
    expect([await page.textContent("h1"), await page.title()]).toEqual([
      slug,
      `${slug} · Protocol Risk Scores`,
    ]);
    const { bri, delta, cascade, findings, metadata } = record;
    expect(await page.textContent(".bri b")).toBe(String(bri));
    const place = list.filter((entry) => entry.bri > bri).length + 1;
    expect(await page.textContent(".among p")).toContain(`Place ${place} of ${protocols}`);
    expect(await page.locator(".among .hot .column").count()).toBeGreaterThan(0);
    expect(await cellsOf(page, ".dimensions tbody tr")).toEqual(
      Object.entries(record.dimensions).map(([key, value]) => [spoken(key), String(value)]),
    );
    expect(await factsOf(page)).toMatchObject({
      Tier: record.forgeScale,
      "Since the last run": expect.stringContaining(`${bri - delta} → ${bri}`),
      Confidence: `${record.confidence} of 100`,
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
    const badge = (await page.textContent(".badge code"))!;
    expect(badge).toContain(`${slug}: BRI ${bri}, ${record.forgeScale}`);
    expect(badge).toMatch(/^<svg xmlns="http:\/\/www\.w3\.org\/2000\/svg" [\s\S]*<\/svg>$/);
    expect(badge.length).toBeLessThan(1500);
    expect(badge).toContain(`fill="${badgeColours[record.forgeScale]}"`);
    // What a key opens is said in words: a picture would pass for data.
    expect(await page.textContent(".promise")).toContain("With a Developer or Aegis key");
    expect(await page.locator(".promise svg, .chart").count()).toBe(0);
    expect(await unsoundness(watched)).toEqual([]);
  });

  test("a key brings history and moves, and what is left of its quota", async () => {
    const slug = (await page.textContent("h1"))!;
    await enterKey(page, site.aegis);
    await page.waitForSelector("#history ~ .frame .point");
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

    // On the scoreboard a row opens to the same curve.
    await page.click("text=All scores");
    await page.click(`button[aria-label="Curve of ${slug}"]`);
    await page.waitForSelector(".curve .point");
    expect(await page.locator(".curve .point").count()).toBe(points.length);
    const { remaining } = await site.api("usage", site.aegis);
    expect(await page.textContent(".standing")).toContain(`${grouped(remaining)} of 100,000`);
    expect(await unsoundness(watched)).toEqual([]);
    await page.click(`button[aria-label="Curve of ${slug}"]`);
    expect(await page.locator(".curve").count()).toBe(0);
  });

  test("the archive counts beside every choice what that choice leads to", async () => {
    await page.click("nav >> text=Archive");
    await expectListed(page, await site.markets("pageSize=25"));
    expect(await focusIsOn(page, "h1")).toBe(true);
    await page.waitForSelector(".choices a");
    expect(await unsoundness(watched)).toEqual([]);

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
    expect(await unsoundness(watched)).toEqual([]);
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
    expect(await unsoundness(watched)).toEqual([]);
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
    expect(await unsoundness(watched)).toEqual([]);
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
      Formula: record.formulaVersion,
    });
    const signals = page.locator(".signals > li");
    expect(await signals.locator("h3").allTextContents()).toEqual(record.dimensions.map(({ name }) => name));
    expect(await signals.locator(".score > :nth-child(2)").allTextContents()).toEqual(
      record.dimensions.map(({ score }) => `Risk ${score}`),
    );
    expect(await signals.locator(".score .quiet").allTextContents()).toEqual(
      record.dimensions.map(({ weight }) => `weight ${weight}`),
    );
    for (const { computation } of record.dimensions)
      expect(await page.textContent(".signals")).toContain(`Baseline ${computation.baseline}`);
    const evidence = record.dimensions.flatMap((dimension) => dimension.evidence);
    const links = await signals
      .locator("a")
      .evaluateAll((all) =>
        all.map((each) => [each.getAttribute("href"), each.textContent, each.getAttribute("rel")]),
      );
    expect(links).toEqual(
      evidence.map(({ reference }) => [reference.url, reference.label, "noopener noreferrer"]),
    );
  }

  test("has a picture in the README, which can be taken anew", async () => {
    const readme = await readFile(join(root, "README.md"), "utf8");
    expect(readme).toContain(`](${pictureFile})`);
    for (const picture of [
      await readFile(join(root, pictureFile)),
      await takePicture(site.browser, site.home, site.aegis),
    ]) {
      expect(picture.subarray(1, 4).toString()).toBe("PNG");
      expect(picture.readUInt32BE(16)).toBe(960);
      expect(picture.length).toBeLessThan(200_000);
    }
  });

  test("the key is forgotten on demand, and was left nowhere", async () => {
    expect(await tracesOf(watched, site.aegis)).toEqual([]);
    await page.click("text=Forget key");
    await page.waitForSelector("text=The archive needs a key");
    expect(await page.locator(".market").count()).toBe(0);
    expect(await page.textContent(".standing")).toMatch(/^Free plan/);
    expect(await tracesOf(watched, site.aegis)).toEqual([]);
    expect(await unsoundness(watched)).toEqual([]);
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
