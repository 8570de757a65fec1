import { copyFile, mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { startNginx } from "../../helpers/servers/nginx.ts";
import { ask, jsonOf, type Target } from "../load/client.ts";
import { type Loaded, prepareLoad } from "../load/load.ts";
import { startGateway } from "../peers/gateway.ts";
import { startConstantPeer } from "../peers/peers.ts";
import { against, atLeast, atMost, line, type Measurement, median } from "../run/measurement.ts";
import { startProxy } from "../run/proxy.ts";
import { type Bench, inTurn } from "../run/run.ts";

const connections = 16;
const scores = "/api/v1/scores";

/** Row 6: one score, by anyone who has a key. */
export async function measureScores(bench: Bench): Promise<Measurement[]> {
  const ours = await startProxy(bench);
  const listed: { slug: string }[] = jsonOf(await ask(ours, scores)).scores;
  const paths = listed.map(({ slug }) => `${scores}/${slug}`);
  const { sent } = await ask(ours, paths[0]!);
  const express = await startConstantPeer(bench, "score", sent);
  const forwarding = await startForwarding(bench, express);
  const files = await startFiles(bench);
  const lua = await startLua(bench, ours.headers);
  const { gateway: program } = bench.programs;
  if (!program) bench.say("a gateway is left out of row 6: test/servers/gateway-install.sh builds one");
  const gateway = program && (await startGateway(bench, program, express));
  const targets = { ours, express, forwarding, files, lua, ...(gateway && { gateway }) };
  const busy = await rounds(bench, targets, paths, connections);
  const alone = await rounds(bench, targets, paths, 1);
  return [...throughput(busy), latency(alone)];
}

type Name = "ours" | "express" | "forwarding" | "files" | "lua";
/** The gateway's may be left out. */
type Each<T> = Record<Name, T> & { gateway?: T };

async function rounds(bench: Bench, targets: Each<Target>, oursPaths: string[], connections: number) {
  const loads: Record<string, () => Promise<Loaded>> = {};
  for (const [name, target] of Object.entries(targets)) {
    const paths = name === "ours" ? oursPaths : ["/score"];
    loads[name] = await prepareLoad(bench, { target, name: `score-${name}`, paths, connections });
  }
  return (await inTurn(bench.options.effort.rounds, loads)) as Each<Loaded[]>;
}

function throughput(figures: Each<Loaded[]>): Measurement[] {
  const perSecond = (loaded: Loaded[]) => loaded.map(({ requestsPerSecond }) => requestsPerSecond);
  const beside = (rounds: Loaded[], name: string, more: Partial<Measurement> = {}) =>
    line(6, "a score", "requests/s", perSecond(figures.ours), {
      ...against(name, perSecond(rounds)),
      ...more,
    });
  const bytes = median(figures.ours.map(({ bytesPerRequest }) => bytesPerRequest));
  const { express, forwarding, lua, gateway, files } = figures;
  return [
    beside(express, "Express, a constant", {
      ...atLeast(0.85),
      note:
        `${connections} connections, ${Math.round(bytes)} bytes an answer; ` +
        "ours checks a key and counts every request",
    }),
    beside(forwarding, "nginx proxy_pass to it", atLeast(0.5)),
    beside(lua, "nginx with Lua, key and quota checked", atLeast(0.5)),
    ...(gateway ? [beside(gateway, "KrakenD's engine, token and limit checked", atLeast(2))] : []),
    beside(files, "nginx, a gzip file"),
  ];
}

function latency(figures: Each<Loaded[]>): Measurement {
  const p50 = (name: Name) => figures[name].map((loaded) => loaded.p50);
  const [proxyPass, file] = [p50("forwarding"), p50("files")].map((rounds) => median(rounds).toFixed(3));
  return line(6, "a score, one connection: p50", "ms", p50("ours"), {
    ...against("Express, a constant", p50("express")),
    ...atMost(0.5, "difference"),
    note: `nginx proxy_pass ${proxyPass} ms, a gzip file ${file} ms`,
  });
}

/** nginx with this configuration. */
async function startSite({ programs, ends }: Bench, site: (port: number) => string, modules?: string[]) {
  const nginx = await startNginx(programs.nginx, site, modules);
  ends.defer(nginx.stop);
  return { port: nginx.port, headers: {} };
}

const startForwarding = (bench: Bench, to: Target): Promise<Target> =>
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

/** The same bytes as a file that is ready to send. */
async function startFiles(bench: Bench): Promise<Target> {
  const folder = join(bench.data.scratch, "files");
  await mkdir(folder);
  await copyFile(join(bench.data.scratch, "score.gz"), join(folder, "score.gz"));
  return startSite(bench, (port) => fileSite(port, folder));
}

const fileSite = (port: number, folder: string, gate = "") => `
  server {
    listen 127.0.0.1:${port};
    root ${folder};
    location / { gzip_static always; default_type application/json; ${gate} }
  }
`;

/** The same file, for those who have the key, as often as their day's units allow. */
async function startLua(bench: Bench, headers: Target["headers"]): Promise<Target> {
  const script = new URL("../peers/gate.lua", import.meta.url).pathname;
  const lua = bench.programs["ngx_http_lua_module.so"];
  const site = (port: number) => `
      lua_shared_dict keys 1m;
      lua_shared_dict quota 10m;
      init_by_lua_block {
        gate = dofile("${script}")
        gate.add("${headers["x-api-key"]}", "aegis", "bench", "1000000000000", "${2 ** 40}")
      }
      ${fileSite(port, join(bench.data.scratch, "files"), "access_by_lua_block { gate.check() }")}
    `;
  return { ...(await startSite(bench, site, [join(dirname(lua), "ndk_http_module.so"), lua])), headers };
}
