import { copyFile, mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { startNginx } from "../../helpers/servers/nginx.ts";
import { ask, jsonOf, type Target } from "../load/client.ts";
import { type Loaded, prepareLoad } from "../load/load.ts";
import { startGateway } from "../peers/gateway.ts";
import { startConstantPeer } from "../peers/peers.ts";
import { atMost, type Measurement, median } from "../run/measurement.ts";
import { startProxy } from "../run/proxy.ts";
import { type Bench, inTurn } from "../run/run.ts";

const connections = 16;
const scores = "/api/v1/scores";

/** Row 6: one score, by anyone who has a key. */
export async function measureScores(bench: Bench): Promise<Measurement[]> {
  const ours = await startProxy(bench, await bench.data.store());
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
type Rounds = Each<Loaded[]>;

async function rounds(
  bench: Bench,
  targets: Each<Target>,
  oursPaths: string[],
  connectionCount: number,
): Promise<Rounds> {
  const loads: Record<string, () => Promise<Loaded>> = {};
  for (const [name, target] of Object.entries(targets)) {
    const paths = name === "ours" ? oursPaths : ["/score"];
    const load = { target, name: `score-${name}`, paths, connections: connectionCount };
    loads[name] = await prepareLoad(bench, load);
  }
  return (await inTurn(bench.options.effort.rounds, loads)) as Rounds;
}

function throughput(figures: Rounds): Measurement[] {
  const perSecond = (loaded: Loaded[]) => loaded.map(({ requestsPerSecond }) => requestsPerSecond);
  const against = (rounds: Loaded[], name: string): Measurement => ({
    row: 6,
    work: "a score",
    unit: "requests/s",
    ours: perSecond(figures.ours),
    peer: { name, rounds: perSecond(rounds) },
  });
  const goal = { of: "ratio", at: "least", limit: 0.5 } as const;
  const bytes = median(figures.ours.map(({ bytesPerRequest }) => bytesPerRequest));
  return [
    {
      ...against(figures.express, "Express, a constant"),
      goal: { ...goal, limit: 0.85 },
      note:
        `${connections} connections, ${Math.round(bytes)} bytes an answer; ` +
        "ours checks a key and counts every request",
    },
    { ...against(figures.forwarding, "nginx proxy_pass to it"), goal },
    { ...against(figures.lua, "nginx with Lua, key and quota checked"), goal },
    ...(figures.gateway
      ? [
          {
            ...against(figures.gateway, "KrakenD's engine, token and limit checked"),
            goal: { ...goal, limit: 2 },
          },
        ]
      : []),
    against(figures.files, "nginx, a gzip file"),
  ];
}

function latency(figures: Rounds): Measurement {
  const p50 = (name: Name) => figures[name].map((loaded) => loaded.p50);
  return {
    row: 6,
    work: "a score, one connection: p50",
    unit: "ms",
    ours: p50("ours"),
    peer: { name: "Express, a constant", rounds: p50("express") },
    ...atMost(0.5, "difference"),
    note:
      `nginx proxy_pass ${median(p50("forwarding")).toFixed(3)} ms, ` +
      `a gzip file ${median(p50("files")).toFixed(3)} ms`,
  };
}

async function startForwarding({ programs, ends }: Bench, to: Target): Promise<Target> {
  const nginx = await startNginx(
    programs.nginx,
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
  ends.add(nginx.stop);
  return { port: nginx.port, headers: {} };
}

/** The same bytes as a file that is ready to send. */
async function startFiles({ programs, ends, data }: Bench): Promise<Target> {
  const folder = join(data.scratch, "files");
  await mkdir(folder);
  await copyFile(join(data.scratch, "score.gz"), join(folder, "score.gz"));
  const nginx = await startNginx(programs.nginx, (port) => fileSite(port, folder));
  ends.add(nginx.stop);
  return { port: nginx.port, headers: {} };
}

const fileSite = (port: number, folder: string, gate = "") => `
  server {
    listen 127.0.0.1:${port};
    root ${folder};
    location / { gzip_static always; default_type application/json; ${gate} }
  }
`;

/** The same file, for those who have the key, as often as their day's units allow. */
async function startLua({ programs, ends, data }: Bench, headers: Target["headers"]): Promise<Target> {
  const script = new URL("../peers/gate.lua", import.meta.url).pathname;
  const lua = programs["ngx_http_lua_module.so"];
  const nginx = await startNginx(
    programs.nginx,
    (port) => `
      lua_shared_dict keys 1m;
      lua_shared_dict quota 10m;
      init_by_lua_block {
        gate = dofile("${script}")
        gate.add("${headers["x-api-key"]}", "aegis", "bench", "1000000000000", "${2 ** 40}")
      }
      ${fileSite(port, join(data.scratch, "files"), "access_by_lua_block { gate.check() }")}
    `,
    [join(dirname(lua), "ndk_http_module.so"), lua],
  );
  ends.add(nginx.stop);
  return { port: nginx.port, headers };
}
