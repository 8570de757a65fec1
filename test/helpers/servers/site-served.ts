import { join } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll } from "vitest";
import type { MarketPage, ScoreList } from "../../../schemas/envelopes.ts";
import { nameOf } from "../../../schemas/names.ts";
import type { ScoreListEntry } from "../../../schemas/records.ts";
import { sampleDefaults, writeSample } from "../../../snapshots/sample/sample.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import { startTestProxy, type TestProxy, type TestProxyOptions } from "../http/proxy.ts";
import { bearer, until } from "../http/proxy-client.ts";
import { publishSources } from "../publish/sample-sources.ts";
import { memoryStorage } from "../store/storages.ts";
import { testFolder } from "../store/test-folder.ts";
import { sharedBrowser } from "./chromium.ts";

/** Protocols of the sample. */
export const protocols = 40;

/** A proxy that serves the site over a sample of 2,000 markets, and a browser. */
export interface ServedSite {
  proxy: TestProxy;
  browser: Browser;
  /** The address of the site. */
  home: string;
  /** A key on the Aegis plan for pages. */
  aegis: string;
  /** Asks the API, by default with a key of another owner: what tests ask leaves the pages' quota alone. */
  api(path: string, key?: string): Promise<ReturnType<typeof JSON.parse>>;
  scores(): Promise<ScoreListEntry[]>;
  markets(query: string): Promise<MarketPage>;
}

let published: Promise<Map<string, Buffer>> | undefined;

/** The store of the sample, which takes some seconds to make: the files that one process tests share it. */
function publishedSample(folder: string): Promise<Map<string, Buffer>> {
  published ??= (async () => {
    const objects = new Map<string, Buffer>();
    const directory = join(folder, "sources");
    await writeSample({ ...sampleDefaults, directory, markets: 2000, protocols, days: 10 });
    await publishSources(directory, memoryStorage(objects), folder);
    return objects;
  })();
  return published;
}

/** The site for the tests of a file, where Chromium is installed. It is complete once the first test runs. */
export function serveSite(): ServedSite {
  const folder = testFolder();
  // In the order in which they were published: who has seen the commit finds the rest.
  const fill = async (storage: Storage) => {
    for (const [key, bytes] of await publishedSample(folder)) await storage.put(key, bytes);
  };
  const site = serveSmallSite(fill, {}) as ServedSite;
  beforeAll(async () => {
    const own = await site.proxy.issue({ owner: "tests" });
    site.api = async (path, key = own) =>
      (await site.proxy.get(`/api/v1/${path}`, { headers: bearer(key) })).json();
    site.scores = async () => ((await site.api("scores")) as ScoreList).scores;
    site.markets = (query) => site.api(`markets/historical?${query}`);
  });
  return site;
}

/** The site over a hand-made archive of 40 markets, which is served at once, or over what is put into its store. */
export function serveSmallSite(
  fill?: (storage: Storage) => Promise<unknown>,
  options: TestProxyOptions = { contact: "mailto:keys@example.org" },
): Pick<ServedSite, "proxy" | "browser" | "home" | "aegis"> {
  const site = {} as ServedSite;
  beforeAll(async () => {
    const proxy = await startTestProxy({ ...options, empty: fill !== undefined });
    const home = `http://127.0.0.1:${proxy.port}/`;
    Object.assign(site, { proxy, home, browser: await sharedBrowser(), aegis: await proxy.issue() });
    if (fill) {
      await fill(proxy.storage);
      await until("the proxy to be ready", async () => (await proxy.get("/readyz")).status === 200);
    }
  });
  afterAll(async () => {
    for (const context of site.browser?.contexts() ?? []) await context.close();
    await site.proxy?.stop();
  });
  return site;
}

/** A key of a record as the site spells it. */
export const spoken = (key: string) => `${key.charAt(0).toUpperCase()}${key.slice(1).replaceAll("_", " ")}`;

/** What a row of the scoreboard says of an entry. */
export function asRow(entry: ScoreListEntry): string[] {
  const { slug, category, chain, tvl, bri, forgeScale, confidence, delta, updatedAt } = entry;
  const change = delta > 0 ? `▲up +${delta}` : delta < 0 ? `▼down −${-delta}` : "unchanged, 0";
  const time = `${updatedAt.slice(0, 10)} ${updatedAt.slice(11, 16)} UTC`;
  return [nameOf(slug), category, chain, tvl, String(bri), forgeScale, String(confidence), change, time];
}
