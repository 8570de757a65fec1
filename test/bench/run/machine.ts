import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { availableParallelism, cpus, loadavg, totalmem } from "node:os";
import { usageError } from "../../../scripts/cli.ts";
import { lookUp } from "../../helpers/servers/programs.ts";

/** Programs that the run starts, and the packages they come with. */
const packages = {
  wrk: "wrk",
  nginx: "nginx",
  "ngx_http_lua_module.so": "libnginx-mod-http-lua",
  postgres: "postgresql",
  initdb: "postgresql",
  psql: "postgresql-client",
} as const;

export interface Programs extends Record<keyof typeof packages, string> {
  /** A Python that has chdb, where test/servers/python-install.sh has made one. */
  chdb: string | undefined;
  /** KrakenD's engine, where test/servers/gateway-install.sh has built it. */
  gateway: string | undefined;
}

/** Throws USAGE naming the packages that are missing. */
export function findPrograms(): Programs {
  const found = Object.entries(packages).map(([name, from]) => ({ name, from, path: lookUp(name) }));
  const missing = found.filter(({ path }) => path === undefined);
  const told = missing.map(
    ({ name, from }) => `${name} is not installed: it comes with the package ${from}.`,
  );
  if (told.length > 0) throw usageError(told.join("\n"));
  const paths = Object.fromEntries(found.map(({ name, path }) => [name, path]));
  return {
    ...(paths as Record<keyof typeof packages, string>),
    chdb: process.env.BENCH_CHDB_PYTHON,
    gateway: process.env.BENCH_GATEWAY,
  };
}

/** What the figures were measured on. */
export interface Machine {
  facts: Record<string, string>;
  /** Why the figures may not be trusted. */
  warning?: string;
}

/** Above this load something else is at work. */
const idleLoad = 0.5;

export function describeMachine(programs: Programs): Machine {
  const load = loadavg()[0]!;
  const facts = {
    time: new Date().toISOString(),
    processor: `${availableParallelism()} x ${cpus()[0]?.model ?? "unknown"}`,
    memory: `${(totalmem() / 2 ** 30).toFixed(1)} GiB`,
    "load at start": load.toFixed(2),
    node: process.version,
    ...Object.fromEntries(["express", "pg", "@duckdb/node-api"].map((name) => [name, versionOf(name)])),
    postgresql: firstLine(programs.postgres, "--version"),
    nginx: firstLine(programs.nginx, "-v"),
    wrk: firstLine(programs.wrk, "-v"),
  };
  const warning = `the machine is not idle (load ${load.toFixed(2)}); measure again on a quiet one`;
  return load <= idleLoad ? { facts } : { facts, warning };
}

function versionOf(name: string): string {
  const file = new URL(`../../../node_modules/${name}/package.json`, import.meta.url);
  return JSON.parse(readFileSync(file, "utf8")).version;
}

/** Some programs tell their version on stderr, and fail. */
function firstLine(program: string, option: string): string {
  const shell = `"$0" ${option} 2>&1 || true`;
  return execFileSync("sh", ["-c", shell, program], { encoding: "utf8" }).split("\n")[0]!.trim();
}
