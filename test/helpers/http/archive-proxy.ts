import { Agent } from "node:http";
import { pino } from "pino";
import { expect } from "vitest";
import { publicObjects, storeOrigin } from "../../../proxy/origin/origin.ts";
import { sqliteQuota } from "../../../proxy/quota/counters.ts";
import { createQuota } from "../../../proxy/quota/quota.ts";
import { createProxyServer } from "../../../proxy/server.ts";
import { createMetrics } from "../../../proxy/telemetry/telemetry.ts";
import type { MarketFacets, MarketPage, Problem } from "../../../schemas/envelopes.ts";
import { issueKey, keyRing } from "../../../snapshots/keys/keys.ts";
import { Catalog } from "../../../snapshots/read/catalog/catalog.ts";
import { type Exports, openExports } from "../../../snapshots/read/catalog/exports.ts";
import { openPublicLog } from "../../../snapshots/read/catalog/public-log.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import { readAnyLog } from "../../../snapshots/trust/log/log-reader.ts";
import { serveLocally } from "../servers/programs.ts";
import { patient } from "./proxy.ts";
import { type Answer, bearer, call, problemOf } from "./proxy-client.ts";

/** Query parameters by name. */
export type Query = Record<string, string | number>;

/** A proxy over a store that takes up a snapshot only when a test says so. Its clock stands still. */
export interface ArchiveProxy {
  catalog: Catalog;
  exports: Exports;
  /** Takes up the newest snapshot, as a poll would. */
  refresh(): Promise<void>;
  /** The archive's answer to a caller on the Aegis plan, over one connection that is kept open. */
  get(query: Query, headers?: Record<string, string>): Promise<Answer>;
  /** The page of a query that must succeed. */
  page(query: Query): Promise<MarketPage>;
  /** The facets that a query asks for; it must succeed. */
  facets(query: Query): Promise<MarketFacets>;
  /** The error of a query that must not. */
  problem(query: Query): Promise<Problem>;
  /** Address and headers for another client. */
  address: string;
  headers: Record<string, string>;
  stop(): Promise<void>;
}

const now = Date.parse("2030-01-02T00:00:00.000Z");

/** Starts a proxy in this process on a free port, with the newest snapshot of the store. */
export async function startArchiveProxy(
  storage: Storage,
  { cacheBytes = 64 * 1024 * 1024 } = {},
): Promise<ArchiveProxy> {
  const { key } = await issueKey(
    storage,
    { plan: "aegis", owner: "tests", quota: 1_000_000_000 },
    new Date(now),
  );
  const catalog = new Catalog(storage, { cacheBytes, now: () => now });
  await catalog.refresh();
  const fail = (error: unknown) => {
    throw error;
  };
  const keys = keyRing(storage, { now: () => now, damaged: fail });
  await keys.reload();
  const quota = createQuota(sqliteQuota(":memory:"), { onFailure: "closed", now: () => now, failed: fail });
  const exports = openExports(storage, catalog, readAnyLog(storage));
  const { server } = createProxyServer({
    catalog,
    exports,
    publicLog: openPublicLog(storage, catalog.log, readAnyLog(storage)),
    objects: publicObjects(1024),
    quota,
    companions: {},
    pollAge: () => 0,
    now: () => now,
    keys,
    origin: storeOrigin(storage),
    metrics: createMetrics(),
    trustProxy: undefined,
    files: [],
    staleAfterSeconds: 60,
    keepAliveSeconds: 60,
    limits: patient,
    log: pino({ level: "silent" }),
  });
  const { port, url, stop } = await serveLocally(server);
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });

  const ask = (name: string, query: Query, headers: Record<string, string> = {}) =>
    call(port, `/api/v1/markets/${name}?${search(query)}`, {
      headers: { ...bearer(key), ...headers },
      agent,
    });
  const found = async (name: string, query: Query) => {
    const answer = await ask(name, query);
    if (answer.status !== 200) expect.fail(`${name}?${search(query)}: ${answer.status} ${answer.text}`);
    return answer.json();
  };
  return {
    catalog,
    exports,
    refresh: () => catalog.refresh(),
    get: (query, headers) => ask("historical", query, headers),
    page: (query) => found("historical", query),
    facets: (query) => found("facets", query),
    problem: async (query) => problemOf(await ask("historical", query)),
    address: `${url}/api/v1/markets/historical`,
    headers: bearer(key),
    async stop() {
      agent.destroy();
      await stop();
      quota.close();
    },
  };
}

/** The query text; a space is written as + or as %20 in turn, as clients do. */
export function search(query: Query): string {
  const pairs = Object.entries(query).map(([name, value], place) => {
    const text = encodeURIComponent(value);
    return `${name}=${place % 2 ? text.replaceAll("%20", "+") : text}`;
  });
  return pairs.join("&");
}
