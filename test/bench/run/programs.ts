import { existsSync, readdirSync } from "node:fs";
import { delimiter, join } from "node:path";
import { UsageError } from "../../../scripts/cli.ts";

/** Programs that the run starts, and the packages they come with. */
const packages = {
  wrk: "wrk",
  nginx: "nginx",
  postgres: "postgresql",
  initdb: "postgresql",
  psql: "postgresql-client",
} as const;

export type Programs = Record<keyof typeof packages, string>;

// Debian puts servers where only root's PATH leads, and PostgreSQL's programs in a folder for each version.
const versions = "/usr/lib/postgresql";
const debian = existsSync(versions)
  ? readdirSync(versions).map((version) => join(versions, version, "bin"))
  : [];
const folders = [...debian, ...(process.env.PATH ?? "").split(delimiter), "/usr/sbin"];

const names = Object.keys(packages) as (keyof Programs)[];

const find = (name: string) => folders.map((folder) => join(folder, name)).find(existsSync);

/** What is not installed, one sentence each. */
export function missingPrograms(): string[] {
  const missing = names.filter((name) => find(name) === undefined);
  return missing.map((name) => `${name} is not installed: it comes with the package ${packages[name]}.`);
}

/** Throws UsageError naming the packages that are missing. */
export function findPrograms(): Programs {
  const missing = missingPrograms();
  if (missing.length > 0) throw new UsageError(missing.join("\n"));
  return Object.fromEntries(names.map((name) => [name, find(name)])) as Programs;
}
