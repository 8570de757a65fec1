import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeAll, describe, expect, test } from "vitest";
import type { ScoreDimensions, ScoreHistory } from "../../schemas/envelopes.ts";
import { marketDimensionKeys } from "../../schemas/market.ts";
import { dimensionMeanings, meanings } from "../../schemas/meanings.ts";
import { ago, minutes, nameOf } from "../../schemas/names.ts";
import type { ProtocolScore, ScoreListEntry } from "../../schemas/records.ts";
import { badgeColours } from "../../snapshots/artefacts/badge.ts";
import { bearer } from "../helpers/http/proxy-client.ts";
import { findChromium } from "../helpers/servers/chromium.ts";
import { pictureFile, takePicture } from "../helpers/servers/site-picture.ts";
import { asRow, protocols, serveSite, spoken } from "../helpers/servers/site-served.ts";
import { layoutOf } from "./pages/charts.ts";
import { alter, isFocused } from "./pages/look.ts";
import { type Visit, visit } from "./pages/visit.ts";

const program = findChromium();
const root = new URL("../..", import.meta.url).pathname;

describe.skipIf(!program)("the site's scores in Chromium:", () => {
  const site = serveSite();
  let reader: Visit;
  let list: ScoreListEntry[];
  let slug: string;
  beforeAll(async () => {
    reader = await visit(site, "", { shared: true });
    list = await site.scores();
    slug = list[0]!.slug;
  });
  afterEach(() => expect(reader.faults).toEqual([]));

  describe("the scoreboard", () => {
    const expectRows = async (entries: readonly ScoreListEntry[]) =>
      expect(await reader.scoreboard.shown()).toEqual(entries.map(asRow));
    test("shows what the API lists, from the first screen on", async () => {
      const { scoreboard, shell } = reader;
      await scoreboard.rows.first().waitFor();
      await expectRows(list);
      expect(await scoreboard.count.textContent()).toBe(`${protocols} of ${protocols} protocols`);
      const newest = list.map(({ updatedAt }) => updatedAt).sort();
      const time = newest.at(-1)!;
      expect(await shell.main.textContent()).toContain(`Updated ${minutes(time)}, ${ago(time, Date.now())}.`);
      const { y, height } = (await scoreboard.rows.first().boundingBox())!;
      expect(y + height).toBeLessThan(600);
    });

    test("says which protocols moved most, and how many moved as much as the last of them", async () => {
      const size = ({ delta }: ScoreListEntry) => Math.abs(delta);
      const movers = list.toSorted((a, b) => size(b) - size(a)).slice(0, 5);
      const least = size(movers[4]!);
      const as = (entries: readonly ScoreListEntry[]) =>
        entries.filter((entry) => size(entry) === least).length;
      const more = as(list) - as(movers);
      expect(more).toBeGreaterThan(0);
      const spelled = { day: "numeric", month: "long", timeZone: "UTC" } as const;
      const day = new Date(list[0]!.updatedAt).toLocaleDateString("en-GB", spelled);
      expect(await reader.scoreboard.movers.textContent()).toBe(
        `Biggest moves on ${day}: ` +
          movers.map((entry) => `${nameOf(entry.slug)} ${asRow(entry)[7]}`).join(", ") +
          `, and ${more} more by ${least} up or down · What changed this week`,
      );
    });

    test("finds by any words of name, category, chain and TVL", async () => {
      const { scoreboard } = reader;
      const { category, chain, tvl } = list[0]!;
      const finds: [text: string, found: (entry: ScoreListEntry) => boolean][] = [
        [" FI", (entry) => /fi/i.test([entry.slug, entry.category, entry.chain].join(" "))],
        // As the page spells it, and as the address does.
        [nameOf(slug), (entry) => entry.slug === slug],
        [slug, (entry) => entry.slug === slug],
        [category, (entry) => entry.category === category],
        [`${chain.toLowerCase()}  ${category}`, (entry) => entry.category + entry.chain === category + chain],
        [tvl, (entry) => entry.tvl === tvl],
      ];
      for (const [text, isFound] of finds) {
        await scoreboard.filter.fill(text);
        const found = list.filter(isFound);
        expect(found.length).toBeGreaterThan(0);
        expect(found.length).toBeLessThan(protocols);
        await expectRows(found);
        expect(await scoreboard.count.textContent()).toBe(`${found.length} of ${protocols} protocols`);
      }
      await scoreboard.filter.fill("no such protocol");
      expect(await scoreboard.nothing.isVisible()).toBe(true);
      await scoreboard.filter.fill("");
    });

    test("sorts amounts by what they are, and tiers are chosen in the picture too", async () => {
      const { scoreboard } = reader;
      const amount = ({ tvl }: ScoreListEntry) =>
        Number(tvl.slice(1, -1)) * 1000 ** ["", "K", "M", "B", "T"].indexOf(tvl.at(-1)!);
      await scoreboard.sort("TVL").click();
      expect(await scoreboard.sorted.allTextContents()).toEqual(["TVL"]);
      expect(await scoreboard.sorted.getAttribute("aria-sort")).toBe("descending");
      const amounts = list.toSorted((a, b) => amount(b) - amount(a));
      await expectRows(amounts);
      // The margin of the picture stands for no tier.
      await scoreboard.distribution.click({ position: { x: 3, y: 3 } });
      expect(await scoreboard.pressed.count()).toBe(0);
      await scoreboard.pieceOf(6).click();
      await expectRows(amounts.filter(({ forgeScale }) => forgeScale === "MITHRIL"));
    });

    test("of many protocols draws those that are looked at, and all on demand", async () => {
      const scores = Array.from({ length: 300 }, (_, n) => ({ ...list[0], slug: `p${n}`, bri: 999 - n }));
      const { page, scoreboard, look } = await visit(site, "#/archive");
      const json = { count: 300, updatedAt: list[0]!.updatedAt, scores };
      await page.route("**/api/v1/scores", (route) => route.fulfill({ json }));
      await look("Scores");
      await page.getByText("300 of 300").waitFor();
      expect(await scoreboard.rows.count()).toBe(60);
      await scoreboard.rows.last().scrollIntoViewIfNeeded();
      await scoreboard.protocol("P100").waitFor();
      await scoreboard.more.focus();
      await page.keyboard.press("Enter");
      await expect.poll(() => scoreboard.rows.count()).toBe(300);
      await scoreboard.filter.fill("p29");
      expect(await scoreboard.rows.count()).toBe(11);
    });

    test("says what its numbers mean, at a tap and at the focus", async () => {
      const { scoreboard, shell, page } = reader;
      expect(await scoreboard.terms.count()).toBeGreaterThan(20);
      const columns = {
        TVL: "tvl",
        BRI: "bri",
        Tier: "tier",
        Confidence: "confidence",
        Change: "delta",
      } as const;
      for (const [column, about] of Object.entries(columns)) {
        await scoreboard.cell(column).click();
        expect(await scoreboard.meaning()).toEqual([meanings[about].meaning]);
        await page.keyboard.press("Escape");
        expect(await scoreboard.meaning()).toEqual([]);
        await scoreboard.sort(column).focus();
        expect(await scoreboard.meaning()).toEqual([meanings[about].meaning]);
        expect(await scoreboard.described()).toBe(meanings[about].meaning);
      }
      await shell.heading.click();
      expect(await scoreboard.meaning()).toEqual([]);
    });
  });

  describe("a protocol's page", () => {
    let shown: string;
    let record: ProtocolScore;
    beforeAll(async () => {
      const { scoreboard, protocol } = reader;
      const link = scoreboard.protocols.first();
      shown = (await link.getAttribute("href"))!.replace("#/protocols/", "");
      record = await site.api(`scores/${shown}`);
      await link.click();
      await protocol.amongPicture.waitFor();
    });

    test("has the focus on its heading, and the numbers of its record", async () => {
      const { protocol, shell, page } = reader;
      expect(await isFocused(shell.heading)).toBe(true);
      expect(await shell.heading.textContent()).toBe(nameOf(shown));
      expect(await page.title()).toBe(`${nameOf(shown)} · Protocol Risk Scores`);
      const { bri, delta, cascade, findings, metadata } = record;
      expect(await protocol.bri.textContent()).toBe(String(bri));
      expect(await protocol.dimensions()).toEqual(
        Object.entries(record.dimensions).map(([key, value]) => [spoken(key), String(value)]),
      );
      expect(await protocol.facts()).toMatchObject({
        Tier: record.forgeScale,
        Change: expect.stringContaining(`${bri - delta} → ${bri}`),
        Confidence: `${record.confidence} of 100`,
        Updated: `${minutes(record.updatedAt)}, ${ago(record.updatedAt, Date.now())}`,
        "Blast radius": String(cascade.blastRadius),
        "Upstream dependencies": String(cascade.upstreamDeps),
        Critical: String(findings.critical),
        High: String(findings.high),
        Medium: String(findings.medium),
        "Name in addresses": shown,
        Category: metadata.category,
        Chain: metadata.chain,
        "Value locked (TVL)": metadata.tvl,
        Contracts: String(metadata.contracts),
        "Z factor": String(metadata.zFactor),
      });
      expect(await protocol.evidence.textContent()).toBe(record.evidenceHash);
    });

    test("says the protocol's place among all, and what a key opens in words", async () => {
      const { protocol, shell } = reader;
      const place = list.filter((entry) => entry.bri > record.bri).length + 1;
      expect(await protocol.among.textContent()).toContain(`Place ${place} of ${protocols}`);
      expect(await protocol.amongColumns.count()).toBeGreaterThan(0);
      // A picture would pass for data.
      expect(await shell.promise.textContent()).toContain("With a Developer or Aegis key");
      expect(await shell.promise.locator("svg").or(protocol.charts).count()).toBe(0);
    });

    test("has a badge that needs nothing else", async () => {
      const badge = (await reader.protocol.badgeSource.first().textContent())!;
      expect(badge).toContain(`${shown}: BRI ${record.bri}, ${record.forgeScale}`);
      expect(badge).toMatch(/^<svg xmlns="http:\/\/www\.w3\.org\/2000\/svg" [\s\S]*<\/svg>$/);
      expect(badge.length).toBeLessThan(1500);
      expect(badge).toContain(`fill="${badgeColours[record.forgeScale]}"`);
    });

    test("shows history and moves with a key", async () => {
      const { protocol, shell } = reader;
      await shell.enterKey(site.aegis);
      expect(await isFocused(shell.forgetKey)).toBe(true);
      await protocol.points.first().waitFor();
      await protocol.percentiles.waitFor();
      const { points }: ScoreHistory = await site.api(`scores/${shown}/history`);
      expect(points.length).toBeGreaterThan(5);
      expect(await protocol.points.count()).toBe(points.length);
      await protocol.openTable();
      expect((await protocol.runs()).map(([, ...run]) => run.slice(0, 3))).toEqual(
        points.map(({ bri, forgeScale, confidence }) => [String(bri), forgeScale, String(confidence)]),
      );
      const { dimensions }: ScoreDimensions = await site.api(`scores/${shown}/dimensions`);
      const moves = await protocol.dimensions();
      const number = (text = "") => Number(/[+−]?\d+$/u.exec(text)?.[0].replace("−", "-"));
      const told = moves.map(([name, score, change, place]) => [name, score, number(change), place]);
      expect(told).toEqual(
        dimensions.map(({ key, score, change7d, percentile }) => [
          ...[spoken(key), String(score), change7d, String(percentile)],
        ]),
      );
    });

    test("leads back to the scoreboard, where a row opens to the same curve, and the quota is said", async () => {
      const { protocol, scoreboard, shell } = reader;
      await protocol.allScores.click();
      const curve = scoreboard.curveOf(nameOf(shown));
      await curve.click();
      await scoreboard.curvePoints.first().waitFor();
      const { points }: ScoreHistory = await site.api(`scores/${shown}/history`);
      expect(await scoreboard.curvePoints.count()).toBe(points.length);
      const { remaining } = await site.api("usage", site.aegis);
      expect(await shell.standing.textContent()).toContain(`${remaining.toLocaleString("en")} of 100,000`);
      await curve.click();
      expect(await scoreboard.curve.count()).toBe(0);
    });
  });

  describe("a chart can be taken along", () => {
    let asOf: string;
    beforeAll(async () => {
      asOf = (await site.api("status")).snapshotId;
    });
    const csv = async (path: string) => {
      const headers = { ...bearer(site.aegis), accept: "text/csv; bom=present" };
      return (await site.proxy.get(`/api/v1/${path}`, { headers })).text;
    };

    test("without a key: its data, its picture, and how to cite it, at an address that moves on", async () => {
      const { page, shell, takeAlong } = await visit(site);
      const { panel, told, saved } = await takeAlong(shell.main);
      expect(await told("Data as JSON")).toBe(
        `curl -sS --fail --compressed "${site.home}api/v1/scores" -o scores.json`,
      );
      expect(await told("Citation")).toMatch(
        new RegExp(`snapshot ${asOf}, published 20.*/api/v1/scores \\(goes on to later scores\\)$`),
      );
      // Nobody without a key is told of an earlier state.
      expect(await panel.textContent()).toContain("An earlier state takes a Developer key.");
      expect(String(await saved("CSV"))).toBe(await csv("scores"));
      expect(JSON.parse(String(await saved("JSON"))).scores).toEqual(list);
      const picture = String(await saved("SVG"));
      expect(picture).toMatch(/^<svg .*The BRI of all protocols.*snapshot [0-9a-f]{64}.*500.*>BRI</s);
      expect(picture).not.toMatch(/ class=|var\(/);
      expect(await layoutOf(page, picture)).toEqual({ width: 1200, cut: [] });
      // Behind the columns, a band for each tier that there is.
      const tiers = new Set(list.map(({ forgeScale }) => forgeScale));
      expect(picture.match(/<rect [^>]*opacity="0\.1"/g)).toHaveLength(tiers.size);
      const png = await saved("PNG");
      const [width, height] = /width="(\d+)" height="(\d+)"/.exec(picture)!.slice(1).map(Number);
      expect(png.toString("latin1", 1, 4)).toBe("PNG");
      expect([png.readUInt32BE(16) / width!, png.readUInt32BE(20) / height!].map(Math.round)).toEqual([2, 2]);
    });

    test("with a key: every chart, pinned to the state that is shown", async () => {
      const reader = await visit(site, "", { key: site.aegis });
      const { page, shell, takeAlong, goTo, protocol, compare, archive } = reader;
      const expectPinned = async (within: typeof shell.main, paths: string[], picture = "", title = "") => {
        const { told, saved } = await takeAlong(within, title);
        const cited = await told("Citation");
        for (const [index, path] of paths.entries()) {
          expect(cited).toContain(`${site.home}api/v1/${path}`);
          expect(String(await saved("CSV", index)), path).toBe(await csv(path));
        }
        expect(cited).not.toContain("later");
        if (picture === "") return "";
        const drawn = String(await saved("SVG"));
        expect(drawn).toContain(picture);
        expect(await layoutOf(page, drawn), cited).toEqual({ width: 1200, cut: [] });
        return drawn;
      };
      await goTo(`#/protocols/${slug}`);
      await protocol.points.first().waitFor();
      // The service tells of changes of tier too. One snapshot has none.
      await protocol.noTierMoves.waitFor();
      await expectPinned(shell.main, [`scores/${slug}/history?asOf=${asOf}`], "<polyline");
      const peer = list[1]!.slug;
      await goTo(`#/compare/${slug},${peer}`);
      await compare.table.waitFor();
      await expectPinned(shell.main, [`scores/${slug}?asOf=${asOf}`, `scores/${peer}?asOf=${asOf}`]);
      await goTo("#/archive?min_composite=400&show=score");
      await archive.shares.sections.locator("svg").first().waitFor();
      const facets = `markets/facets?by=tier&min_composite=400&asOf=${asOf}`;
      expect(await expectPinned(archive.side, [facets], "<circle")).toMatch(
        /Share of disputed markets by tier.*n = [\d,]+ markets · Composite ≥ 400.*snapshot [0-9a-f]{64}/s,
      );
      for (const [chart, more] of [
        ["month", "&min_composite=400"],
        ["composite", ""],
      ] as const) {
        const path = `markets/facets?by=${chart}${more}&asOf=${asOf}`;
        await expectPinned(archive.histograms, [path], "<rect", `Resolved markets by ${chart}`);
      }
    });
  });

  test("protocols stand side by side, one click from their rows", async () => {
    const { page, scoreboard, compare, dimension, meanings, arriveAt } = await visit(site);
    const [first, ...others] = list;
    const peer = others.find(({ category }) => category === first!.category)!;
    const shown = [slug, peer.slug];
    await scoreboard.compareFirst.click();
    await page.waitForURL(`${site.home}#/compare/${shown}`);
    const third = others.find(({ slug }) => slug !== peer.slug)!.slug;
    await compare.add(third);
    await page.waitForURL(`${site.home}#/compare/${[...shown, third]}`);
    await compare.takeAway(nameOf(peer.slug));
    await arriveAt(`#/compare/${[...shown, "no-such-one"]}`);
    await page.getByText("No protocol is scored under the name no-such-one.").waitFor();
    expect(await compare.protocols.allTextContents()).toEqual(shown.map(nameOf));
    const records: ProtocolScore[] = await Promise.all(shown.map((slug) => site.api(`scores/${slug}`)));
    const keys = Object.keys(records[0]!.dimensions) as (keyof ProtocolScore["dimensions"])[];
    expect(await compare.rows()).toEqual(
      expect.arrayContaining([
        ["BRI", ...records.map(({ bri }) => String(bri))],
        ["Place by BRI", `1 of ${protocols}`, `${others.indexOf(peer) + 2} of ${protocols}`],
        ...keys.map((key) => [spoken(key), ...records.map(({ dimensions }) => String(dimensions[key]))]),
        ["Category", first!.category, first!.category],
      ]),
    );
    const spread = (key: (typeof keys)[number]) =>
      Math.abs(records[0]!.dimensions[key] - records[1]!.dimensions[key]);
    const widest = keys.toSorted((a, b) => spread(b) - spread(a))[0]!;
    expect(await compare.differences.textContent()).toContain(`They differ most in ${spoken(widest)} (`);

    // Every dimension says what it means.
    await compare.dimension("Liquidity").click();
    await dimension.weakest.first().waitFor();
    await page.getByRole("link", { name: "What the numbers mean" }).first().click();
    await meanings.heading.waitFor();
    expect(Object.keys(dimensionMeanings.protocol)).toEqual(keys);
    expect(Object.keys(dimensionMeanings.market)).toEqual(marketDimensionKeys);
    expect(await meanings.asked.textContent()).toBe(dimensionMeanings.protocol.liquidity);
  });

  test("a dimension names the weakest and the strongest protocols, from records that it asks for at once", async () => {
    const { page, shell, scoreboard, dimension, goTo } = await visit(site);
    await scoreboard.rows.first().waitFor();
    const asked: string[] = [];
    page.on("request", (request) => asked.push(`${request.method()} ${new URL(request.url()).pathname}`));
    await goTo("#/dimensions/governance");
    await dimension.weakest.first().waitFor();
    expect(asked.filter((each) => each.includes("/scores"))).toEqual([
      "GET /api/v1/scores",
      "POST /api/v1/scores/batch",
    ]);
    expect(await shell.main.textContent()).toContain(dimensionMeanings.protocol.governance);
    const records: ProtocolScore[] = await Promise.all(list.map((entry) => site.api(`scores/${entry.slug}`)));
    const all = records
      .map(({ slug: of, dimensions }) => ({ of, score: dimensions.governance }))
      .sort((a, b) => a.score - b.score || (a.of < b.of ? -1 : 1))
      .map(({ of, score }) => `${nameOf(of)}${score}`);
    expect(await dimension.weakest.allTextContents()).toEqual(all.slice(0, 5));
    expect(await dimension.strongest.allTextContents()).toEqual(all.toReversed().slice(0, 5));
    const counts = (await dimension.titles.allTextContents()).map((title) => Number.parseInt(title, 10));
    expect(counts.reduce((sum, count) => sum + count, 0)).toBe(protocols);

    // What the markets are like takes a key.
    await goTo("#/dimensions/oracle");
    await shell.askForKey.waitFor();
    await goTo("#/dimensions/constructor");
    await page.getByText("No dimension has this name.").waitFor();
  });

  test("the week names the biggest moves of the runs in it and its changes of tier, found by Ctrl+K", async () => {
    const { page, shell } = await visit(site);
    const at = list[0]!.updatedAt;
    await alter(page, "**/api/v1/tiers", (json) => {
      const change = { slug, from: "CAST", to: "RAW", bri: 350, at };
      json.changes = [change, { ...change, at: new Date(Date.parse(at) - 8 * 86_400_000).toISOString() }];
    });
    await shell.jump.go("changed this", "Enter");
    await page.waitForURL("**/#/week");
    const size = ({ delta }: ScoreListEntry) => Math.abs(delta);
    const moved = list.filter(({ delta }) => delta !== 0).toSorted((a, b) => size(b) - size(a));
    const first = moved[0]!;
    const told = page.locator("main ol").first().locator("li");
    await told.first().waitFor();
    expect(await told.count()).toBe(Math.min(20, moved.length));
    expect(await told.first().textContent()).toBe(
      `${nameOf(first.slug)} ${first.bri - first.delta} → ${first.bri} ${asRow(first)[7]}, ${minutes(first.updatedAt)}`,
    );
    const changes = page.locator("main ol").nth(1).locator("li");
    await changes.first().waitFor();
    expect(await changes.allTextContents()).toEqual([`${nameOf(slug)}: CAST → RAW, BRI 350, ${minutes(at)}`]);
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
