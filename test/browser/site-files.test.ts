import { createServer } from "node:http";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { publishedSite, servedSite } from "../../proxy/site/files.ts";
import { endpoints } from "../../schemas/endpoints.ts";
import { nameOf } from "../../schemas/names.ts";
import { Tiers } from "../../schemas/store/stored-objects.ts";
import { apiPlaceAt } from "../../snapshots/publish/public/site.ts";
import { headersOf, layout, sha256 } from "../../snapshots/store/layout.ts";
import { deployed } from "../helpers/http/deployed.ts";
import { startTestProxy } from "../helpers/http/proxy.ts";
import { publishArchive, score, slugs } from "../helpers/publish/records.ts";
import { findChromium, sharedBrowser } from "../helpers/servers/chromium.ts";
import { listenLocally } from "../helpers/servers/programs.ts";
import { type ServedTree, serveTree } from "../helpers/servers/public-tree.ts";
import { arrived, enterKey, overhang, phone } from "../helpers/servers/site-page.ts";
import { memoryStorage } from "../helpers/store/storages.ts";
import { attributes } from "./pages/look.ts";
import { visit } from "./pages/visit.ts";

describe("the files of the site", () => {
  test("are small, and the same from the proxy except for the one that says where the API is", async () => {
    const all = servedSite().map(async ({ path, read, contentType }) => {
      return [path, { bytes: await read(), contentType }] as const;
    });
    const served = new Map(await Promise.all(all));
    // What the page loads at once.
    const own = [...served].filter(([path]) => path !== "/site/recompute.mjs");
    expect(own.reduce((sum, [, { bytes }]) => sum + bytes.length, 0)).toBeLessThan(200_000);
    for (const [key, bytes] of await publishedSite.files(null)) {
      const path = key === layout.siteIndex ? "/" : key.replace("public", "");
      if (path === "/site/api.json") {
        expect([String(bytes), String(served.get(path)?.bytes)]).toEqual([
          '{"api":null}',
          '{"api":"api/v1"}',
        ]);
      } else expect(served.get(path), path).toEqual({ bytes, contentType: headersOf(key).contentType });
    }
    expect(served.size).toBe(publishedSite.keys.length);
  });

  test("hold no address of the page's own, and its policy is the header's", async () => {
    const [page] = servedSite();
    const text = String(await page?.read());
    expect(text).not.toMatch(/(?:href|src)="(?:\/|https?:)/);
    const stated = /http-equiv="Content-Security-Policy" content="([^"]+)"/.exec(text)?.[1];
    expect(page?.headers?.["content-security-policy"]).toBe(`${stated}; frame-ancestors 'none'`);
    const { SecurityHeadersConfig } = JSON.parse(deployed("cdn-response-headers.json"));
    expect(SecurityHeadersConfig.ContentSecurityPolicy.ContentSecurityPolicy).toBe(
      page?.headers?.["content-security-policy"],
    );
    const loaded = [...text.matchAll(/"site\/([^"]+)"/g)].map(([, name]) => name);
    const expected = endpoints.siteFile.files.filter((name) => !["api.json", "recompute.mjs"].includes(name));
    expect([...new Set(loaded)].sort()).toEqual([...expected].sort());
  });
});

const program = findChromium();

