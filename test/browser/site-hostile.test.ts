import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { HistoricalMarket } from "../../schemas/records.ts";
import { startTestProxy, type TestProxy } from "../helpers/http/proxy.ts";
import { until } from "../helpers/http/proxy-client.ts";
import { market, publishRecords } from "../helpers/publish/records.ts";
import { findChromium, launch } from "../helpers/servers/chromium.ts";
import { enterKey, openWatched } from "../helpers/servers/site-page.ts";

const program = findChromium();

describe.skipIf(!program)("hostile data on the site", () => {
  // Its direction, right to left, ends with the text only where a page isolates it.
  const script = `\u202e<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`;
  const address = "javascript:document.title='owned'";
  let proxy: TestProxy;
  let browser: Browser;
  beforeAll(async () => {
    proxy = await startTestProxy({ empty: true });
    await publishRecords(proxy.storage, [hostileMarket(script, address)]);
    browser = await launch(program!);
  });
  afterAll(async () => {
    await browser?.close();
    await proxy?.stop();
  });

  test("is shown as text, and leads nowhere", async () => {
    const key = await proxy.issue();
    await until("the proxy to be ready", async () => (await proxy.get("/readyz")).status === 200);
    const { page, context, faults } = await openWatched(browser, `http://127.0.0.1:${proxy.port}/#/archive`);
    await enterKey(page, key);
    await page.waitForSelector(".choices a");
    expect(await spreading(page)).toEqual([]);
    expect(await page.textContent(".choices [data-key^=category] span.value")).toBe(script);
    await page.click(".choices [data-key^=category]");
    await page.waitForSelector(".chosen a");
    expect(await page.textContent(".chosen a")).toContain(script);
    expect(await spreading(page)).toEqual([]);
    await page.goto(
      `http://127.0.0.1:${proxy.port}/#/archive?show=score&compare=${encodeURIComponent(script)}`,
    );
    await page.waitForSelector(".legend");
    expect(await page.textContent(".legend")).toContain(script);
    expect(await spreading(page)).toEqual([]);
    await page.goBack();
    expect(await page.textContent(".question")).toBe(script);
    await page.click(".question");
    await page.waitForSelector(".signals");
    expect(await page.textContent("h1")).toBe(script);
    expect(await page.textContent(".signals")).toContain(script);
    expect(await page.textContent("article")).toContain(address);
    expect(await spreading(page)).toEqual([]);
    // However much evidence there is, it does not bury what follows.
    expect(await page.locator(".signals details li").count()).toBe(1195);
    expect(await page.isVisible(".signals details li")).toBe(false);
    expect(await page.locator("main :is(img, script, iframe)").count()).toBe(0);
    const links = await page
      .locator(".signals a:not(.term), .facts a")
      .evaluateAll((all) => all.map((each) => each.getAttribute("href")));
    expect(links).toEqual(["https://example.org/note"]);
    expect(await page.title()).toBe("Market · Protocol Risk Scores");
    expect(faults).toEqual([]);
    await context.close();
  });
});

/** Texts whose direction spreads to the words around them: those that are not alone in what the page isolates. */
const spreading = (page: Page): Promise<string[]> =>
  page.evaluate(`(() => {
    const found = [];
    const all = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let text = all.nextNode(); text; text = all.nextNode()) {
      if (!text.textContent.includes("\\u202e")) continue;
      let holder = text.parentElement;
      while (getComputedStyle(holder).unicodeBidi === "normal") holder = holder.parentElement;
      const { textContent } = holder;
      if (textContent.lastIndexOf("\\u202e") > 0) found.push(holder.outerHTML.slice(0, 200));
    }
    return found;
  })()`);

/** A market whose every text is markup and every address a script, except for one. */
function hostileMarket(script: string, address: string): HistoricalMarket {
  const sound = market(0);
  const evidence = {
    type: script,
    label: script,
    pattern: script,
    reference: { label: script, url: address, kind: script },
  };
  return {
    ...sound,
    slug: script,
    question: script,
    category: script,
    resolvedOutcome: script,
    topRiskDriver: script,
    resolutionSource: address,
    dimensions: sound.dimensions.map((dimension, place) => ({
      ...dimension,
      name: script,
      description: script,
      evidence: Array.from({ length: place === 0 ? 1200 : 1 }, () => evidence),
      references: place === 0 ? [address, { url: "https://example.org/note", title: script }, null] : [],
      computation: { baseline: 1, raises: [script, [address]], lowers: [{ [script]: script }] },
    })),
  };
}
