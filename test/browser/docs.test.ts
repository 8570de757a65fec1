import { afterEach, beforeAll, describe, expect, test } from "vitest";
import { meanings } from "../../schemas/meanings.ts";
import { describeApi } from "../../schemas/openapi/document.ts";
import { until } from "../helpers/http/proxy-client.ts";
import { findChromium } from "../helpers/servers/chromium.ts";
import { openWatched, tracesOf, type WatchedPage } from "../helpers/servers/site-page.ts";
import { serveSmallSite } from "../helpers/servers/site-served.ts";

const program = findChromium();

// One reader's visit: the page takes seconds to open, so each test goes on where the one before it ended.
describe.skipIf(!program)("the page /docs/ in Chromium", () => {
  const site = serveSmallSite();
  let watched: WatchedPage;
  let page: WatchedPage["page"];
  beforeAll(async () => {
    watched = await openWatched(site.browser, `${site.home}docs/`, { scheme: "light", width: 390 });
    ({ page } = watched);
    await page.locator(".opblock").first().waitFor();
  });

  afterEach(() => expect(watched.faults).toEqual([]));

  const operation = (tag: string, id: string) => page.locator(`#operations-${tag}-${id}`);

  /**
   * Tries the batch of scores, which is shown already, with what is filled in; returns the status that the page shows.
   */
  async function tryOut(): Promise<string | null> {
    const block = operation("Scores", "batchScores");
    await block.locator(".execute").click();
    const answer = block.locator(".live-responses-table tbody .response-col_status").first();
    await answer.waitFor();
    return answer.textContent();
  }

  test("shows every operation without a complaint or a request elsewhere", async () => {
    const operations = Object.values(describeApi().paths ?? {}).flatMap(({ get, post }) => [get, post]);
    const expected = operations.flatMap((one) =>
      one ? [`operations-${one.tags?.[0]}-${one.operationId}`] : [],
    );
    const blocks = await page.locator(".opblock").evaluateAll((all) => all.map(({ id }) => id));
    expect(blocks.sort()).toEqual(expected.sort());
    // Those with all there is: parameters, and a body.
    for (const id of expected.filter((one) => /marketsHistorical|batchScores/.test(one))) {
      await page.locator(`#${id} .opblock-summary-control`).click();
      await page.locator(`#${id} .responses-table`).waitFor();
    }
    expect(await page.locator(".topbar, .version-stamp a, img[alt='Online validator badge']").count()).toBe(
      0,
    );
    const wide = await page.evaluate("document.documentElement.scrollWidth");
    expect(wide).toBeLessThanOrEqual(390);
  });

  test("follows the reader's scheme, and says what the numbers mean", async () => {
    const look = () =>
      page.evaluate<
        string[]
      >(`[document.body, document.querySelector(".swagger-ui"), document.querySelector("header a")]
        .map((each) => getComputedStyle(each)).flatMap(({ color, backgroundColor }) => [color, backgroundColor])`);
    const light = await look();
    await page.emulateMedia({ colorScheme: "dark" });
    await page.waitForSelector("html.dark-mode");
    const [text = "", paper = ""] = await look();
    const brightness = (colour: string) => Number(/\d+/.exec(colour)?.[0]);
    expect(brightness(text)).toBeGreaterThan(200);
    expect(brightness(paper)).toBeLessThan(50);
    await page.emulateMedia({ colorScheme: "light" });
    await page.waitForSelector("html:not(.dark-mode)");
    expect(await look()).toEqual(light);

    const shown = (await page.textContent(".info")) ?? "";
    for (const { meaning } of Object.values(meanings)) expect(shown).toContain(meaning);
  });

  test("an address can be tried, with what the page suggests", async () => {
    await operation("Scores", "batchScores").locator(".try-out__btn").click();
    expect(await tryOut()).toBe("200");
    expect(watched.asked).toContain(`${site.home}api/v1/scores/batch`);
  });

  test("a key is sent with what is tried, and kept nowhere but in the page", async () => {
    await page.locator(".btn.authorize").click();
    await page.locator(".modal-ux input[aria-label='auth-bearer-value']").fill(site.aegis);
    await page.locator(".modal-ux .btn.authorize").first().click();
    await page.locator(".modal-ux .close-modal").click();
    const request = page.waitForRequest("**/scores/batch");
    expect(await tryOut()).toBe("200");
    expect(await (await request).headerValue("authorization")).toBe(`Bearer ${site.aegis}`);
    // The page shows the command that does the same, with the key.
    expect(await tracesOf(watched, site.aegis)).toEqual(["document"]);
  });

  test("its policy lets no script in that is not the page's", async () => {
    const { headers } = await site.proxy.get("/docs/");
    expect(headers["content-security-policy"]).toMatch(
      /^default-src 'none'; script-src 'self'; style-src 'self';/,
    );
    expect(headers["content-security-policy"]).not.toMatch(/unsafe|\*|https?:/);
    // A control: what would be a violation is seen as one.
    await page.evaluate(`{
      const script = document.createElement("script");
      script.textContent = "window.slipped = true";
      document.body.append(script);
      undefined;
    }`);
    await until("the browser to report a policy violation", () =>
      watched.faults.some((text) => text.startsWith("policy: script-src")),
    );
    expect(await page.evaluate("window.slipped")).toBeUndefined();
    watched.faults.length = 0;
  });

  test("leads back to the site", async () => {
    await page.click("header a");
    await page.waitForSelector("h1:has-text('Risk scores')");
    // Whatever the page asks for at its start has been answered then.
    await page.waitForSelector("footer:has-text('Snapshot')");
    expect(page.url()).toBe(site.home);
  });
});
