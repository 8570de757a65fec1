import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { findChromium } from "../helpers/chromium.ts";
import { bearer } from "../helpers/proxy-client.ts";
import { enterKey, focusIsOn, openWatched, seriousFaults, type WatchedPage } from "../helpers/site-page.ts";
import { serveSite } from "../helpers/site-served.ts";

const program = findChromium();

describe.skipIf(!program)("the site says what is wrong where it is", () => {
  const site = serveSite();
  let watched: WatchedPage;
  let page: Page;
  beforeAll(async () => {
    watched = await openWatched(site.browser, `${site.home}#/archive`);
    ({ page } = watched);
  });
  afterAll(() => watched.context.close());
  const refused = (status: string) => [expect.stringContaining(`status of ${status}`)];

  test("a wrong key, which is then gone from its field", async () => {
    await page.click("text=Enter an API key");
    for (const [key, status] of [
      ["prs_live_wrong", ["401"]],
      ["Schlüssel", []],
      ["", []],
    ] as const) {
      await page.fill("#key", key);
      await page.click("text=Use key");
      await page.waitForSelector("#key-problem .failure");
      expect(await page.inputValue("#key")).toBe("");
      expect(await focusIsOn(page, "#key[aria-invalid]")).toBe(true);
      expect(watched.faults.splice(0)).toEqual(status.flatMap(refused));
    }
    await page.fill("#key", "prs_live_wrong");
    await page.click("text=Use key");
    const problem = (await site.proxy.get("/api/v1/usage", { headers: bearer("prs_live_wrong") })).json();
    await page.waitForSelector(`text=${problem.detail}`);
    expect(await page.textContent("#key-problem strong")).toBe(problem.title);
    expect(await page.textContent(".standing")).toMatch(/^Free plan/);
    watched.faults.splice(0);
  });

  test("a key of a lower plan", async () => {
    await enterKey(page, await site.proxy.issue({ plan: "developer" }));
    await page.waitForSelector("text=yours is on the Developer plan");
    expect(watched.faults).toEqual([]);
    await page.click("text=Forget key");
  });

  test("a wrong filter, at its field", async () => {
    await enterKey(page, site.aegis);
    await page.waitForSelector(".market");
    for (const [field, value, label] of [
      ["min_composite", "5", "Composite, at least"],
      ["min_oracle", "101", "Oracle, at least"],
      ["from", "2025-02-30", "Resolved, from"],
      ["max_composite", "many", "Composite, at most"],
    ] as const) {
      expect(await page.textContent(`label[for=${field}]`)).toBe(label);
      await page.fill(`#${field}`, value);
      await page.click(".filters button[type=submit]");
      const { detail } = await site.api(`markets/historical?${field}=${value}`);
      await page.waitForSelector(`#problem-${field} >> text=${detail.replace(field, `“${label}”`)}`);
      expect(await page.textContent(`#problem-${field}`)).not.toContain("_");
      expect(await focusIsOn(page, `#${field}[aria-invalid]`)).toBe(true);
      expect(await page.locator(".market").count()).toBe(0);
      expect(await seriousFaults(page)).toEqual([]);
      expect(watched.faults.splice(0)).toEqual(refused("400"));
      await page.fill(`#${field}`, "");
    }
    await page.fill("#min_informed", "2");
    await page.fill("#max_informed", "1");
    await page.click("text=Show markets");
    await page.waitForSelector("text=“Informed, at least” is above “Informed, at most”.");
    await page.fill("#max_informed", "");
    await page.fill("#min_informed", "");
    await page.fill("#from", "2025-02-02");
    await page.fill("#to", "2025-02-01");
    await page.click("text=Show markets");
    await page.waitForSelector("text=“Resolved, from” is later than “Resolved, to”.");
    watched.faults.splice(0);
    await page.fill("#from", "");
    await page.fill("#to", "");
    await page.click("text=Show markets");
    await page.waitForSelector(".market");
    expect(await page.locator(".failure, [aria-invalid]").count()).toBe(0);
  });

  test("an unknown protocol and an unknown page", async () => {
    await page.goto(`${site.home}#/protocols/no-such-one`);
    await page.waitForSelector("text=No such protocol");
    expect(watched.faults.splice(0)).toEqual(refused("404"));
    await page.goto(`${site.home}#/protocols/../keys`);
    await page.waitForSelector("text=No such page");
    expect(watched.faults).toEqual([]);
  });
});
