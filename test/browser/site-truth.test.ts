import { readFileSync } from "node:fs";
import axe from "axe-core";
import type { Locator, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Status } from "../../schemas/envelopes.ts";
import { nameOf } from "../../schemas/names.ts";
import type { ProtocolScore } from "../../schemas/records.ts";
import { forgeTiers } from "../../schemas/versions.ts";
import { findChromium } from "../helpers/servers/chromium.ts";
import { phone } from "../helpers/servers/site-page.ts";
import { serveSmallSite } from "../helpers/servers/site-served.ts";
import { alter, styles } from "./pages/look.ts";
import { type Visit, visit } from "./pages/visit.ts";

const program = findChromium();

describe.skipIf(!program)("what the site draws is true:", () => {
  const site = serveSmallSite();

  /** Makes every answer with counts by tier say these, lowest tier first, and one share at all scores. */
  const countTiers = (page: Page, tiers: readonly (readonly [count: number, disputed: number])[]) =>
    alter(page, "**/markets/facets?*", (json) => {
      const buckets = forgeTiers.map((value, place) => {
        const [count = 0, disputed = 0] = tiers[place] ?? [];
        return { value, count, disputed };
      });
      for (const bucket of json.facets?.composite?.buckets ?? [])
        Object.assign(bucket, { count: 1000, disputed: 16 });
      if (json.facets?.tier) json.facets.tier = { ...json.facets.tier, distinct: 7, buckets };
    });

  test("every share of disputed markets has its dot on the axis, or an arrow with its number", async () => {
    const { page, archive, shell } = await visit(site, "#/archive?show=score", { screen: phone });
    // Of few markets nothing can be said; a dot of theirs would press all others to the floor.
    const many = [100, 90, 80, 70, 60].map((disputed) => [5000, disputed] as const);
    await countTiers(page, [[1, 1], ...many, [63, 3]]);
    await shell.enterKey(site.aegis);
    const chart = archive.shares.chart("By tier");
    await chart.waitFor();
    expect(await chart.locator(".first").count()).toBe(7);
    expect(await chart.locator(".first circle").count()).toBe(6);
    const [top, ...dots] = await chart.locator(".grid, circle").evaluateAll((all) => [
      Math.min(
        ...all.flatMap((each) => {
          const [, y] = /^M[\d.]+ ([\d.]+)H/.exec(each.getAttribute("d") ?? "") ?? [];
          return y === undefined ? [] : [Number(y)];
        }),
      ),
      ...all.flatMap((each) => (each.hasAttribute("cy") ? [Number(each.getAttribute("cy"))] : [])),
    ]);
    expect(dots).toHaveLength(6);
    expect(Math.min(...dots)).toBeGreaterThanOrEqual(top!);
    // So has the upper end of every interval: one of 3 in 63 goes to 13 %.
    expect(await chart.locator(".beyond + text").allTextContents()).toEqual(["100 %"]);
    expect(await chart.locator(".first text").allTextContents()).toEqual(["100 %", "13 %"]);
  });

  test("without a key an address says what it asks, and nothing that looks like an answer", async () => {
    const query = "show=score&category=Crypto&q=day&compare=v1&compare=v2";
    const { page, asked, archive, shell, goTo } = await visit(site, `#/archive?${query}`);
    await page.getByText("40 markets are in the whole archive").waitFor();
    expect(await archive.askedTab.textContent()).toBe("Do scores mean something?");
    expect(await archive.askedOf.allTextContents()).toEqual([
      "Category: Crypto",
      "“day”",
      "Formula versions compared: v1 and v2",
    ]);
    expect(await shell.answers.count()).toBe(0);
    // What is public of the archive is told beside no question.
    await goTo("#/archive");
    const tiers = archive.publicTiers;
    await tiers.first().waitFor();
    const { marketsByTier }: Status = (await site.proxy.get("/api/v1/status")).json();
    const expected = Object.entries(marketsByTier!).map(([tier, count]) => `${tier}${count}`);
    expect(await tiers.allTextContents()).toEqual(expected.reverse());
    await goTo("#/archive?tier=RAW");
    await page.getByText("Which those are, and what they say, takes a key.").waitFor();
    expect(await tiers.allTextContents()).toEqual(expected);
    const contact = shell.link("keys@example.org");
    expect(await contact.getAttribute("href")).toBe("mailto:keys@example.org");
    await shell.key.open();
    expect(await contact.count()).toBe(2);
    await goTo(`#/archive?${query}`);
    await page.getByText("How many those are, and what they say, takes a key.").waitFor();
    expect(asked.filter((address) => address.includes("/markets/"))).toEqual([]);
    await shell.enterKey(site.aegis);
    await archive.shares.verdicts.first().waitFor();
    expect(await archive.chosen.allTextContents()).toEqual([
      "Category: Crypto × (take away)",
      "“day” × (take away)",
      "Clear all",
    ]);
  });

  test("names are spelled for readers, and texts of others keep their direction and their letters", async () => {
    const slugs = ["aave-v3", "curve.fi", "lido_dao", "0x", "a--b-"];
    expect(slugs.map(nameOf)).toEqual(["Aave v3", "Curve.fi", "Lido Dao", "0x", "A B"]);
    const { page, archive, shell, goTo } = await visit(site, "#/archive");
    const question = "האם יירד גשם?";
    await alter(page, "**/markets/historical?*", (json) => {
      if (json.total > 0) json.markets[0].question = question;
    });
    // Of these the service takes the first two for one category, and each of the others for another.
    let further = 0;
    const categories = ["STRASSE ẞ", "strasse ß", "ilik", "ılık", "גשם"];
    await alter(page, "**/markets/facets?*", (json) => {
      const buckets = categories.map((value, place) => ({ value, count: 8 - place, disputed: 0 }));
      const other = { count: further, disputed: 0 };
      if (json.facets.category) Object.assign(json.facets.category, { distinct: 5, buckets, other });
      if (json.facets.outcome) Object.assign(json.facets.outcome, { distinct: 1000, other });
    });
    await shell.enterKey(site.aegis);
    await archive.settled();
    const listed = { "STRASSE ẞ": "15", ilik: "6", ılık: "5", גשם: "4" };
    expect(await archive.choices("category")).toEqual(Object.entries(listed));
    expect(await archive.rightToLeft.questions.allTextContents()).toEqual([question]);
    expect(await archive.rightToLeft.values.allTextContents()).toEqual(["גשם"]);
    expect(await archive.furtherValues("outcome").textContent()).toBe("All 1,000");
    // Where not all values are listed, some of them may count together with one that is.
    further = 3;
    await goTo("#/archive?category=seldom");
    await page.getByText("0 markets match").waitFor();
    await archive.settled();
    const atLeast = Object.entries(listed).map(([value, count]) => [value, `at least ${count}`]);
    expect(await archive.choices("category")).toEqual([...atLeast, ["seldom", "–"]]);
    expect(await archive.furtherValues("outcome").textContent()).toBe("More of 1,000");
    // An empty file takes a request too.
    await archive.tab("Download").click();
    const words = "No market matches, so a file holds none, of one snapshot. Each file takes 1 request";
    await page.getByText(words).waitFor();
  });

  test("why a score changed is told by its dimensions, the largest move first, in seven days and run by run", async () => {
    const { page, protocol, shell } = await visit(site, "#/protocols/aave");
    const record: ProtocolScore = await (await site.proxy.get("/api/v1/scores/aave")).json();
    const { dimensions } = record;
    // One was published behind the newest run, and two before it; the oldest holds a run in which nothing moved.
    const states = ["2026-02-02T09:00", "2026-02-01T09:00", "2026-01-31T09:00"].map((time, place) => ({
      snapshotId: String(place).repeat(64),
      publishedAt: `${time}:00.000Z`,
      supersededAt: "2026-02-03T00:00:00.000Z",
    }));
    await page.route("**/api/v1/snapshots", (route) => route.fulfill({ json: { snapshots: states } }));
    const { governance, liquidity, cross_chain: bridges, opsec } = dimensions;
    const moved = { ...dimensions, governance: governance - 9, liquidity: liquidity + 12 };
    const before = { ...record, bri: 690, updatedAt: "2026-02-01T08:00:00.000Z", dimensions: moved };
    const oldest = { ...before, updatedAt: "2026-01-31T08:00:00.000Z" };
    const asked: string[] = [];
    await page.route("**/scores/aave?asOf=*", (route) => {
      const asOf = new URL(route.request().url()).searchParams.get("asOf")!;
      asked.push(asOf);
      return route.fulfill({ json: asOf === states[1]!.snapshotId ? before : oldest });
    });
    await alter(page, "**/scores/aave/dimensions", (json) => {
      for (const each of json.dimensions)
        each.change7d = { cross_chain: 5, opsec: -7 }[each.key as string] ?? 0;
    });
    await shell.enterKey(site.aegis);
    await protocol.showRuns.click();
    await protocol.secondRun.waitFor();
    const step = (from: number, to: number) =>
      `${from} → ${to} ${to > from ? "▲up +" : "▼down −"}${Math.abs(to - from)}`;
    expect(await protocol.why.allTextContents()).toEqual([
      "In seven days",
      `Opsec ${step(opsec + 7, opsec)}`,
      `Cross chain ${step(bridges - 5, bridges)}`,
      "From 2026-02-01 08:00 UTC to 2026-02-02 08:21 UTC: BRI 690 → 700",
      `Liquidity ${step(liquidity + 12, liquidity)}`,
      `Governance ${step(governance - 9, governance)}`,
      "From 2026-01-31 08:00 UTC to 2026-02-01 08:00 UTC: BRI 690 → 690",
      "No dimension moved.",
    ]);
    expect(asked).toEqual([states[1]!.snapshotId, states[2]!.snapshotId]);
  });

  test("a curve says which part of the scale it shows, and which tiers begin there", async () => {
    const tiered = (bri: number, tier = bri < 700 ? "TEMPERED" : "DAMASCUS") => ({
      ...{ bri, forgeScale: tier, forgeScaleNum: tier === "TEMPERED" ? 4 : 5 },
    });
    const shows = "The axis shows 685 to 705 of 0 to 1,000.";
    const tells = "As far as the scores of all protocols tell, DAMASCUS begins";
    for (const [curve, others, words] of [
      [[688, 703], [650, 699, 700].map((bri) => tiered(bri)), `${shows} ${tells} at 700.`],
      [[688, 703], [tiered(650)], `${shows} ${tells} between 689 and 703.`],
      // A TEMPERED above a DAMASCUS: of another formula. Nothing is known then.
      [[688, 703], [tiered(800, "TEMPERED")], shows],
      [
        [1000, 1000],
        [tiered(650)],
        `The axis shows 999 to 1,000 of 0 to 1,000. ${tells} between 651 and 1,000.`,
      ],
    ] as const) {
      const { page, protocol, shell, goTo } = await visit(site, "#/archive");
      const points = curve.map((bri, day) => ({
        updatedAt: `2026-02-0${day + 1}T08:00:00.000Z`,
        ...{ confidence: 90, delta: 0, ...tiered(bri) },
      }));
      await page.route("**/scores/aave/history", (route) =>
        route.fulfill({ json: { slug: "aave", points } }),
      );
      await alter(page, "**/api/v1/scores", (json) => {
        json.scores = others.map((other, place) => ({ ...json.scores[place], ...other }));
      });
      await shell.enterKey(site.aegis);
      await goTo("#/protocols/aave");
      // The words are there before the chart, which is drawn for the width of its place.
      await protocol.points.first().waitFor();
      expect(await protocol.axis.textContent()).toBe(words);
      expect(await protocol.borderNames.allTextContents()).toEqual(words === shows ? [] : ["DAMASCUS"]);
    }
  });

  const parts = (colour: string) => [1, 3, 5].map((at) => Number.parseInt(colour.slice(at, at + 2), 16));
  // The types of axe leave out what it knows of colours.
  const { Color, getContrast } = Object(axe.commons).color;
  /** The contrast of two colours #rrggbb, after WCAG: from 1 to 21. */
  const contrast = (one: string, other: string): number =>
    getContrast(new Color(...parts(one)), new Color(...parts(other)));

  /** The colours of the style sheet, which names those of both screens at once, the light one first. */
  const style = readFileSync(new URL("../../proxy/site/page/style.css", import.meta.url), "utf8");
  const coloursOn = (scheme: "light" | "dark") => {
    const found = style.matchAll(/(?:\.(tier-\d) \{\s+)?--(\S+): light-dark\((#\w{6}), (#\w{6})\)/g);
    const pairs = [...found].map(([, step, name, light, dark]) => [step ?? name, { light, dark }[scheme]]);
    return Object.fromEntries(pairs) as Record<string, string>;
  };
  const meanings = "accent count risk disputed up down all version-a version-b failure".split(" ");
  const scale = [1, 2, 3, 4, 5, 6, 7].map((step) => `tier-${step}`);

  test.each(["light", "dark"] as const)(
    "on a %s screen every meaning has a colour that can be read",
    (scheme) => {
      const colours = coloursOn(scheme);
      const all = [...meanings, ...scale].map((name) => colours[name]);
      expect(new Set(all).size).toBe(all.length);
      for (const behind of [colours.paper!, colours.sheet!]) {
        for (const name of meanings)
          expect(contrast(colours[name]!, behind), name).toBeGreaterThanOrEqual(4.5);
        // As the part of a picture.
        for (const name of scale) expect(contrast(colours[name]!, behind), name).toBeGreaterThanOrEqual(3);
      }
      expect(contrast(colours.ink!, colours["failure-wash"]!)).toBeGreaterThanOrEqual(4.5);
    },
  );

  describe("a colour has one meaning:", () => {
    const scheme = "dark";
    let reader: Visit;
    beforeAll(async () => {
      reader = await visit(site, "", { screen: { scheme, width: 1280 }, shared: true });
    });
    afterAll(() => reader?.page.close());
    const named = (name: string) => `rgb(${parts(coloursOn(scheme)[name]!).join(", ")})`;
    const expectAll = async (elements: Locator, property: string, name: string) =>
      expect(new Set(await styles(elements, property))).toEqual(new Set([named(name)]));

    test("32 of 100 is not the same as 88, and a loss is neither a dispute nor an error", async () => {
      const { scoreboard, protocol } = reader;
      await scoreboard.protocols.first().click();
      await protocol.table.waitFor();
      const scores = (await protocol.scores.allTextContents()).map(Number);
      expect(scores).toEqual([0, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88]);
      expect(await styles(protocol.scoreBars, "fill")).toEqual(
        scores.map((score) => named(`tier-${1 + Math.floor((7 * score) / 100)}`)),
      );
      await expectAll(protocol.losses, "color", "down");
    });

    test("columns of scores, of risks and of counts differ", async () => {
      const { archive, shell, look } = reader;
      await shell.enterKey(site.aegis);
      await look("Archive");
      await archive.settled();
      await expectAll(archive.disputed, "color", "disputed");
      const columns = (name: string) => archive.histogram(name).columns;
      const safety = await styles(columns("min_composite"), "fill");
      const risks = await styles(columns("min_oracle"), "fill");
      // Two columns of 50 points have a step of the scale.
      expect(safety).toEqual(safety.map((_, place) => named(`tier-${1 + Math.floor(place / 2)}`)));
      expect(new Set(risks).size).toBe(7);
      expect(risks.filter((risk) => safety.includes(risk))).toEqual([]);
      await expectAll(columns("from"), "fill", "count");
    });

    test("all markets, one formula and another differ, and so does an error", async () => {
      const { archive, goTo } = reader;
      const { shares } = archive;
      await archive.tab("Do scores mean something?").click();
      await shares.first.first().waitFor();
      await expectAll(shares.first, "color", "all");
      await goTo("#/archive?show=score&compare=bri-pm-v1&compare=v2");
      await shares.compared.first().waitFor();
      await expectAll(shares.first.or(shares.legendOf("first")), "color", "version-a");
      await expectAll(shares.second.or(shares.legendOf("second")), "color", "version-b");
      await goTo("#/archive?asOf=2001-01-01");
      await archive.failures.first().waitFor();
      expect(await styles(archive.failures, "border-inline-start-color")).toEqual([named("failure")]);
    });
  });
});
