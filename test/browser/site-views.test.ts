import type { Page } from "playwright-core";
import { beforeAll, describe, expect, test } from "vitest";
import { until } from "../helpers/http/proxy-client.ts";
import { market, publishArchive } from "../helpers/publish/records.ts";
import { findChromium } from "../helpers/servers/chromium.ts";
import { serveTree } from "../helpers/servers/public-tree.ts";
import { arrived, enterKey, openWatched, overhang, violations } from "../helpers/servers/site-page.ts";
import { serveSmallSite } from "../helpers/servers/site-served.ts";
import { memoryStorage } from "../helpers/store/storages.ts";

const program = findChromium();

/** What is found in each theme: all rules in one, and in the other those that it may break. */
async function findings(page: Page): Promise<string[]> {
  const found = [];
  for (const [colorScheme, rules] of [["dark", ["color-contrast"]], ["light"]] as const) {
    await page.emulateMedia({ colorScheme });
    found.push(...(await violations(page, rules)));
  }
  if ((await overhang(page)) > 0) found.push("wider than the screen");
  return found;
}

const screens = [
  ["phone", 390],
  ["laptop", 1366],
] as const;

describe.skipIf(!program).each(screens)("on a %s axe finds nothing, in either theme,", (screen, width) => {
  const site = serveSmallSite();
  let before = "";
  beforeAll(async () => {
    const served = async () => (await site.proxy.get("/api/v1/status")).json().snapshotId;
    before = await served();
    await publishArchive(site.proxy.storage, { bri: 600 });
    await until("the newer snapshot", async () => (await served()) !== before);
  });

  const openAll = async (page: Page) => {
    const closed = page.locator("main details:not([open]) > summary:visible");
    while ((await closed.count()) > 0) await closed.first().click();
    await page.waitForSelector("[aria-busy]", { state: "detached" });
  };
  const recompute = async (page: Page) => {
    await page.click("text=Fetch and recompute");
    await page.waitForSelector("text=✓ Recomputed.");
  };
  const { id } = market(0);

  /** Addresses behind the #, what shows that they are there, and what a reader does then. */
  type State = [address: string, there: string, act?: (page: Page) => Promise<unknown>];
  const free: State[] = [
    ["/", "tbody tr", openAll],
    ["/?find=zzz", "text=No protocol matches"],
    ["/protocols/aave", ".among svg"],
    [`/protocols/aave?asOf=${"0".repeat(64)}`, "text=asks for an earlier state"],
    ["/protocols/none", ".failure"],
    ["/compare/", "#add"],
    ["/compare/aave,lido-dao,none", ".compared-protocols"],
    ["/meanings/governance", ".meaning"],
    ["/nowhere", "text=No such page"],
    ["/archive?q=a&tier=RAW,CAST&from=2025-01-01&show=file", ".shared"],
    [`/markets/${id}`, ".promise"],
    ["/", "tbody tr", (page) => page.keyboard.press("Control+k").then(() => page.keyboard.type("aav"))],
    [
      "/archive",
      ".promise",
      async (page) => {
        await page.keyboard.press("Escape");
        await page.click("summary:has-text('Enter an API key')");
        await page.click("text=Use key");
        await page.waitForSelector("#key-problem .failure");
      },
    ],
  ];
  const keyed: State[] = [
    [
      "/",
      "tbody tr",
      (page) => page.click(".opener >> nth=0").then(() => page.waitForSelector(".curve svg")),
    ],
    [
      "/protocols/aave",
      ".why button",
      async (page) => {
        await page.click(".why button");
        await openAll(page);
      },
    ],
    ["/protocols/aave?asOf=BEFORE", ".state"],
    ["/archive", ".market", openAll],
    ["/archive?show=score", ".verdict", openAll],
    ["/archive?show=score&compare=bri-pm-v1&compare=v2", ".compared"],
    ["/archive?show=file", ".take"],
    ["/archive?q=zzz", "text=0 markets match"],
    ["/archive?q=zzz&show=score", ".verdict"],
    ["/archive?page=99", "text=Showing none"],
    ["/archive?asOf=BEFORE", ".state"],
    ["/archive?colour=red", ".problem .failure"],
    ["/archive?min_composite=5", ".facet .failure"],
    [
      "/archive?min_oracle=1",
      ".chosen",
      async (page) => {
        if (screen === "phone" && !(await page.isVisible(".sheet"))) await page.click("text=/^Filters$/");
      },
    ],
    [
      "/archive?min_oracle=2",
      ".chosen",
      async (page) => {
        if (screen === "phone") await page.click(".done button");
        await page.click("#recompute");
      },
    ],
    ["/archive?disputed=true", ".chosen", recompute],
    [
      `/markets/${id}`,
      ".signals",
      async (page) => {
        await page.click("text=Verify in this browser");
        await page.waitForSelector(".proven");
        await openAll(page);
      },
    ],
    ["/markets/ffffffff-ffff-4fff-8fff-ffffffffffff", ".failure"],
    [
      "/archive?q=spent",
      ".market, .failure, .count",
      async (page) => {
        const quotaUsedUp = {
          status: 429,
          json: { code: "QUOTA_EXCEEDED", title: "Used up", detail: "Wait." },
        };
        await page.route("**/markets/*", (route) => route.fulfill(quotaUsedUp));
        await page.goto(`${site.home}#/archive?q=spent+all`);
        await page.waitForSelector(".results .failure");
      },
    ],
  ];

  test.each([
    ["without a key", free],
    ["with a key", keyed],
  ] as const)("in any view or state %s", async (_name, states) => {
    const { page, context } = await openWatched(site.browser, site.home, { scheme: "light", width });
    if (states === keyed) await enterKey(page, site.aegis);
    const found: Record<string, string[]> = {};
    for (const [address, there, act] of states) {
      await page.goto(`${site.home}#${address.replace("BEFORE", before)}`);
      await arrived(page);
      await page.waitForSelector(there);
      await page.waitForSelector("[aria-busy]", { state: "detached" });
      await act?.(page);
      // What is not loaded yet is grey.
      await page.waitForSelector("[aria-busy]", { state: "detached" });
      const those = await findings(page);
      if (those.length > 0) found[`${address} ${there}`] = those;
    }
    expect(found).toEqual({});
    await context.close();
  });

  test("in a page or frame that needs no script", async () => {
    const storage = memoryStorage(new Map());
    const { server, home } = await serveTree(storage, "/some/folder/");
    await publishArchive(storage, { siteUrl: home });
    const { page, context } = await openWatched(site.browser, `${home}index.html`, {
      scheme: "light",
      width,
    });
    const found: Record<string, string[]> = {};
    for (const name of ["protocols/", "protocols/aave/", "embed/", "embed/aave/"]) {
      await page.goto(`${home}${name}index.html`);
      const those = await findings(page);
      if (those.length > 0) found[name] = those;
    }
    expect(found).toEqual({});
    await context.close();
    server.close();
  });
});
