import { setTimeout as pause } from "node:timers/promises";
import type { Page } from "playwright-core";
import type { ScoreList } from "../../../schemas/envelopes.ts";
import { findChromium, launch } from "../../helpers/servers/chromium.ts";
import { enterKey, laptop, openWatched, phone, type Screen } from "../../helpers/servers/site-page.ts";
import type { Bench } from "../run.ts";
import { askJson } from "../servers.ts";

/** Rows of the scoreboard. */
const rows = 1000;

// In the page: the sum of its layout shifts, and its slowest answer to a click or key in milliseconds.
const watching = `
  window.shifted = 0;
  window.slowest = 0;
  new PerformanceObserver((list) => {
    for (const { value, hadRecentInput } of list.getEntries()) if (!hadRecentInput) shifted += value;
  }).observe({ type: "layout-shift", buffered: true });
  new PerformanceObserver((list) => {
    for (const { duration, interactionId } of list.getEntries())
      if (interactionId > 0) slowest = Math.max(slowest, duration);
  }).observe({ type: "event", durationThreshold: 16, buffered: true });`;

/** Waits until the page shows no older figures, and what it drew has been reported. */
async function settle(page: Page): Promise<void> {
  await page.waitForSelector("[aria-busy]", { state: "detached" });
  await pause(500);
}

/** The site in Chromium, on a laptop and on a phone. */
export async function site(bench: Bench): Promise<void> {
  const program = findChromium();
  if (!program) return bench.say("left out, because Chromium is not installed");
  const ours = await bench.startOurs();
  const url = `http://127.0.0.1:${ours.port}`;
  const browser = await launch(program);
  bench.ends.defer(() => browser.close());
  const list: ScoreList = await askJson(ours, "/api/v1/scores");
  const { markets } = await askJson(ours, "/api/v1/markets/historical?pageSize=1");
  const [one, other] = list.scores;
  const views = {
    home: ["#/", ".board tbody tr"],
    protocol: [`#/protocols/${one!.slug}`, ".among svg"],
    compare: [`#/compare/${one!.slug},${other!.slug}`, ".compared-protocols"],
    meanings: ["#/meanings", ".meanings"],
    archive: ["#/archive", ".market"],
    "scores in the archive": ["#/archive?show=score", ".shares svg"],
    market: [`#/markets/${markets[0].id}`, ".signals"],
  } as const;
  const figures = new Map<string, number[]>();
  const note = (name: string, value: number) => figures.set(name, [...(figures.get(name) ?? []), value]);

  /** A reader with nothing cached. */
  async function withReader(screen: Screen, work: (page: Page) => Promise<void>): Promise<void> {
    const { page, context } = await openWatched(browser, `${url}/healthz`, screen);
    await page.addInitScript(watching);
    await work(page);
    await context.close();
  }
  /** Goes to a view as a link from elsewhere leads there, with a key if the view is closed without. */
  async function visit(page: Page, [address, ready]: readonly [string, string]): Promise<void> {
    await page.goto(`${url}/${address}`);
    if (/archive|markets/.test(address) && !(await page.isVisible("text=Forget key")))
      await enterKey(page, ours.headers["x-api-key"]);
    await page.waitForSelector(ready);
    await settle(page);
  }
  async function noteSlowest(page: Page, name: string, work: () => Promise<void>): Promise<void> {
    await page.evaluate("slowest = 0");
    await work();
    await settle(page);
    note(`slowest interaction: ${name}`, await page.evaluate<number>("slowest"));
  }
  const screens = Object.entries({ laptop, phone });
  for (let round = 0; round < bench.effort.rounds; round += 1)
    for (const [device, screen] of screens) {
      for (const [name, view] of Object.entries(views))
        await withReader(screen, async (page) => {
          await visit(page, view);
          note(`layout shift: ${name}, ${device}`, await page.evaluate<number>("shifted"));
        });
      await withReader(screen, async (page) => {
        const cdp = await page.context().newCDPSession(page);
        let fetched = 0;
        cdp.on("Network.loadingFinished", ({ encodedDataLength }) => (fetched += encodedDataLength));
        await cdp.send("Network.enable");
        await visit(page, views.home);
        note("bytes of a first visit: home", fetched / 1000);
        await visit(page, views.archive);
        note("bytes of a first visit: home and then the archive", fetched / 1000);
        await noteSlowest(page, `a choice in the archive, ${device}`, async () => {
          await page.locator("#q").pressSequentially("will", { delay: 50 });
          await page.waitForSelector(".chosen a");
          await settle(page);
          await page.click(".tabs >> text=Do scores mean something?");
          await page.waitForSelector(".shares svg");
        });
      });
      await withReader(screen, async (page) => {
        const of = (place: number) => ({
          ...list.scores[place % list.scores.length]!,
          slug: `protocol-${place}`,
        });
        const json = { ...list, count: rows, scores: Array.from({ length: rows }, (_, place) => of(place)) };
        await page.route("**/api/v1/scores", (route) => route.fulfill({ json }));
        await visit(page, views.home);
        await noteSlowest(page, `all ${rows} rows, ${device}`, async () => {
          await page.getByText(/^Show \d+ more/).click();
          await page.waitForSelector(`.board tbody tr:nth-child(${rows})`, { state: "attached" });
        });
        await noteSlowest(page, `${rows} rows sorted, ${device}`, async () => {
          for (const name of ["TVL", "Protocol"]) {
            // A click could meet rows that are being drawn.
            await page.focus(`th button:has-text("${name}")`);
            await page.keyboard.press("Enter");
            await settle(page);
          }
        });
      });
    }
  const goals = { layout: ["", 0.05], slowest: ["ms", 150], bytes: ["kB", 90] } as const;
  for (const [work, all] of figures) {
    const [unit, limit] = goals[work.split(" ")[0] as keyof typeof goals];
    const goal = `<= ${work.endsWith("and then the archive") ? 110 : limit}`;
    await bench.found({ work, unit, ours: all, goal });
  }
}
