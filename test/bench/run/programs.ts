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
