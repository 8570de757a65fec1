import type { Locator, Page } from "playwright-core";
import { beforeAll, describe, expect, test } from "vitest";
import { until } from "../helpers/http/proxy-client.ts";
import { market, publishArchive } from "../helpers/publish/records.ts";
import { findChromium } from "../helpers/servers/chromium.ts";
import { serveTree } from "../helpers/servers/public-tree.ts";
import { arrived, laptop, openWatched, overhang, phone, violations } from "../helpers/servers/site-page.ts";
import { serveSmallSite } from "../helpers/servers/site-served.ts";
import { memoryStorage } from "../helpers/store/storages.ts";
import { idle } from "./pages/look.ts";
import { type Visit, visit } from "./pages/visit.ts";

const program = findChromium();

async function findings(page: Page): Promise<string[]> {
  const ids = await page.evaluate<string[]>("[...document.querySelectorAll('[id]')].map(({ id }) => id)");
  return [
    ...(await violations(page)),
    ...((await overhang(page)) > 0 ? ["wider than the screen"] : []),
    ...ids.filter((id, index) => ids.indexOf(id) < index).map((id) => `two elements have the id ${id}`),
  ];
}

// One of the screens is dark: each view is looked at in either theme.
describe.skipIf(!program).each([
  ["phone", phone],
  ["laptop", laptop],
] as const)("on a %s axe finds nothing", (_, screen) => {
  const site = serveSmallSite();
  let before = "";
  beforeAll(async () => {
    const served = async () => (await site.proxy.get("/api/v1/status")).json().snapshotId;
    before = await served();
    await publishArchive(site.proxy.storage, { bri: 600 });
    await until("the newer snapshot", async () => (await served()) !== before);
  });

  const openAll = async ({ page, shell }: Visit) => {
    while ((await shell.closedDetails.count()) > 0) await shell.closedDetails.first().click();
    await idle(page);
  };
  const { id } = market(0);
  const isPhone = screen === phone;

  /** Addresses behind the #, what shows that they are there, and what a reader does then. */
  type State = [
    address: string,
    there: (reader: Visit) => Locator,
    act?: (reader: Visit) => Promise<unknown>,
  ];
  const said = (words: string) => (reader: Visit) => reader.page.getByText(words);
  const free: State[] = [
    ["/", ({ scoreboard }) => scoreboard.rows, openAll],
    ["/?find=zzz", ({ scoreboard }) => scoreboard.nothing],
    ["/protocols/aave", ({ protocol }) => protocol.amongPicture],
    [`/protocols/aave?asOf=${"0".repeat(64)}`, said("asks for an earlier state")],
    ["/protocols/none", ({ shell }) => shell.failure],
    ["/compare/", ({ compare }) => compare.choice],
    ["/compare/aave,lido-dao,none", ({ compare }) => compare.table],
    ["/meanings/governance", ({ meanings }) => meanings.entries],
    ["/dimensions/governance", ({ dimension }) => dimension.weakest],
    ["/dimensions/oracle", ({ shell }) => shell.promise],
    ["/week", said("Changes of tier")],
    ["/nowhere", said("No such page")],
    ["/archive?q=a&tier=RAW,CAST&from=2025-01-01&show=file", ({ archive }) => archive.askedTab],
    [`/markets/${id}`, ({ shell }) => shell.promise],
    ["/", ({ scoreboard }) => scoreboard.rows, ({ shell }) => shell.jump.go("aav")],
    [
      "/archive",
      ({ shell }) => shell.promise,
      async ({ page, shell }) => {
        await page.keyboard.press("Escape");
        await shell.key.open();
        await shell.key.offer("");
        await shell.key.problem.waitFor();
      },
    ],
  ];
  const keyed: State[] = [
    [
      "/",
      ({ scoreboard }) => scoreboard.rows,
      async ({ scoreboard }) => {
        await scoreboard.openers.first().click();
        await scoreboard.curve.locator("svg").first().waitFor();
      },
    ],
    [
      "/protocols/aave",
      ({ protocol }) => protocol.showRuns,
      async (reader) => {
        await reader.protocol.showRuns.click();
        await openAll(reader);
      },
    ],
    ["/protocols/aave?asOf=BEFORE", ({ asOf }) => asOf.state],
    ["/dimensions/oracle", ({ dimension }) => dimension.columns, openAll],
    ["/archive", ({ archive }) => archive.markets, openAll],
    ["/archive?show=score", ({ archive }) => archive.shares.verdicts, openAll],
    ["/archive?show=score&compare=bri-pm-v1&compare=v2", ({ archive }) => archive.shares.compared],
    ["/archive?show=file", ({ archive }) => archive.downloads],
    ["/archive?q=zzz", said("0 markets match")],
    ["/archive?q=zzz&show=score", ({ archive }) => archive.shares.verdicts],
    ["/archive?page=99", said("Showing none")],
    ["/archive?asOf=BEFORE", ({ asOf }) => asOf.state],
    ["/archive?colour=red", ({ archive }) => archive.problem],
    ["/archive?min_composite=5", ({ archive }) => archive.fieldProblem("min_composite").getByRole("alert")],
    [
      "/archive?min_oracle=1",
      ({ archive }) => archive.chosen,
      async ({ archive }) => {
        if (isPhone && !(await archive.sheet.isVisible())) await archive.openSheet.click();
      },
    ],
    [
      "/archive?min_oracle=2",
      ({ archive }) => archive.chosen,
      async ({ archive, recompute }) => {
        if (isPhone) await archive.leaveSheet.click();
        await recompute.opener.click();
      },
    ],
    [
      "/archive?disputed=true",
      ({ archive }) => archive.chosen,
      async ({ recompute }) => {
        await recompute.fetch.click();
        await recompute.done.waitFor();
      },
    ],
    [
      `/markets/${id}`,
      ({ market }) => market.signals,
      async (reader) => {
        await reader.market.verify.click();
        await reader.market.proven.waitFor();
        await openAll(reader);
      },
    ],
    ["/markets/ffffffff-ffff-4fff-8fff-ffffffffffff", ({ shell }) => shell.failure],
    [
      "/archive?q=spent",
      ({ archive }) => archive.markets.or(archive.failures).or(archive.count),
      async ({ page, goTo, archive }) => {
        const json = { code: "QUOTA_EXCEEDED", title: "Used up", detail: "Wait." };
        await page.route("**/markets/*", (route) => route.fulfill({ status: 429, json }));
        await goTo("#/archive?q=spent+all");
        await archive.sideProblem.or(archive.problem).first().waitFor();
      },
    ],
  ];

  test.each([
    ["without a key", free],
    ["with a key", keyed],
  ] as const)("in any view or state %s", async (_name, states) => {
    const key = states === keyed ? { key: site.aegis } : {};
    const reader = await visit(site, "", { ...key, screen, faulty: true });
    const { page, goTo } = reader;
    const found: [address: string, those: string[]][] = [];
    for (const [address, there, act] of states) {
      await goTo(`#${address.replace("BEFORE", before)}`);
      await arrived(page);
      await there(reader).first().waitFor();
      await idle(page);
      await act?.(reader);
      // What is not loaded yet is grey.
      await idle(page);
      const those = await findings(page);
      if (those.length > 0) found.push([address, those]);
    }
    expect(found).toEqual([]);
  });

  test("in a page or frame that needs no script", async () => {
    const storage = memoryStorage(new Map());
    const { server, home } = await serveTree(storage, "/some/folder/");
    await publishArchive(storage, { names: { site: home } });
    const { page, context } = await openWatched(site.browser, `${home}index.html`, screen);
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
