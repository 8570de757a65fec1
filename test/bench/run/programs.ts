import { existsSync, readdirSync } from "node:fs";
import { delimiter, join } from "node:path";
import { usageError } from "../../../scripts/cli.ts";

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
  /** A Python that has chdb, where test/servers/chdb-install.sh has made one. */
  chdb: string | undefined;
  /** KrakenD's engine, where test/servers/gateway-install.sh has built it. */
  gateway: string | undefined;
}

// Debian puts servers where only root's PATH leads, and PostgreSQL's programs in a folder for each version.
const versions = "/usr/lib/postgresql";
const debian = existsSync(versions)
  ? readdirSync(versions).map((version) => join(versions, version, "bin"))
  : [];
const servers = ["/usr/sbin", "/usr/lib/nginx/modules"];
const folders = [...debian, ...(process.env.PATH ?? "").split(delimiter), ...servers];

const names = Object.keys(packages) as (keyof typeof packages)[];

const find = (name: string) => folders.map((folder) => join(folder, name)).find(existsSync);

/** What is not installed, one sentence each. */
function missingPrograms(): string[] {
  const missing = names.filter((name) => find(name) === undefined);
  return missing.map((name) => `${name} is not installed: it comes with the package ${packages[name]}.`);
}

/** Throws USAGE naming the packages that are missing. */
export function findPrograms(): Programs {
  const missing = missingPrograms();
  if (missing.length > 0) throw usageError(missing.join("\n"));
  const found = names.map((name) => [name, find(name)]);
  return {
    ...(Object.fromEntries(found) as Record<keyof typeof packages, string>),
    chdb: process.env.BENCH_CHDB_PYTHON,
    gateway: process.env.BENCH_GATEWAY,
  };
}
