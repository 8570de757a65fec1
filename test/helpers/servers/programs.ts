import { randomInt } from "node:crypto";
import { once } from "node:events";
import { existsSync, globSync } from "node:fs";
import { type AddressInfo, createServer, type Server } from "node:net";
import { delimiter, join } from "node:path";

/** For node, as every command has them. */
export const nodeOptions = ["--import", new URL("../../../scripts/installed.js", import.meta.url).href];

const postgresFolders = "/usr/lib/postgresql/*/bin";

/** A server's program by any of its names, or undefined where it is not installed; under CI that is an error. */
export function findProgram(...names: string[]): string | undefined {
  // Debian puts servers where only root's PATH leads, and PostgreSQL's programs in a folder for each version.
  const folders = [...(process.env.PATH ?? "").split(delimiter), "/usr/sbin", ...globSync(postgresFolders)];
  const paths = names.flatMap((name) => folders.map((folder) => join(folder, name)));
  const program = paths.find(existsSync);
  if (program) return program;
  if (process.env.CI) throw new Error(`CI runs the tests with ${names[0]} too: it must be installed`);
  console.warn(`Tests with ${names[0]} are skipped: it is not installed`);
  return undefined;
}

/** An older Node, as .ci/run installs them, or undefined where it is not installed; under CI that is an error. */
export function findNode(version: "20" | "22"): string | undefined {
  const folder = `../../../.ci/nodes/node_modules/node${version}-${process.arch}`;
  const path = new URL(`${folder}/bin/node`, import.meta.url).pathname;
  if (existsSync(path)) return path;
  if (process.env.CI) throw new Error("CI runs older Nodes too: npm ci --prefix .ci/nodes");
  console.warn(`Tests with Node ${version} are skipped: npm ci --prefix .ci/nodes installs it`);
  return undefined;
}

/**
 * What a variable of the environment names for tests with `what`, or undefined where it is not set; under CI that is an
 * error. `script` of test/servers/ prints the variable.
 */
export function fromEnvironment(variable: string, what: string, script: string): string | undefined {
  const value = process.env[variable];
  if (value) return value;
  if (process.env.CI) throw new Error(`CI runs the tests with ${what} too: ${variable} must be set`);
  console.warn(`Tests with ${what} are skipped: test/servers/${script} prints ${variable}`);
  return undefined;
}

/** Lets a server listen on a free loopback port, which is returned. */
export async function listenLocally(server: Server): Promise<number> {
  await once(server.listen(0, "127.0.0.1"), "listening");
  return (server.address() as AddressInfo).port;
}

/**
 * A port that was free a moment ago, for servers that cannot choose one themselves. Systems give ports from 32,768 on
 * to whoever asks for any, such as a connection that another test makes before the server listens.
 */
export async function freePort(): Promise<number> {
  const server = createServer();
  for (;;) {
    const listening = once(server.listen(randomInt(15_000, 32_768), "127.0.0.1"), "listening");
    if (!(await listening.catch(() => undefined))) continue;
    const { port } = server.address() as AddressInfo;
    server.close();
    await once(server, "close");
    return port;
  }
}