describe.skipIf(!program)("a CDN that serves public/ below another folder", () => {
  const storage = memoryStorage(new Map());
  let cdn: ServedTree;
  let browser: Browser;
  let home: string;
  beforeAll(async () => {
    await publishArchive(storage);
    cdn = await serveTree(storage, "/some/folder/");
    home = `${cdn.home}index.html`;
    browser = await sharedBrowser();
  });
  afterAll(() => cdn?.server.close());

  // The same files on other screens, served by the proxy: site.test.ts.
  test("shows the scores and asks for nothing that is not there", async () => {
    const { page, asked } = await visit({ browser, home }, "", { screen: phone, alone: true });
    await page.waitForSelector("tbody tr");
    const shown = await page.locator("tbody th a:not(.compare)").allTextContents();
    expect(shown).toEqual(["Aave", "Constructor", "Curve.fi", "Lido Dao"]);
    expect(await page.locator("#key").count()).toBe(0);

    await page.click("text=curve.fi");
    await page.waitForSelector(".dimensions");
    expect(await page.textContent(".hash")).toBe(score("curve.fi", 700).evidenceHash);
    expect(await page.locator(".chart:not(.among .chart), .promise").count()).toBe(0);

    await page.click("nav >> text=Archive");
    await page.waitForSelector("text=needs the service and an Aegis key");
    expect(await page.locator("main :is(form, input, button)").count()).toBe(0);
    expect(await overhang(page)).toBeLessThanOrEqual(0);

    expect(await attributes(page.locator("footer a"), "href")).toEqual(["api/v1/scores.json", "#/meanings"]);
    expect(cdn.refused).toEqual([]);
    expect(asked.filter((address) => !address.includes("/some/folder/"))).toEqual([]);
  });

  test("opens history and archive from the API that it names, which alone is given the key", async () => {
    const proxy = await startTestProxy();
    const service = `http://127.0.0.1:${proxy.port}`;
    const key = await proxy.issue();
    await publishArchive(storage, { names: { api: apiPlaceAt(service) } });
    const { page, faults, asked } = await visit({ browser, home }, "", { alone: true, faulty: true });
    const keyed = new Map<string, string>();
    page.on("request", async (request) => {
      const { authorization } = await request.allHeaders();
      if (authorization) keyed.set(request.url(), authorization);
    });
    await page.waitForSelector("tbody tr");
    await enterKey(page, key);
    await page.waitForSelector("text=of 100,000 requests left today");
    await page.click("text=curve.fi");
    await page.waitForSelector(".chart");
    await page.click("nav >> text=Archive");
    await page.waitForSelector(".market");
    expect(await page.textContent(".count")).toBe("40 markets match");
    expect(await attributes(page.locator("footer a"), "href")).toEqual([
      "api/v1/scores.json",
      "#/meanings",
      `${service}/docs/`,
    ]);

    const elsewhere = asked.filter((address) => !address.includes("/some/folder/"));
    expect(elsewhere.every((address) => address.startsWith(`${service}/api/v1/`))).toBe(true);
    expect(elsewhere.map((address) => new URL(address).pathname)).not.toContain("/api/v1/scores");
    expect(faults.filter((fault) => !fault.startsWith(`asked ${service}/api/v1/`))).toEqual([]);
    expect([...keyed.keys()].every((address) => address.startsWith(`${service}/api/v1/`))).toBe(true);
    expect(keyed.size).toBeGreaterThan(3);
    expect(cdn.refused).toEqual([]);
    await publishArchive(storage, { names: { api: null } });
    await proxy.stop();
  });

  test("says what is needed where scripts are off, and leads to pages that need none", async () => {
    const context = await browser.newContext({ javaScriptEnabled: false });
    const page = await context.newPage();
    await page.goto(home);
    expect(await page.textContent("h1")).toBe("This page needs JavaScript");
    await page.click('main a[href$="scores.json"]');
    expect(JSON.parse((await page.textContent("body")) ?? "").count).toBe(slugs.length);

    await publishArchive(storage, { names: { site: new URL(".", home).href } });
    // The browser would keep what it has for a minute.
    await page.goto(`${home}?again`);
    await page.click('main a[href="protocols/index.html"]');
    expect(await page.locator("tbody th a").allTextContents()).toEqual([...slugs].sort().map(nameOf));
    await page.click("text=Curve.fi");
    expect(await page.textContent("h1")).toBe("Curve.fi");
    const bars = await page.locator("td .bar").evaluateAll((all) => all.map((each) => each.clientHeight));
    // Of the BRI, twelve dimensions and four neighbours.
    expect(bars).toEqual(Array(17).fill(4));
    await page.click("text=Lido Dao");
    expect(await page.textContent("h1")).toBe("Lido Dao");
    await context.close();
    expect(cdn.refused).toEqual([]);
  });

  test("cites what was read by its hash, and tells of changes of tiers, beside pages that need no script", async () => {
    await publishArchive(storage, { names: { site: new URL(".", home).href } });
    const { page } = await visit({ browser, home: cdn.home }, "protocols/aave/index.html", { alone: true });
    await page.goto(`${cdn.home}protocols/index.html`);
    // It stays an address when other scores are published.
    await page.goto(home);
    await page.click("text=Take this chart along");
    const cited = page.getByRole("textbox", { name: "Citation" });
    const [address = "", hash] = / (http\S+\/objects\/([0-9a-f]{64})\.json)$/
      .exec((await cited.textContent()) ?? "")!
      .slice(1);
    const stored = Buffer.from(await (await fetch(address)).arrayBuffer());
    expect(sha256(stored)).toBe(hash);
    expect(stored).toEqual(await storage.get(layout.stableScoreList));
    await page.goto(`${home}#/compare/aave,lido-dao`);
    await arrived(page);
    await page.click("text=Take this chart along");
    expect(((await cited.textContent()) ?? "").match(/\/objects\/[0-9a-f]{64}\.json/g)).toHaveLength(2);

    // The log of tiers is published with the pages.
    await page.route("**/tiers.json", async (route) => {
      const response = await route.fetch();
      const tiers: Tiers = Tiers.parse(await response.json());
      const change = { slug: "aave", from: "DAMASCUS", to: "MITHRIL", bri: 700, at: tiers.since } as const;
      await route.fulfill({ json: { ...tiers, changes: [change, { ...change, slug: "lido-dao" }] } });
    });
    await page.goto(`${home}#/protocols/aave`);
    await page.waitForSelector(".moves li");
    expect(await page.locator(".moves li").allTextContents()).toEqual([
      "2026-03-01 00:00 UTC: DAMASCUS → MITHRIL, BRI 700",
    ]);
    await page.click("text=All scores");
    await page.click("tbody >> text=Curve.fi");
    await page.waitForSelector("text=None. The log has the changes of at most 30 days");
    expect(cdn.refused).toEqual([]);
  });

  test("lets others put embeds into frames, and no other page", async () => {
    await publishArchive(storage, { names: { site: new URL(".", home).href } });
    const names = ["embed/aave/index.html", "embed/index.html", "protocols/aave/index.html"];
    const frames = names.map((name) => `<iframe src="${new URL(name, home).href}"></iframe>`);
    const context = await browser.newContext();
    const page = await context.newPage();
    const elsewhere = createServer((_, response) => {
      response.writeHead(200, { "Content-Type": "text/html" }).end(frames.join(""));
    });
    await page.goto(`http://127.0.0.1:${await listenLocally(elsewhere)}/`);
    const [one, all, other] = page.frames().slice(1);
    expect(await one?.textContent("h1")).toBe("Risk score of Aave");
    expect(await one?.locator("td .bar").count()).toBe(12);
    expect(await all?.locator("svg .column").count()).toBe(slugs.length);
    expect(other?.url()).toBe("chrome-error://chromewebdata/");
    await context.close();
    elsewhere.close();
    for (const name of names.slice(0, 2)) await visit({ browser, home: cdn.home }, name, { alone: true });
  });
});
