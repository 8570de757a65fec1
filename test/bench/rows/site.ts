import { setTimeout as pause } from "node:timers/promises";
import type { Browser, Page } from "playwright-core";
import type { ScoreList } from "../../../schemas/envelopes.ts";
import { findChromium, launch } from "../../helpers/servers/chromium.ts";
import { enterKey, laptop, openWatched, phone } from "../../helpers/servers/site-page.ts";
import { ask, jsonOf } from "../load/client.ts";
import { atMost, line, type Measurement } from "../run/measurement.ts";
import { type Ours, startProxy } from "../run/proxy.ts";
import type { Bench } from "../run/run.ts";

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

/** Row 22: the site in Chromium, on a laptop and on a phone. */
export async function measureSite(bench: Bench): Promise<Measurement[]> {
  const program = findChromium();
  if (!program) {
    bench.say("left out, because Chromium is not installed");
    return [];
  }
  const ours = await startProxy(bench);
  const browser = await launch(program);
  bench.ends.defer(() => browser.close());
  const list: ScoreList = jsonOf(await ask(ours, "/api/v1/scores"));
  const { markets } = jsonOf(await ask(ours, "/api/v1/markets/historical?pageSize=1"));
  const [one, other] = list.scores;
  const views = [
    ["home", "#/", ".board tbody tr"],
    ["protocol", `#/protocols/${one!.slug}`, ".among svg"],
    ["compare", `#/compare/${one!.slug},${other!.slug}`, ".compared-protocols"],
    ["meanings", "#/meanings", ".meanings"],
    ["archive", "#/archive", ".market"],
    ["scores in the archive", "#/archive?show=score", ".shares svg"],
    ["market", `#/markets/${markets[0].id}`, ".signals"],
  ] as const;
  const shifts = new Map<string, number[]>();
  const slow = new Map<string, number[]>();
  const bytes = new Map<string, number[]>();
  const note = (figures: Map<string, number[]>, name: string, value: number) =>
    figures.set(name, [...(figures.get(name) ?? []), value]);
  for (let round = 0; round < bench.options.effort.rounds; round += 1) {
    for (const [device, screen] of [
      ["laptop", laptop],
      ["phone", phone],
    ] as const) {
      for (const [name, address, ready] of views) {
        const { page, context } = await open(browser, ours, screen);
        await visit(page, ours, address, ready);
        note(shifts, `${name}, ${device}`, await page.evaluate<number>("shifted"));
        await context.close();
      }
      const visitor = await open(browser, ours, screen);
      const cdp = await visitor.context.newCDPSession(visitor.page);
      let fetched = 0;
      cdp.on("Network.loadingFinished", ({ encodedDataLength }) => {
        fetched += encodedDataLength;
      });
      await cdp.send("Network.enable");
      await visit(visitor.page, ours, "#/", views[0][2]);
      note(bytes, "home", fetched / 1000);
      await visit(visitor.page, ours, "#/archive", ".market");
      note(bytes, "home and then the archive", fetched / 1000);
      note(slow, `a choice in the archive, ${device}`, await chooseSome(visitor.page));
      await visitor.context.close();
      for (const [what, milliseconds] of await handleRows(browser, ours, screen, list))
        note(slow, `${what}, ${device}`, milliseconds);
    }
  }
  const row = (work: string, unit: string, values: number[], limit: number) =>
    line(22, work, unit, values, atMost(limit));
  return [
    ...[...shifts].map(([name, values]) => row(`layout shift: ${name}`, "", values, 0.05)),
    ...[...slow].map(([name, values]) => row(`slowest interaction: ${name}`, "ms", values, 150)),
    ...[...bytes].map(([name, values]) =>
      row(`bytes of a first visit: ${name}`, "kB", values, name === "home" ? 90 : 110),
    ),
  ];
}

async function open(browser: Browser, { port }: Ours, screen: typeof laptop) {
  const watched = await openWatched(browser, `http://127.0.0.1:${port}/healthz`, screen);
  await watched.page.addInitScript(watching);
  return watched;
}

/** Goes to a view as a link from elsewhere leads there, with a key if the view is closed without. */
async function visit(page: Page, { port, headers }: Ours, address: string, ready: string): Promise<void> {
  await page.goto(`http://127.0.0.1:${port}/${address}`);
  if (/archive|markets/.test(address) && !(await page.isVisible("text=Forget key")))
    await enterKey(page, headers["x-api-key"]!);
  await page.waitForSelector(ready);
  await settle(page);
}

/** Waits until the page shows no older figures, and what it drew has been reported. */
async function settle(page: Page): Promise<void> {
  await page.waitForSelector("[aria-busy]", { state: "detached" });
  await pause(500);
}

const slowestOf = async (page: Page, work: () => Promise<void>): Promise<number> => {
  await page.evaluate("slowest = 0");
  await work();
  await settle(page);
  return page.evaluate<number>("slowest");
};

/** Searches for a word, and looks at the shares of disputed markets. */
const chooseSome = (page: Page) =>
  slowestOf(page, async () => {
    await page.locator("#q").pressSequentially("will", { delay: 50 });
    await page.waitForSelector(".chosen a");
    await settle(page);
    await page.click(".tabs >> text=Do scores mean something?");
    await page.waitForSelector(".shares svg");
  });

async function handleRows(browser: Browser, ours: Ours, screen: typeof laptop, list: ScoreList) {
  const { page, context } = await open(browser, ours, screen);
  const scores = Array.from({ length: rows }, (_, place) => ({
    ...list.scores[place % list.scores.length]!,
    slug: `protocol-${place}`,
  }));
  await page.route("**/api/v1/scores", (route) => route.fulfill({ json: { ...list, count: rows, scores } }));
  await visit(page, ours, "#/", ".board tbody tr");
  const all = await slowestOf(page, async () => {
    await page.getByText(/^Show \d+ more/).click();
    await page.waitForSelector(`.board tbody tr:nth-child(${rows})`, { state: "attached" });
  });
  const sorted = await slowestOf(page, async () => {
    for (const name of ["TVL", "Protocol"]) {
      await page.click(`th button:has-text("${name}")`);
      await settle(page);
    }
  });
  await context.close();
  return [
    [`all ${rows} rows`, all],
    [`${rows} rows sorted`, sorted],
  ] as const;
}
