import { copyFile, mkdir, rm } from "node:fs/promises";
import { Agent } from "node:http";
import { dirname, join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { facetNames } from "../../../schemas/filters.ts";
import type { HistoricalMarket } from "../../../schemas/records.ts";
import { peakMemory } from "../../helpers/servers/memory.ts";
import { startNginx } from "../../helpers/servers/nginx.ts";
import { publish } from "../data.ts";
import { someMarkets, warmUps } from "../filters.ts";
import { startGateway } from "../peers/gateway.ts";
import { type Bench, inTurn, loadOf, quantile, startConstant } from "../run.ts";
import { ask, askJson, programOf, startProxy, type Target } from "../servers.ts";

/** One score, by anyone who has a key. */
export async function score(bench: Bench): Promise<void> {
  const ours = await bench.startOurs();
  const listed: { slug: string }[] = (await askJson(ours, "/api/v1/scores")).scores;
  const paths = listed.map(({ slug }) => `/api/v1/scores/${slug}`);
  const express = await startConstant(bench, (await ask(ours, paths[0]!)).sent);
  const gateway = process.env.BENCH_GATEWAY;
  if (!gateway) bench.say("a gateway is left out: test/servers/gateway-install.sh builds one");
  const peers: [name: string, target: Target, goal: string][] = [
    ["Express, a constant", express, "ratio >= 0.85"],
    ["nginx proxy_pass to it", await startForwarding(bench, express), "ratio >= 0.5"],
    ["nginx with Lua, key and quota checked", await startLua(bench, ours.headers, express), "ratio >= 0.5"],
  ];
  if (gateway) {
    const target = await startGateway(bench, gateway, express);
    peers.push(["KrakenD's engine, token and limit checked", target, "ratio >= 2"]);
  }
  const loads: Record<string, () => Promise<number>> = {
    ours: await loadOf(bench, { target: ours, paths, connections: 16 }),
  };
  for (const [name, target] of peers)
    loads[name] = await loadOf(bench, { target, paths: ["/score"], connections: 16 });
  const busy = await inTurn(bench.effort.rounds, loads);
  for (const [name, , goal] of peers)
    await bench.found({
      work: "a score",
      unit: "requests/s",
      ours: busy.ours!,
      peer: [name, busy[name]!],
      goal,
    });
  const alone = await inTurn(
    4 * bench.effort.filters,
    {
      ours: async (round) => (await ask(ours, paths[round % paths.length]!)).milliseconds,
      peer: async () => (await ask(express, "/score")).milliseconds,
    },
    { warmUps: 4 * warmUps },
  );
  const peer = ["Express, a constant", alone.peer] as const;
  const work = "a score, one connection: p50";
  await bench.found({ work, unit: "ms", ours: alone.ours, peer, goal: "difference <= 0.5" });
}

/** nginx with this configuration. */
async function startSite({ ends }: Bench, site: (port: number) => string, modules?: string[]) {
  const nginx = await startNginx(programOf("nginx"), site, modules);
  ends.defer(nginx.stop);
  return { port: nginx.port, headers: {} };
}

const startForwarding = (bench: Bench, to: Target) =>
  startSite(
    bench,
    (port) => `
      upstream express { server 127.0.0.1:${to.port}; keepalive 32; }
      server {
        listen 127.0.0.1:${port};
        location / {
          proxy_pass http://express;
          proxy_http_version 1.1;
          proxy_set_header Connection "";
        }
      }
  `,
  );

/** The same bytes as a file that is ready to send, for those who have the key, as often as their day's units allow. */
async function startLua(
  bench: Bench,
  headers: Target["headers"],
  { port: constant }: Target,
): Promise<Target> {
  const folder = join(bench.data.scratch, "files");
  await mkdir(folder);
  await copyFile(join(bench.data.scratch, `constant-${constant}.gz`), join(folder, "score.gz"));
  const lua = programOf("ngx_http_lua_module.so");
  const site = (port: number) => `
    lua_shared_dict keys 1m;
    lua_shared_dict quota 10m;
    init_by_lua_block {
      gate = dofile("${join(import.meta.dirname, "../peers/gate.lua")}")
      gate.add("${headers["x-api-key"]}", "aegis", "bench", "1000000000000", "${2 ** 40}")
    }
    server {
      listen 127.0.0.1:${port};
      root ${folder};
      location / {
        gzip_static always;
        default_type application/json;
        access_by_lua_block { gate.check() }
      }
    }
  `;
  return { ...(await startSite(bench, site, [join(dirname(lua), "ndk_http_module.so"), lua])), headers };
}

/** What publishing and serving take of memory, with as many labels as there can be. */
export async function memory({ data, ends, found }: Bench): Promise<void> {
  const store = join(data.scratch, "memory");
  ends.defer(() => rm(store, { recursive: true, force: true }));
  const running = publish(ends, await data.sources(50_000), store);
  const peak = peakMemory(running.child);
  await running;
  const { metricsPort, headers } = await startProxy(ends, { ...data, store });
  const { body } = await ask({ port: metricsPort, headers }, "/metrics");
  const bytes = Number(/^prs_index_bytes (\S+)$/m.exec(body.toString())?.[1]) / data.markets;
  const labels = "with 50,000 outcome labels";
  await found({ work: `index in memory ${labels}`, unit: "bytes a market", ours: [bytes], goal: "<= 20" });
  const work = `peak of publishing ${labels}, all processes`;
  await found({ work, unit: "MiB", ours: [(await peak) / 2 ** 20], goal: "<= 1024" });
}

/** /healthz while ten of the most expensive requests at once are answered, each of them new. */
export async function health({ effort, found, startOurs }: Bench): Promise<void> {
  const ours = await startOurs();
  const markets = await someMarkets(ours);
  const { figures } = await inTurn(effort.rounds, {
    async figures(round) {
      const agent = new Agent({ keepAlive: true });
      const paths = Array.from({ length: 10 }, (_, place) => worst(markets, 10 * round + place));
      let over = false;
      const answered = Promise.all(paths.map((path) => ask(ours, path, agent))).finally(() => {
        over = true;
        agent.destroy();
      });
      const milliseconds: number[] = [];
      for (; !over; await pause(10)) milliseconds.push((await ask(ours, "/healthz")).milliseconds);
      await answered;
      return quantile(milliseconds, 0.99);
    },
  });
  const work = "ten of the most expensive requests at once: /healthz meanwhile, p99";
  await found({ work, unit: "ms", ours: figures, goal: "<= 50" });
}

/** A page whose markets lie in as many stored pages, all facets, or words with many endings; in turn. */
function worst(markets: readonly HistoricalMarket[], number: number): string {
  const archive = "/api/v1/markets/historical?pageSize=500";
  const { composite, question } = markets[(number * 31) % markets.length]!;
  const beginnings = question.toLowerCase().match(/\b[a-z]{2}/g) ?? [];
  const words = [...new Set(beginnings)].slice(0, 8).map((letters) => `${letters}*`);
  const range = (width: number) => `min_composite=${composite}&max_composite=${composite + width}`;
  if (number % 3 === 0 || words.length === 0) return `${archive}&${range(0)}`;
  if (number % 3 === 1) return `/api/v1/markets/facets?by=${facetNames}&${range(number)}`;
  return `${archive}&q=${words.join("+")}`;
}
