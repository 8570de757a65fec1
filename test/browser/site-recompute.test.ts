import { describe, expect, onTestFinished, test } from "vitest";
import { verifierText } from "../../snapshots/trust/notes/note-keys.ts";
import { takenUp } from "../helpers/http/live-feed.ts";
import { startTestProxy } from "../helpers/http/proxy.ts";
import { marketsOf, publishRecords } from "../helpers/publish/records.ts";
import { findChromium } from "../helpers/servers/chromium.ts";
import { serveSite } from "../helpers/servers/site-served.ts";
import { testKey } from "../helpers/store/signing.ts";
import { alter } from "./pages/look.ts";
import { type Visit, visit } from "./pages/visit.ts";

const program = findChromium();

describe.skipIf(!program)("the archive recomputed in Chromium", () => {
  const site = serveSite();

  // What one reader's browser has fetched of the index it would keep for the next.
  const alone = () => ({ key: site.aegis, alone: true });

  async function recomputed({ recompute, archive }: Visit, trust = ""): Promise<void> {
    await recompute.start(trust);
    await recompute.total.waitFor();
    await archive.settled();
  }

  const matching = (count: number) => `${count.toLocaleString("en")} markets match`;
  const askedOf = (asked: readonly string[]) => asked.filter((address) => address.includes("/markets/"));
  const sections = "**/markets/index/sections?*";
  const lists = "**/markets/historical?*";

  test("numbers are those of the service under any filter, and ask it for nothing", async () => {
    const queries = [
      "",
      "?disputed=true&max_informed=70&show=score",
      "?category=politics&from=2025-06-10&to=2025-11-03&min_oracle=10",
      "?show=score&compare=bri-pm-v1&compare=bri-pm-v2",
      "?q=finis*+ahead&outcome=Yes",
    ];
    const reader = await visit(site, "#/archive?show=file", alone());
    const { page, asked, faults, archive, recompute } = reader;
    const served = [];
    for (const query of queries) {
      await archive.lead(query);
      served.push(await archive.numbers());
    }
    expect(new Set(served.map(({ total }) => total)).size).toBeGreaterThan(3);
    await recomputed(reader);
    expect(await recompute.panel.textContent()).toMatch(
      /Fetched\d+ kB in \d requests?Vouched for bynobody but/,
    );
    expect(faults).toEqual([]);
    const before = asked.length;
    for (const [place, query] of queries.entries()) {
      await archive.lead(query);
      expect(await archive.numbers()).toEqual(served[place]);
      expect(await recompute.markedFacets.count()).toBe(await archive.facets.count());
    }
    // Lists are asked for, with the hashes that prove them, and once the words of the questions.
    const paths = askedOf(asked.slice(before)).map((address) => new URL(address).pathname);
    expect(new Set(paths)).toEqual(new Set(["/api/v1/markets/historical", "/api/v1/markets/index/sections"]));

    // What was fetched is kept while the reader looks elsewhere, and left on demand.
    await reader.look("Scores");
    await reader.scoreboard.rows.first().waitFor();
    await page.goBack();
    await recompute.total.waitFor();
    await archive.settled();
    await recompute.opener.click();
    await recompute.giveUp();
    await expect.poll(() => recompute.marked.count()).toBe(0);
    await archive.settled();
    expect(await archive.numbers()).toEqual(served.at(-1));
  });

  test("a brush draws what it would lead to as it moves, and asks nobody", async () => {
    const reader = await visit(site, "#/archive?show=score", alone());
    const { asked, archive, recompute } = reader;
    const [composite, months] = [archive.histogram("min_composite"), archive.histogram("from")];
    const expectTotal = async (words: string) => expect.poll(() => archive.count.textContent()).toBe(words);
    await recomputed(reader);
    await recompute.close();
    const all = await archive.numbers();
    const before = asked.length;
    await composite.press(6);
    await composite.reach(9);
    const run = "min_composite=600&max_composite=799";
    const words = matching((await site.markets(run)).total);
    await expectTotal(words);
    const { value, count } = (await site.api(`markets/facets?by=month&${run}`)).facets.month.buckets[0];
    await expect.poll(() => months.titles.first().textContent()).toBe(`${value}: ${count} markets`);
    // Back to a single column, and to none: Chromium takes the pointer away where it becomes a scroll.
    await composite.reach(6);
    await expectTotal(matching((await site.markets("min_composite=600&max_composite=649")).total));
    await composite.picture.dispatchEvent("pointercancel");
    await expect.poll(archive.numbers).toEqual(all);
    await composite.release();
    await composite.brush(6, 9);
    await expect.poll(() => archive.field("max_composite").inputValue()).toBe("799");
    await archive.settled();
    expect(await archive.count.textContent()).toBe(words);
    expect(askedOf(asked.slice(before))).toEqual([]);
  });

  test("a changed byte and a list longer than what was counted are refused, and no number is marked", async () => {
    const reader = await visit(site, "#/archive", { ...alone(), faulty: true });
    const { page, faults, archive, recompute, shell } = reader;
    const before = await archive.numbers();
    await page.route(sections, async (route) => {
      const response = await route.fetch();
      const body = await response.body();
      body[Math.floor(body.length / 2)]! ^= 1;
      await route.fulfill({ response, body });
    });
    await recompute.start();
    expect(await recompute.failure.textContent()).toMatch(/of segment \d+ has the hash/);
    expect(await recompute.panel.textContent()).toContain("No number of this page is verified.");
    expect(await recompute.isLeft()).toBe(true);
    expect(await recompute.marked.count()).toBe(0);
    expect(await archive.numbers()).toEqual(before);
    await page.unroute(sections);
    await recomputed(reader);
    expect(await archive.failures.count()).toBe(0);
    expect(faults).toEqual([]);

    await alter(page, lists, (json) => {
      json.total += 1;
    });
    await archive.choice("tier", "TEMPERED").click();
    await archive.problem.waitFor();
    expect(await archive.problem.textContent()).toContain("markets are said to match");
    expect(await archive.figures()).toEqual([]);
    await page.unroute(lists);
    await shell.tryAgain.click();
    await archive.settled();
    // After a refusal the service's numbers are shown.
    expect(await recompute.marked.count()).toBe(0);
    await recomputed(reader);
    // A list that cannot be had is missed.
    await page.route(lists, (route) => route.abort());
    await archive.choice("tier", "FORGED").click();
    await archive.sideProblem.waitFor();
    // The numbers stand.
    const { total } = await site.markets("tier=FORGED,TEMPERED");
    expect(await recompute.total.textContent()).toBe(matching(total));
  });

  test("a newer snapshot is offered anew, of which only what changed is fetched", async () => {
    const own = await startTestProxy({ empty: true });
    // Last of all, since the page asks for as long as it is open.
    onTestFinished(() => own.stop());
    const signing = { key: testKey() };
    const publish = async (count: number, bri: number) =>
      takenUp(own, (await publishRecords(own.storage, marketsOf(0, count), bri, { signing })).snapshotId);
    await publish(40, 700);
    const served = { browser: site.browser, home: `http://127.0.0.1:${own.port}/` };
    const reader = await visit(served, "#/archive", { key: await own.issue(), alone: true });
    const { page, archive, asked, recompute, shell } = reader;
    const trust = verifierText(testKey());
    // A key that did not sign the log, and something that is none.
    await recompute.start(verifierText(testKey("prs.example/other")));
    await recompute.failure.filter({ hasText: "None of the keys signed" }).waitFor();
    await recompute.start("key");
    await recompute.trust.and(archive.faultyFields).waitFor();
    await recomputed(reader, trust);
    expect(await recompute.panel.textContent()).toContain("Vouched for bythe signature of the key");
    expect(await recompute.panel.textContent()).not.toContain("you entered no key");
    const hashes = () => asked.flatMap((each) => new URL(each).searchParams.get("of")?.split(",") ?? []);
    const first = hashes();
    expect(new Set(first).size).toBe(first.length);

    await publish(60, 600);
    await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))");
    await shell.news.click();
    await expect.poll(() => archive.count.textContent()).toBe(matching(60));
    await archive.settled();
    expect(await recompute.marked.count()).toBe(0);
    await recompute.opener.click();
    expect(await recompute.panel.textContent()).toContain("only what changed");
    // The key is still there.
    expect(await recompute.trust.inputValue()).toBe(trust);
    await recompute.fetch.click();
    await recompute.total.waitFor();
    expect(await archive.count.textContent()).toBe(matching(60));
    const all = hashes();
    expect(all.length).toBeGreaterThan(first.length);
    expect(new Set(all).size).toBe(all.length);
  });
});
