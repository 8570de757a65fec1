import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { ScoreDimensions, ScoreHistory } from "../../schemas/envelopes.ts";
import { marketDimensionKeys } from "../../schemas/market.ts";
import { dimensionMeanings, meanings } from "../../schemas/meanings.ts";
import { ago, minutes, nameOf } from "../../schemas/names.ts";
import type { ProtocolScore, ScoreListEntry } from "../../schemas/records.ts";
import { badgeColours } from "../../snapshots/artefacts/badge.ts";
import { bearer } from "../helpers/http/proxy-client.ts";
import { findChromium } from "../helpers/servers/chromium.ts";
import { enterKey, focusIsOn, openWatched, type WatchedPage } from "../helpers/servers/site-page.ts";
import { pictureFile, takePicture } from "../helpers/servers/site-picture.ts";
import {
  asRow,
  cellsOf,
  factsOf,
  protocols,
  rowsOf,
  serveSite,
  spoken,
} from "../helpers/servers/site-served.ts";

const program = findChromium();
const root = new URL("../..", import.meta.url).pathname;

describe.skipIf(!program)("the site's scores in Chromium", () => {
  const site = serveSite();
  let watched: WatchedPage;
  let page: Page;
  beforeAll(async () => {
    watched = await openWatched(site.browser, site.home);
    ({ page } = watched);
  });
  afterAll(() => watched?.context.close());

  const grouped = (value: number) => value.toLocaleString("en");

  test("the scoreboard shows, filters and sorts what the API lists", async () => {
    const list = await site.scores();
    await page.waitForSelector("tbody tr");
    expect(await rowsOf(page)).toEqual(list.map(asRow));
    expect(await page.textContent(".count")).toBe(`${protocols} of ${protocols} protocols`);
    const size = ({ delta }: ScoreListEntry) => Math.abs(delta);
    const sorted = list.toSorted((a, b) => size(b) - size(a));
    const movers = sorted.slice(0, 5);
    const equal = sorted.filter((entry) => size(entry) === size(movers[4]!)).length;
    const more = equal - movers.filter((entry) => size(entry) === size(movers[4]!)).length;
    expect(more).toBeGreaterThan(0);
    const day = list[0]!.updatedAt.slice(0, 10);
    expect(await page.textContent(".movers")).toBe(
      `Moved most in their last run, of those that ran on ${day}: ` +
        movers.map((entry) => `${nameOf(entry.slug)} ${asRow(entry)[7]}`).join(", ") +
        `, and ${more} more by ${size(movers[4]!)} up or down`,
    );
    const newest = list
      .map(({ updatedAt }) => updatedAt)
      .sort()
      .at(-1)!;
    expect(await page.textContent("main")).toContain(
      `Updated ${minutes(newest)}, ${ago(newest, Date.now())}.`,
    );
    const firstRow = (await page.locator("tbody tr").first().boundingBox())!;
    expect(firstRow.y + firstRow.height).toBeLessThan(600);

    const { slug, category, chain, tvl } = list[0]!;
    const finds: [text: string, found: (entry: ScoreListEntry) => boolean][] = [
      [" FI", (entry) => [entry.slug, entry.category, entry.chain].join(" ").toLowerCase().includes("fi")],
      // As the page spells it, and as the address does.
      [nameOf(slug), (entry) => entry.slug === slug],
      [slug, (entry) => entry.slug === slug],
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
    expect(watched.faults).toEqual([]);
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
    const slug = (await page.getAttribute("tbody tr th a", "href"))!.replace("#/protocols/", "");
    const record: ProtocolScore = await site.api(`scores/${slug}`);
    const list = await site.scores();
    await page.click("tbody tr th a");
    await page.waitForSelector(".among .columns-chart");
    expect(await focusIsOn(page, "h1")).toBe(true);
    expect([await page.textContent("h1"), await page.title()]).toEqual([
      nameOf(slug),
      `${nameOf(slug)} · Protocol Risk Scores`,
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
      Change: expect.stringContaining(`${bri - delta} → ${bri}`),
      Confidence: `${record.confidence} of 100`,
      Updated: `${minutes(record.updatedAt)}, ${ago(record.updatedAt, Date.now())}`,
      "Blast radius": String(cascade.blastRadius),
      "Upstream dependencies": String(cascade.upstreamDeps),
      Critical: String(findings.critical),
      High: String(findings.high),
      Medium: String(findings.medium),
      "Name in addresses": slug,
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
    expect(watched.faults).toEqual([]);
  });

  test("a key brings history and moves, and what is left of its quota", async () => {
    const slug = new URL(page.url()).hash.replace("#/protocols/", "");
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
    await page.click(`button[aria-label="Curve of ${nameOf(slug)}"]`);
    await page.waitForSelector(".curve .point");
    expect(await page.locator(".curve .point").count()).toBe(points.length);
    const { remaining } = await site.api("usage", site.aegis);
    expect(await page.textContent(".standing")).toContain(`${grouped(remaining)} of 100,000`);
    expect(watched.faults).toEqual([]);
    await page.click(`button[aria-label="Curve of ${nameOf(slug)}"]`);
    expect(await page.locator(".curve").count()).toBe(0);
  });

  test("a chart can be taken along: its data, its picture, and how to cite it", async () => {
    const { page: other, context, faults } = await openWatched(site.browser, site.home);
    /** Opens the panel of a chart. */
    async function take(chart: string) {
      const panel = other.locator(`${chart} .take-along`).last();
      await panel.locator("summary").click();
      const told = async (name: string) => (await panel.getByRole("textbox", { name }).textContent()) ?? "";
      await panel.getByRole("textbox", { name: "Citation" }).waitFor();
      const saved = async (name: string, nth = 0) => {
        const download = other.waitForEvent("download");
        await panel.locator(`.files button:text-is('${name}')`).nth(nth).click();
        return readFile(await (await download).path());
      };
      return { panel, told, saved };
    }
    const csv = async (path: string) => {
      const headers = { ...bearer(site.aegis), accept: "text/csv; bom=present" };
      return (await site.proxy.get(`/api/v1/${path}`, { headers })).text;
    };
    const { snapshotId } = await site.api("status");
    const list = await site.scores();
    const [{ slug }] = list as [ScoreListEntry];

    // Nobody without a key is told of an earlier state, so the address is said to move on.
    const free = await take("#main");
    expect(await free.told("Data as JSON")).toBe(
      `curl -sS --fail --compressed "${site.home}api/v1/scores" -o scores.json`,
    );
    expect(await free.told("Citation")).toMatch(
      new RegExp(`snapshot ${snapshotId}, published 20.*/api/v1/scores \\(goes on to later scores\\)$`),
    );
    expect(await free.panel.textContent()).toContain("An earlier state takes a Developer key.");
    expect(String(await free.saved("CSV"))).toBe(await csv("scores"));
    expect(JSON.parse(String(await free.saved("JSON"))).scores).toEqual(list);
    const picture = String(await free.saved("SVG"));
    expect(picture).toMatch(/^<svg .*The BRI of all protocols.*BRI 500.*snapshot [0-9a-f]{64}/s);
    expect(picture).not.toMatch(/ class=|var\(/);
    const png = await free.saved("PNG");
    const [width, height] = /width="(\d+)" height="(\d+)"/.exec(picture)!.slice(1).map(Number);
    expect(png.toString("latin1", 1, 4)).toBe("PNG");
    expect([png.readUInt32BE(16) / width!, png.readUInt32BE(20) / height!].map(Math.round)).toEqual([2, 2]);

    await enterKey(other, site.aegis);
    const asOf = `asOf=${snapshotId}`;
    const pinned = async (chart: string, paths: string[], picture = "") => {
      const { told, saved } = await take(chart);
      const cited = await told("Citation");
      for (const [index, path] of paths.entries()) {
        expect([chart, cited]).toEqual([chart, expect.stringContaining(`${site.home}api/v1/${path}`)]);
        expect(String(await saved("CSV", index))).toBe(await csv(path));
      }
      expect(cited).not.toContain("later");
      if (picture) expect(String(await saved("SVG"))).toContain(picture);
    };
    await other.goto(`${site.home}#/protocols/${slug}`);
    await other.waitForSelector("#history ~ .take-along");
    // The service tells of changes of tier too. One snapshot has none.
    await other.waitForSelector("text=None. The log has the changes of at most 30 days");
    await pinned("#main", [`scores/${slug}/history?${asOf}`], "<polyline");
    const peer = list[1]!.slug;
    await other.goto(`${site.home}#/compare/${slug},${peer}`);
    await other.waitForSelector(".compared-protocols");
    await pinned("#main", [`scores/${slug}?${asOf}`, `scores/${peer}?${asOf}`]);
    await other.goto(`${site.home}#/archive?min_composite=400&show=score`);
    await other.waitForSelector(".shares svg");
    await pinned(".months", [`markets/facets?by=month&min_composite=400&${asOf}`], "<rect");
    await pinned(".facet:has(#min_composite)", [`markets/facets?by=composite&${asOf}`], "<rect");
    await pinned(".side", [`markets/facets?by=tier&min_composite=400&${asOf}`], "<circle");
    expect(faults).toEqual([]);
    await context.close();
  });

  test("protocols stand side by side, one click from their rows, and dimensions say what they mean", async () => {
    const { page: other, context, ...rest } = await openWatched(site.browser, site.home);
    const [first, ...list] = await site.scores();
    const peer = list.find(({ category }) => category === first!.category)!;
    await other.click(".board .compare");
    const shown = [first!.slug, peer.slug];
    await other.waitForURL(`${site.home}#/compare/${shown}`);
    const third = list.find(({ slug }) => slug !== peer.slug)!.slug;
    await other.selectOption("#add", third);
    await other.click("text=Add");
    await other.waitForURL(`${site.home}#/compare/${[...shown, third]}`);
    await other.click(`[aria-label='Take ${nameOf(peer.slug)} away']`);
    // As a link that somebody was sent.
    await other.goto("about:blank");
    await other.goto(`${site.home}#/compare/${[...shown, "no-such-one"]}`);
    await other.waitForSelector("text=No protocol is scored under the name no-such-one.");
    const records: ProtocolScore[] = await Promise.all(shown.map((slug) => site.api(`scores/${slug}`)));
    expect(await other.locator(".compared-protocols thead a:not(.away)").allTextContents()).toEqual(
      shown.map(nameOf),
    );
    const rows = await cellsOf(other, ".compared-protocols tr:has(td)");
    const keys = Object.keys(records[0]!.dimensions) as (keyof ProtocolScore["dimensions"])[];
    expect(rows).toEqual(
      expect.arrayContaining([
        ["BRI", ...records.map(({ bri }) => String(bri))],
        ["Place by BRI", `1 of ${protocols}`, `${list.indexOf(peer) + 2} of ${protocols}`],
        ...keys.map((key) => [spoken(key), ...records.map(({ dimensions }) => String(dimensions[key]))]),
        ["Category", first!.category, first!.category],
      ]),
    );
    const spread = (key: (typeof keys)[number]) =>
      Math.abs(records[0]!.dimensions[key] - records[1]!.dimensions[key]);
    const widest = keys.toSorted((a, b) => spread(b) - spread(a))[0]!;
    expect(await other.textContent("main p:has(.term)")).toContain(`They differ most in ${spoken(widest)} (`);
    expect(rest.faults).toEqual([]);

    await other.click("tbody >> text=Liquidity");
    await other.waitForSelector("text=What the numbers mean");
    expect(Object.keys(dimensionMeanings.protocol)).toEqual(keys);
    expect(Object.keys(dimensionMeanings.market)).toEqual(marketDimensionKeys);
    expect(await other.textContent("[aria-current=true] dd")).toBe(dimensionMeanings.protocol.liquidity);
    expect(rest.faults).toEqual([]);
    await context.close();
  });

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
});
