import { afterEach, beforeAll, describe, expect, test } from "vitest";
import { wilson } from "../../proxy/site/page/model/statistics.ts";
import type { LabelFacet, ScoreFacet } from "../../schemas/envelopes.ts";
import { archiveParameters } from "../../schemas/query.ts";
import type { HistoricalMarket } from "../../schemas/records.ts";
import { forgeTiers } from "../../schemas/versions.ts";
import { bearer } from "../helpers/http/proxy-client.ts";
import { findChromium } from "../helpers/servers/chromium.ts";
import { tracesOf } from "../helpers/servers/site-page.ts";
import { serveSite } from "../helpers/servers/site-served.ts";
import { isFocused } from "./pages/look.ts";
import { type Visit, visit } from "./pages/visit.ts";

const program = findChromium();

// One reader's visit: each test begins and ends at the whole archive.
describe.skipIf(!program)("the archive of the site in Chromium:", () => {
  const site = serveSite();
  let reader: Visit;
  let archive: Visit["archive"];
  let page: Visit["page"];
  beforeAll(async () => {
    reader = await visit(site, "", { key: site.aegis, shared: true });
    ({ archive, page } = reader);
    await reader.look("Archive");
    await archive.settled();
  });
  afterEach(() => expect(reader.faults).toEqual([]));

  const expectListed = async (query: string) =>
    archive.expectListed(await site.markets(`pageSize=25${query && `&${query}`}`));
  const facetsOf = (query: string) => site.api(`markets/facets?${query}`);
  const grouped = (value: number) => value.toLocaleString("en");
  const counted = (value: number) => `${grouped(value)} ${value === 1 ? "market" : "markets"}`;

  test("every filter has a field, with a label of its own", async () => {
    const names = archiveParameters
      .map(({ name }) => name)
      .filter((name) => !["page", "pageSize", "cursor", "skip"].includes(name));
    const fields = await archive.fields.evaluateAll((all) =>
      all.map((each) => [each.id, each.getAttribute("aria-label")]),
    );
    expect(fields.map(([id]) => id).sort()).toEqual(names.sort());
    expect(new Set(fields.map(([, label]) => label)).size).toBe(names.length);
  });

  describe("every choice has the count of what it leads to:", () => {
    const query = "tier=FORGED,TEMPERED";
    let facets: Record<string, LabelFacet & ScoreFacet>;
    beforeAll(async () => {
      ({ facets } = await facetsOf(`by=category,disputed,outcome,formula_version,composite,month&${query}`));
    });

    test("tiers, as without the choice of tiers, whose last link keeps the focus", async () => {
      await expectListed("");
      expect(await isFocused(reader.shell.heading)).toBe(true);
      await archive.choice("tier", "TEMPERED").click();
      await expectListed("tier=TEMPERED");
      await archive.choice("tier", "FORGED").click();
      await expectListed(query);
      expect(await isFocused(archive.choice("tier", "FORGED"))).toBe(true);
      const { buckets }: LabelFacet = (await facetsOf("by=tier")).facets.tier;
      const count = (name: string) => buckets.find(({ value }) => value === name)?.count ?? 0;
      expect(await archive.choices("tier")).toEqual(
        forgeTiers.toReversed().map((name) => [name, grouped(count(name))]),
      );
    });

    test("categories, which letter case does not tell apart", async () => {
      const categories = new Map<string, number>();
      for (const { value, count } of facets.category!.buckets as LabelFacet["buckets"])
        categories.set(value.toLowerCase(), (categories.get(value.toLowerCase()) ?? 0) + count);
      const choices = await archive.choices("category");
      expect(choices.map(([value = "", count]) => [value.toLowerCase(), count])).toEqual(
        [...categories].toSorted(([, a], [, b]) => b - a).map(([value, count]) => [value, grouped(count)]),
      );
    });

    test("values of the others", async () => {
      const words: Record<string, string> = { true: "Disputed", false: "Undisputed" };
      for (const facet of ["disputed", "outcome", "formula_version"])
        expect(await archive.choices(facet)).toEqual(
          (facets[facet] as LabelFacet).buckets.map(({ value, count }) => [
            words[value] ?? value,
            grouped(count),
          ]),
        );
    });

    test("steps of a score, until the choice is taken away", async () => {
      const { buckets } = facets.composite as ScoreFacet;
      expect(await archive.histogram("min_composite").titles.allTextContents()).toEqual(
        buckets.map(({ from, to, count }) => `${from} to ${to}: ${counted(count)}`),
      );
      await archive.takeAway(/^Tier/);
      await expectListed("");
    });
  });

  test("a brush is given up with Escape, and chooses where it is let go", async () => {
    const composite = archive.histogram("min_composite");
    await composite.press(0);
    await composite.reach(3);
    expect(await composite.cold.count()).toBeGreaterThan(0);
    await page.keyboard.press("Escape");
    await composite.release();
    expect(await composite.cold.count()).toBe(0);
    expect(reader.hash()).toBe("#/archive");
    await composite.brush(6, 9);
    await expectListed("min_composite=600&max_composite=799");
    expect(await archive.field("max_composite").inputValue()).toBe("799");
  });

  test("months are brushed, ranges typed, and words searched, as the API answers", async () => {
    let query = "min_composite=600&max_composite=799";
    const { buckets } = (await facetsOf(`by=month&${query}`)).facets.month;
    await archive.histogram("from").brush(1, buckets.length - 2);
    // The fields follow the address, which changes a moment after the pointer is up.
    const chosen = () => Promise.all(["from", "to"].map((name) => archive.field(name).inputValue()));
    const months = async () => (await chosen()).map((day) => day.slice(0, 7));
    await expect.poll(months).toEqual([buckets[1].value, buckets.at(-2).value]);
    const [from, to] = await chosen();
    expect(from).toBe(`${buckets[1].value}-01`);
    query += `&from=${from}&to=${to}`;
    await expectListed(query);

    await archive.field("max_informed").fill("70");
    await archive.field("max_informed").press("Tab");
    query += "&max_informed=70";
    const first = await site.markets(`${query}&pageSize=25`);
    await archive.expectListed(first);
    await archive.search.fill("finish AHEAD");
    const searched = await site.markets(`${query}&q=finish+ahead&pageSize=25`);
    expect(searched.total).toBeLessThan(first.total);
    expect(searched.total).toBeGreaterThan(25);
    await archive.expectListed(searched);
    expect(await isFocused(archive.search)).toBe(true);
    await archive.search.fill("finis");
    await archive.wordsThatBegin("finis").click();
    await expectListed(`${query}&q=finis*`);
    await page.goBack();
    await expectListed(`${query}&q=finis`);
    await page.goBack();
    await archive.expectListed(first);
    await archive.clearAll.click();
    await expectListed("");
  });

  test("a month that flattens all others leaves them to be seen on a logarithmic scale", async () => {
    const { buckets } = (await facetsOf("by=month")).facets.month;
    const counts: number[] = buckets.map(({ count }: { count: number }) => count);
    const most = Math.max(...counts);
    const { heights, grid } = archive.histogram("from");
    // What is not nothing stays visible, so the lowest columns are as high as each other.
    const shares = (share: (count: number) => number) =>
      counts.map((count) => Math.max(2, Math.round(100 * share(count))));
    const shown = async () => (await heights()).map((height) => Math.max(2, height));
    const plain = shares((count) => count / most);
    expect(await shown()).toEqual(plain);
    await archive.logScale.click();
    expect(await shown()).toEqual(shares((count) => Math.log1p(count) / Math.log1p(most)));
    // Of every power of ten, from 1 on.
    expect(await grid.count()).toBe(1 + Math.floor(Math.log10(most)));
    await archive.logScale.click();
    expect(await shown()).toEqual(plain);
  });

  test("arrow keys walk over a picture and choose from it", async () => {
    const { buckets }: ScoreFacet = (await facetsOf("by=composite")).facets.composite;
    const [, second, third] = buckets;
    const { picture, said, hot, cold } = archive.histogram("min_composite");
    const press = async (...keys: string[]) => {
      for (const key of keys) await page.keyboard.press(key);
    };
    await picture.focus();
    await press("ArrowRight");
    const words = `${second!.from} to ${second!.to}: ${counted(second!.count)}`;
    await expect.poll(said).toEqual([words, words]);
    await press("Shift+ArrowRight");
    await expect.poll(() => hot.count()).toBe(2);
    await press("Escape");
    await expect.poll(() => cold.count()).toBe(0);
    // Who gives up stays where the keys had led.
    await press("Home", "ArrowRight", "Shift+ArrowRight", "Enter");
    await expectListed(`min_composite=${second!.from}&max_composite=${third!.to}`);
    expect(await isFocused(picture)).toBe(true);
    await archive.takeAway("Composite ≥");
    await archive.settled();
    await archive.takeAway("Composite ≤");
    await expectListed("");
  });

  test("on a phone the filters are a sheet that says how many markets they leave", async () => {
    const { width, height } = page.viewportSize()!;
    await page.setViewportSize({ width: 390, height: 844 });
    // The page hears of its new size a little later.
    await archive.sheet.waitFor({ state: "hidden" });
    await archive.openSheet.click();
    await archive.choice("tier", "FORGED").click();
    const { total } = await site.markets("tier=FORGED&pageSize=1");
    await archive.leaveSheet.filter({ hasText: `Show ${grouped(total)} markets` }).click();
    await archive.sheet.waitFor({ state: "hidden" });
    await expectListed("tier=FORGED");
    await archive.openSheet.click();
    await archive.isModal.waitFor();
    await page.setViewportSize({ width, height });
    await archive.choice("tier", "FORGED").waitFor();
    await archive.takeAway(/^Tier/);
    await expectListed("");
  });

  test("skip links lead from the top to the markets without a way through all choices", async () => {
    await reader.shell.skip.focus();
    for (const key of ["Enter", "Tab", "Enter", "Tab"]) await page.keyboard.press(key);
    expect(await isFocused(archive.questions)).toBe(true);
  });

  test("the list is paged", async () => {
    const last = Math.ceil((await site.markets("pageSize=25")).total / 25);
    for (const [turn, number] of [
      [() => archive.turn("Next"), 2],
      [() => archive.turn("Last"), last],
      [() => archive.turn("Previous"), last - 1],
      [() => archive.turn("First"), 1],
      [() => archive.goToPage("3"), 3],
    ] as const) {
      await turn();
      await expectListed(`page=${number}`);
      expect(await archive.pageNumber.inputValue()).toBe(String(number));
    }
  });

  describe("shares of disputed markets", () => {
    // One version beside another, never beside all, which contain it.
    const names = ["bri-pm-v1", "bri-pm-v2"] as const;
    const asked = async (version: string): Promise<{ composite: ScoreFacet; tier: LabelFacet }> =>
      (await facetsOf(`by=composite,tier&formula_version=${version}`)).facets;
    const row = (name: string, of: string, { count = 0, disputed = 0 } = {}) => {
      const percent = (share: number) => `${Number((100 * share).toFixed(share < 0.1 ? 1 : 0))} %`;
      const { share, low, high } = wilson(disputed, count);
      const known = count > 0 ? [percent(share), `${percent(low)} to ${percent(high)}`] : ["–", "–"];
      return [name, of, ...known, grouped(count)];
    };

    test("are drawn with their mean, and those of one formula beside those of another", async () => {
      const { shares } = archive;
      await archive.tab("Do scores mean something?").click();
      await shares.first.first().waitFor();
      expect([await shares.means.count(), await shares.second.count()]).toEqual([2, 0]);
      await shares.compare("bri-pm-v1");
      await shares.second.first().waitFor();
      expect(await shares.legend.allTextContents()).toEqual(["● bri-pm-v1", "◆ bri-pm-v2"]);
      expect(await shares.means.count()).toBe(0);
      expect(await shares.verdicts.allTextContents()).toEqual(
        names.map((name) => expect.stringMatching(new RegExp(`^${name}: Below \\d+, .* interval from`))),
      );
    });

    test("come with their intervals and numbers", async () => {
      const { shares } = archive;
      const [one, other] = [await asked(names[0]), await asked(names[1])];
      expect(await shares.rows(0)).toEqual(
        one.composite.buckets.flatMap((bucket, place) => [
          row(`${bucket.from}`, names[0], bucket),
          row(`${bucket.from}`, names[1], other.composite.buckets[place]),
        ]),
      );
      const ofTier = ({ tier }: { tier: LabelFacet }, name: string) =>
        tier.buckets.find(({ value }) => value === name);
      expect(await shares.rows(1)).toEqual(
        forgeTiers.flatMap((name) => [
          row(name, names[0], ofTier(one, name)),
          row(name, names[1], ofTier(other, name)),
        ]),
      );
      expect(await shares.tables.count()).toBe(2);
      await page.goBack();
      await shares.second.first().waitFor({ state: "detached" });
    });
  });

  describe("what matches is offered", () => {
    beforeAll(() => reader.goTo("#/archive?tier=RAW,CAST&disputed=false&show=file"));

    test.each([
      ["CSV", "text/csv; bom=present"],
      ["NDJSON", "application/x-ndjson"],
    ])("as %s, and as a line to paste", async (name, type) => {
      const line = (await archive.command(name))!;
      const path = /"(http[^"]+)"/.exec(line)![1]!.replace(site.home, "/");
      expect(line).toContain(`-H "x-api-key: $KEY" -H "Accept: ${type}"`);
      const direct = await site.proxy.get(path, { headers: { ...bearer(site.aegis), accept: type } });
      expect(direct.status).toBe(200);
      expect(String(await archive.download(name))).toBe(direct.text);
    });

    test("as a profile for Delta Sharing", async () => {
      const profile = JSON.parse(String(await archive.download("profile")));
      expect(profile).toEqual({
        shareCredentialsVersion: 1,
        endpoint: new URL("/delta-sharing/", site.home).href,
        bearerToken: site.aegis,
      });
      const headers = bearer(profile.bearerToken);
      const shares = await site.proxy.get("/delta-sharing/shares", { headers });
      expect(shares.json().items).toEqual([{ name: "prs" }]);
    });
  });

  describe("a market has an address of its own,", () => {
    let record: HistoricalMarket;
    beforeAll(async () => {
      const { markets } = await site.markets("pageSize=25");
      record = markets.find(({ dimensions }) =>
        dimensions.some(({ evidence, computation }) => evidence.length > 0 && computation.raises.length > 0),
      )!;
      await reader.goTo("#/archive");
      await archive.question(record.id).click();
      await reader.market.signals.waitFor();
    });

    test("with its record, evidence and computation", async () => {
      const { market, shell } = reader;
      const { dimensions } = record;
      expect(await shell.heading.textContent()).toBe(record.question);
      expect(await market.facts()).toMatchObject({
        Disputed: record.disputed ? "Yes" : "No",
        "Main risk driver": record.topRiskDriver,
        Identifier: record.id,
        "Formula version": record.formulaVersion,
      });
      const texts = [market.names, market.risks, market.weights].map((each) => each.allTextContents());
      expect(await Promise.all(texts)).toEqual([
        dimensions.map(({ name }) => name),
        dimensions.map(({ score }) => `Risk ${score}`),
        dimensions.map(({ weight }) => `Weight ${weight}`),
      ]);
      for (const { computation } of dimensions)
        expect(await market.signals.textContent()).toContain(`Baseline ${computation.baseline}`);
      expect(await market.links()).toEqual(
        dimensions
          .flatMap(({ evidence }) => evidence)
          .map(({ reference }) => [reference.url, reference.label, "noopener noreferrer"]),
      );
    });

    test("and a proof to verify, which finds out an answer that was changed on its way", async () => {
      const { market } = reader;
      await market.verify.click();
      await market.proven.waitFor();
      const { snapshotId } = await site.api("status");
      expect(await market.chain.textContent()).toContain(snapshotId);
      expect(await market.chain.textContent()).toContain("Nobody signed it");
      await page.route("**/proof?*", async (route) => {
        const answer = await (await route.fetch()).json();
        const market = answer.market.replace(/"composite":\d+/, '"composite":999');
        await route.fulfill({ json: { ...answer, market } });
      });
      await market.verify.click();
      await page.getByText("does not belong to the snapshot").waitFor();
      expect(await market.proven.count()).toBe(0);
      await page.unroute("**/proof?*");
      await market.allMarkets.click();
      await archive.markets.first().waitFor();
    });
  });

  test("the key is forgotten on demand, and was left nowhere", async () => {
    expect(await tracesOf(reader, site.aegis)).toEqual([]);
    await reader.shell.forgetKey.click();
    await page.getByText("The archive needs a key").waitFor();
    expect(await archive.markets.count()).toBe(0);
    expect(await reader.shell.standing.textContent()).toMatch(/^Free plan/);
    expect(await tracesOf(reader, site.aegis)).toEqual([]);
  });
});
