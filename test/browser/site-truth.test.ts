import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import type { Status } from "../../schemas/envelopes.ts";
import { nameOf } from "../../schemas/names.ts";
import type { ProtocolScore } from "../../schemas/records.ts";
import { forgeTiers } from "../../schemas/scales.ts";
import { findChromium } from "../helpers/servers/chromium.ts";
import { enterKey, openWatched, phone, settled } from "../helpers/servers/site-page.ts";
import { choicesOf, contrast, rgb, serveSmallSite } from "../helpers/servers/site-served.ts";

const program = findChromium();

describe.skipIf(!program)("what the site draws is true:", () => {
  const site = serveSmallSite();

  /** Makes every answer with counts by tier say these, lowest tier first, and one share at all scores. */
  const countTiers = (page: Page, tiers: readonly (readonly [count: number, disputed: number])[]) =>
    page.route("**/markets/facets?*", async (route) => {
      const response = await route.fetch();
      const json = await response.json();
      const buckets = forgeTiers.map((value, place) => {
        const [count = 0, disputed = 0] = tiers[place] ?? [];
        return { value, count, disputed };
      });
      for (const bucket of json.facets?.composite?.buckets ?? [])
        Object.assign(bucket, { count: 1000, disputed: 16 });
      if (json.facets?.tier) json.facets.tier = { ...json.facets.tier, distinct: 7, buckets };
      await route.fulfill({ response, json });
    });

  test("every share of disputed markets has its dot on the axis, or an arrow with its number", async () => {
    const { page, context, faults } = await openWatched(
      site.browser,
      `${site.home}#/archive?show=score`,
      phone,
    );
    // Of few markets nothing can be said; a dot of theirs would press all others to the floor.
    await countTiers(page, [
      [1, 1],
      [5000, 100],
      [5000, 90],
      [5000, 80],
      [5000, 70],
      [5000, 60],
      [63, 3],
    ]);
    await enterKey(page, site.aegis);
    const chart = page.locator(".shares:has(h3:text-is('By tier')) .chart");
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
    expect(faults).toEqual([]);
    await context.close();
  });

  test("two shares are told apart by their difference, not by whether their intervals overlap", async () => {
    const { page, context, faults } = await openWatched(site.browser, `${site.home}#/archive?show=score`);
    // 135 of 5,000 and 100 of 5,000: the intervals overlap, and the difference has p = 0.021.
    await page.route("**/markets/facets?*", async (route) => {
      const response = await route.fetch();
      const json = await response.json();
      for (const bucket of json.facets?.composite?.buckets ?? [])
        Object.assign(bucket, {
          count: [600, 650].includes(bucket.from) ? 5000 : 0,
          disputed: { 600: 135, 650: 100 }[bucket.from as number] ?? 0,
        });
      await route.fulfill({ response, json });
    });
    await enterKey(page, site.aegis);
    await page.waitForSelector(".verdict");
    expect(await page.locator(".verdict").allTextContents()).toEqual([
      "Below 650, 2.7 % (135 of 5,000) of the markets were disputed; from 650 on, 2 % (100 of 5,000). " +
        "The difference is +0.7 percentage points, with a 95 % interval from +0.1 to +1.3, which excludes 0. " +
        "Here a higher score goes with fewer disputes. " +
        "Over all steps the share falls as the score rises (p = 0.021).",
    ]);
    await page.unroute("**/markets/facets?*");
    await page.goto(`${site.home}#/archive?show=score&q=nowhere`);
    await page.getByText("There are too few markets here to compare").waitFor();
    // A share of no market is not 0 %.
    expect(await page.locator(".shares").count()).toBe(0);
    expect(faults).toEqual([]);
    await context.close();
  });

  test("without a key an address says what it asks, and nothing that looks like an answer", async () => {
    const query = "show=score&category=Crypto&q=day&compare=v1&compare=v2";
    const watched = await openWatched(site.browser, `${site.home}#/archive?${query}`);
    const { page, context, asked } = watched;
    await page.waitForSelector("text=40 markets are in the whole archive");
    expect(await page.textContent(".shared h2")).toBe("Do scores mean something?");
    expect(await page.locator(".shared li").allTextContents()).toEqual([
      "Category: Crypto",
      "“day”",
      "Formula versions compared: v1 and v2",
    ]);
    expect(await page.locator("main :is(svg, .mark, .tally)").count()).toBe(0);
    // What is public of the archive is told beside no question.
    await page.goto(`${site.home}#/archive`);
    const tiers = page.getByRole("list", { name: "Markets by tier" }).getByRole("listitem");
    await tiers.first().waitFor();
    const { marketsByTier }: Status = (await site.proxy.get("/api/v1/status")).json();
    const expected = Object.entries(marketsByTier!).map(([tier, count]) => `${tier}${count}`);
    expect(await tiers.allTextContents()).toEqual(expected.reverse());
    await page.goto(`${site.home}#/archive?tier=RAW`);
    await page.waitForSelector("text=Which those are, and what they say, takes a key.");
    expect(await tiers.allTextContents()).toEqual(expected);
    const contact = page.getByRole("link", { name: "keys@example.org" });
    expect(await contact.getAttribute("href")).toBe("mailto:keys@example.org");
    await page.click("summary:has-text('Enter an API key')");
    expect(await contact.count()).toBe(2);
    await page.goto(`${site.home}#/archive?${query}`);
    await page.waitForSelector("text=How many those are, and what they say, takes a key.");
    expect(asked.filter((address) => address.includes("/markets/"))).toEqual([]);
    expect(watched.faults).toEqual([]);
    await enterKey(page, site.aegis);
    await page.waitForSelector(".verdict");
    expect(await page.locator(".chosen a").allTextContents()).toEqual([
      "Category: Crypto × (take away)",
      "“day” × (take away)",
      "Clear all",
    ]);
    await context.close();
  });

  test("names are spelled for readers, and texts of others keep their direction and their letters", async () => {
    const slugs = ["aave-v3", "curve.fi", "lido_dao", "0x", "a--b-"];
    expect(slugs.map(nameOf)).toEqual(["Aave v3", "Curve.fi", "Lido Dao", "0x", "A B"]);
    const { page, context, faults } = await openWatched(site.browser, `${site.home}#/archive`);
    const question = "האם יירד גשם?";
    await page.route("**/markets/historical?*", async (route) => {
      const response = await route.fetch();
      const json = await response.json();
      if (json.total > 0) json.markets[0].question = question;
      await route.fulfill({ response, json });
    });
    // Of these the service takes the first two for one category, and each of the others for another.
    let further = 0;
    const categories = ["STRASSE ẞ", "strasse ß", "ilik", "ılık", "גשם"];
    await page.route("**/markets/facets?*", async (route) => {
      const response = await route.fetch();
      const json = await response.json();
      const buckets = categories.map((value, place) => ({ value, count: 8 - place, disputed: 0 }));
      const other = { count: further, disputed: 0 };
      if (json.facets.category) Object.assign(json.facets.category, { distinct: 5, buckets, other });
      if (json.facets.outcome) Object.assign(json.facets.outcome, { distinct: 1000, other });
      await route.fulfill({ response, json });
    });
    await enterKey(page, site.aegis);
    await settled(page);
    expect(await choicesOf(page, "category")).toEqual([
      ["STRASSE ẞ", "15"],
      ["ilik", "6"],
      ["ılık", "5"],
      ["גשם", "4"],
    ]);
    expect(await page.locator(".question:dir(rtl)").allTextContents()).toEqual([question]);
    expect(await page.locator(".choices .value:dir(rtl)").allTextContents()).toEqual(["גשם"]);
    expect(await page.textContent(".facet:has(#outcome) summary")).toBe("All 1,000");
    // Where not all values are listed, some of them may count together with one that is.
    further = 3;
    await page.goto(`${site.home}#/archive?category=seldom`);
    await page.waitForSelector("text=0 markets match");
    await settled(page);
    expect(await choicesOf(page, "category")).toEqual([
      ["STRASSE ẞ", "at least 15"],
      ["ilik", "at least 6"],
      ["ılık", "at least 5"],
      ["גשם", "at least 4"],
      ["seldom", "–"],
    ]);
    expect(await page.textContent(".facet:has(#outcome) summary")).toBe("More of 1,000");
    // An empty file takes a request too.
    await page.click(".tabs >> text=Download");
    await page.waitForSelector(
      "text=No market matches, so a file holds none, of one snapshot. Each file takes 1 request",
    );
    expect(faults).toEqual([]);
    await context.close();
  });

  test("why a score changed is told by its dimensions, the largest move first, in seven days and run by run", async () => {
    const { page, context, faults } = await openWatched(site.browser, `${site.home}#/protocols/aave`);
    const record: ProtocolScore = await (await site.proxy.get("/api/v1/scores/aave")).json();
    const { dimensions } = record;
    // One was published behind the newest run, and two before it; the oldest holds a run in which nothing moved.
    const states = ["2026-02-02T09:00", "2026-02-01T09:00", "2026-01-31T09:00"].map((time, place) => ({
      snapshotId: String(place).repeat(64),
      publishedAt: `${time}:00.000Z`,
      supersededAt: "2026-02-03T00:00:00.000Z",
    }));
    await page.route("**/api/v1/snapshots", (route) => route.fulfill({ json: { snapshots: states } }));
    const before = {
      ...record,
      bri: 690,
      updatedAt: "2026-02-01T08:00:00.000Z",
      dimensions: {
        ...dimensions,
        governance: dimensions.governance - 9,
        liquidity: dimensions.liquidity + 12,
      },
    };
    const oldest = { ...before, updatedAt: "2026-01-31T08:00:00.000Z" };
    const asked: string[] = [];
    await page.route("**/scores/aave?asOf=*", (route) => {
      const asOf = new URL(route.request().url()).searchParams.get("asOf")!;
      asked.push(asOf);
      return route.fulfill({ json: asOf === states[1]!.snapshotId ? before : oldest });
    });
    await page.route("**/scores/aave/dimensions", async (route) => {
      const response = await route.fetch();
      const json = await response.json();
      for (const each of json.dimensions)
        each.change7d = { cross_chain: 5, opsec: -7 }[each.key as string] ?? 0;
      await route.fulfill({ response, json });
    });
    await enterKey(page, site.aegis);
    await page.click("text=Show the last runs one by one");
    await page.waitForSelector(".why h3:nth-of-type(2)");
    const step = (from: number, to: number) =>
      `${from} → ${to} ${to > from ? "▲up +" : "▼down −"}${Math.abs(to - from)}`;
    const { governance, liquidity, cross_chain: bridges, opsec } = dimensions;
    expect(await page.locator(".why :is(h3, li, p)").allTextContents()).toEqual([
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
    expect(faults).toEqual([]);
    await context.close();
  });

  test("a curve says which part of the scale it shows, and which tiers begin there", async () => {
    const { page, context, faults } = await openWatched(site.browser, site.home);
    const [tempered, damascus] = [
      { forgeScale: "TEMPERED", forgeScaleNum: 4 },
      { forgeScale: "DAMASCUS", forgeScaleNum: 5 },
    ];
    const points = [688, 703].map((bri, day) => ({
      updatedAt: `2026-02-0${day + 1}T08:00:00.000Z`,
      ...{ bri, confidence: 90, delta: 0, ...(bri < 700 ? tempered : damascus) },
    }));
    await page.route("**/scores/aave/history", (route) => route.fulfill({ json: { slug: "aave", points } }));
    const scores = async (others: object[]) => {
      await page.unroute("**/api/v1/scores");
      await page.route("**/api/v1/scores", async (route) => {
        const response = await route.fetch();
        const json = await response.json();
        json.scores = others.map((other, place) => ({ ...json.scores[place], ...other }));
        await route.fulfill({ response, json });
      });
    };
    await enterKey(page, site.aegis);
    const said = async () => {
      await page.goto("about:blank");
      await page.goto(`${site.home}#/protocols/aave`);
      await enterKey(page, site.aegis);
      // The words are there before the chart, which is drawn for the width of its place.
      await page.waitForSelector(".frame .point");
      return [
        await page.textContent(".bounds"),
        await page.locator(".chart .border").count(),
        await page.locator(".chart .border + text").allTextContents(),
      ];
    };
    const shows = "The axis shows 685 to 705 of 0 to 1,000.";
    const tells = "As far as the scores of all protocols tell,";
    await scores([
      { bri: 650, ...tempered },
      { bri: 699, ...tempered },
      { bri: 700, ...damascus },
    ]);
    expect(await said()).toEqual([`${shows} ${tells} DAMASCUS begins at 700.`, 1, ["DAMASCUS"]]);
    await scores([{ bri: 650, ...tempered }]);
    expect(await said()).toEqual([`${shows} ${tells} DAMASCUS begins between 689 and 703.`, 1, ["DAMASCUS"]]);
    // A TEMPERED above a DAMASCUS: of another formula. Nothing is known then.
    await scores([{ bri: 800, ...tempered }]);
    expect(await said()).toEqual([shows, 0, []]);
    points[0] = { ...points[1]!, bri: 1000, updatedAt: points[0]!.updatedAt };
    points[1] = { ...points[1]!, bri: 1000 };
    await scores([{ bri: 650, ...tempered }]);
    expect(await said()).toEqual([
      `The axis shows 999 to 1,000 of 0 to 1,000. ${tells} DAMASCUS begins between 651 and 1,000.`,
      1,
      ["DAMASCUS"],
    ]);
    expect(faults).toEqual([]);
    await context.close();
  });

  const meanings = "accent count risk disputed up down all version-a version-b failure".split(" ");
  const scale = [1, 2, 3, 4, 5, 6, 7].map((step) => `score-${step}`);

  test.each(["light", "dark"] as const)("a colour has one meaning, on a %s screen", async (scheme) => {
    const { page, context } = await openWatched(site.browser, site.home, { scheme, width: 1280 });
    const colour = (name: string) =>
      page.evaluate<string>(`getComputedStyle(document.documentElement).getPropertyValue("--${name}")`);
    const named = async (name: string) => rgb(await colour(name));
    // The computed styles of all elements that a selector finds.
    const styles = (selector: string, property: string) =>
      page.evaluate<string[]>(
        `[...document.querySelectorAll(${JSON.stringify(selector)})].map((each) => getComputedStyle(each).${property})`,
      );

    // Every meaning has its own, which can be read: as text, or as the part of a picture.
    const all = await Promise.all([...meanings, ...scale].map(colour));
    expect(new Set(all).size).toBe(all.length);
    for (const behind of [await colour("paper"), await colour("sheet")]) {
      for (const name of meanings)
        expect(contrast(await colour(name), behind), name).toBeGreaterThanOrEqual(4.5);
      for (const name of scale) expect(contrast(await colour(name), behind), name).toBeGreaterThanOrEqual(3);
    }
    expect(contrast(await colour("ink"), await colour("failure-wash"))).toBeGreaterThanOrEqual(4.5);

    // 32 of 100 is not the same as 88, and a loss is neither a dispute nor an error.
    await page.click("tbody tr th a");
    await page.waitForSelector(".dimensions");
    const scores = (await page.locator(".dimensions b").allTextContents()).map(Number);
    expect(scores).toEqual([0, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88]);
    expect(await styles(".dimensions .value", "fill")).toEqual(
      await Promise.all(scores.map((score) => named(`score-${1 + Math.floor((7 * score) / 100)}`))),
    );
    expect(new Set(await styles(".change.down", "color"))).toEqual(new Set([await named("down")]));

    await enterKey(page, site.aegis);
    await page.click("nav >> text=Archive");
    await settled(page);
    expect(new Set(await styles(".market .disputed", "color"))).toEqual(new Set([await named("disputed")]));
    const columns = (name: string) => styles(`section:has(> .range #${name}) .column`, "fill");
    const [safety, risks] = [await columns("min_composite"), await columns("min_oracle")];
    // Two columns of 50 points have a step of the scale.
    expect(safety).toEqual(
      await Promise.all(safety.map((_, place) => named(`score-${1 + Math.floor(place / 2)}`))),
    );
    expect(new Set(risks).size).toBe(7);
    expect(risks.filter((risk) => safety.includes(risk))).toEqual([]);
    expect(new Set(await columns("from"))).toEqual(new Set([await named("count")]));

    await page.click(".tabs >> text=Do scores mean something?");
    await page.waitForSelector(".chart .first");
    expect(new Set(await styles(".chart .first", "color"))).toEqual(new Set([await named("all")]));
    await page.goto(`${site.home}#/archive?show=score&compare=bri-pm-v1&compare=v2`);
    await page.waitForSelector(".compared .chart .first");
    for (const [series, name] of [
      ["first", "version-a"],
      ["second", "version-b"],
    ])
      expect(new Set(await styles(`.legend .${series}, .chart .${series}`, "color"))).toEqual(
        new Set([await named(name!)]),
      );
    await page.goto(`${site.home}#/archive?asOf=2001-01-01`);
    await page.waitForSelector(".failure");
    expect(await styles(".failure", "borderInlineStartColor")).toEqual([await named("failure")]);
    await context.close();
  });
});
