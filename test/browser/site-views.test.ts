import type { Locator, Page } from "playwright-core";
import { beforeAll, describe, expect, test } from "vitest";
import { takenUp } from "../helpers/http/live-feed.ts";
import { market, publishArchive } from "../helpers/publish/records.ts";
import { findChromium } from "../helpers/servers/chromium.ts";
import { serveTree } from "../helpers/servers/public-tree.ts";
import {
  arrived,
  laptop,
  openWatched,
  overhang,
  phone,
  type Screen,
  violations,
} from "../helpers/servers/site-page.ts";
import { serveSmallSite } from "../helpers/servers/site-served.ts";
import { memoryStorage } from "../helpers/store/storages.ts";
import { idle } from "./pages/look.ts";
import { type Visit, visit } from "./pages/visit.ts";

const program = findChromium();

/** What is wrong on each of these screens. */
async function findings(page: Page, screens: readonly Screen[]): Promise<string[]> {
  const found: string[] = [];
  for (const { scheme, width } of screens) {
    await page.emulateMedia({ colorScheme: scheme });
    await page.setViewportSize({ width, height: 800 });
    found.push(...(await violations(page)));
    if ((await overhang(page)) > 0) found.push(`wider than ${width} pixels`);
  }
  const ids = await page.evaluate<string[]>("[...document.querySelectorAll('[id]')].map(({ id }) => id)");
  return found.concat(
    ids.filter((id, index) => ids.indexOf(id) < index).map((id) => `two have the id ${id}`),
  );
}

describe.skipIf(!program)("axe finds nothing", () => {
  const site = serveSmallSite();
  let before = "";
  beforeAll(async () => {
    before = (await site.proxy.get("/api/v1/status")).json().snapshotId;
    const { snapshotId } = await publishArchive(site.proxy.storage, { bri: 600 });
    await takenUp(site.proxy, snapshotId);
  });

  const openAll = async ({ page, shell }: Visit) => {
    while ((await shell.closedDetails.count()) > 0) await shell.closedDetails.first().click();
    await idle(page);
  };
  const { id } = market(0);

  /** Addresses behind the #, what shows that they are there, and what a reader does then. */
  type State = [
    address: string,
    there: (reader: Visit) => Locator,
    act?: (reader: Visit) => Promise<unknown>,
  ];
  const said = (words: string) => (reader: Visit) => reader.page.getByText(words);
  // What programs are told to ask next is not for readers, and trying again does not help.
  const failed = (words: string) => (reader: Visit) => reader.shell.failure.getByText(words, { exact: true });
  const free: State[] = [
    ["/", ({ scoreboard }) => scoreboard.rows, openAll],
    ["/?find=zzz", ({ scoreboard }) => scoreboard.nothing],
    ["/protocols/aave", ({ protocol }) => protocol.amongPicture],
    [`/protocols/aave?asOf=${"0".repeat(64)}`, said("asks for an earlier state")],
    ["/protocols/none", failed("No such protocol No protocol of this name is scored.")],
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
    [
      "/archive?q=zzz&show=score",
      said("There are too few markets here to compare"),
      // A share of no market is not 0 %.
      async ({ archive }) => expect(await archive.shares.sections.count()).toBe(0),
    ],
    [
      "/archive?page=99",
      said("Showing none of 40."),
      async ({ archive }) => {
        await archive.turn("Previous");
        await archive.range.filter({ hasText: "Showing 26 to 40 of 40." }).waitFor();
      },
    ],
    ["/archive?asOf=BEFORE", ({ asOf }) => asOf.state],
    ["/archive?min_informed=2&max_informed=1", said("“Informed, at least” is above “Informed, at most”.")],
    ["/archive?from=2025-02-02&to=2025-02-01", said("“Resolved, from” is later than “Resolved, to”.")],
    [
      "/archive?asOf=2001-01-01",
      ({ archive }) => archive.problem,
      async ({ archive }) => expect(await archive.figures()).toEqual([]),
    ],
    ["/archive?colour=red", ({ archive }) => archive.problem.filter({ hasText: "colour" })],
    [
      "/archive?colour=blue",
      ({ archive }) => archive.problem,
      async ({ archive }) => {
        await archive.takeAway(/^Colour/);
        await archive.markets.first().waitFor();
        expect(await archive.failures.or(archive.faultyFields).count()).toBe(0);
      },
    ],
    ["/archive?min_composite=5", ({ archive }) => archive.fieldProblem("min_composite").getByRole("alert")],
    ["/archive?min_oracle=2", ({ archive }) => archive.chosen, ({ recompute }) => recompute.opener.click()],
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
    const reader = await visit(site, "", { ...key, faulty: true });
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
      // Each view is looked at on a small dark screen too, but not each of its states.
      const those = await findings(page, address.includes("?") ? [laptop] : [phone, laptop]);
      if (those.length > 0) found.push([address, those]);
    }
    expect(found).toEqual([]);
  });

  test("in the sheet with the filters on a phone", async () => {
    const reader = await visit(site, "#/archive", { key: site.aegis, screen: phone });
    await reader.archive.openSheet.click();
    await idle(reader.page);
    expect(await findings(reader.page, [phone])).toEqual([]);
  });

  test("in a page or frame that needs no script", async () => {
    const storage = memoryStorage(new Map());
    const { server, home } = await serveTree(storage, "/some/folder/");
    await publishArchive(storage, { names: { site: home } });
    const { page, context } = await openWatched(site.browser, `${home}index.html`);
    const found: Record<string, string[]> = {};
    for (const name of ["protocols/", "protocols/aave/", "embed/", "embed/aave/"]) {
      await page.goto(`${home}${name}index.html`);
      const those = await findings(page, [phone, laptop]);
      if (those.length > 0) found[name] = those;
    }
    expect(found).toEqual({});
    await context.close();
    server.close();
  });
});
