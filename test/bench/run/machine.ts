import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { availableParallelism, cpus, loadavg, totalmem } from "node:os";
import type { Programs } from "./programs.ts";

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
