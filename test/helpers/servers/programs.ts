import { type ChildProcess, type SpawnOptions, spawn } from "node:child_process";
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { existsSync, globSync } from "node:fs";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { delimiter, join } from "node:path";
import { createInterface } from "node:readline";

/** For node, as every command has them. */
export const nodeOptions = ["--import", new URL("../../../scripts/installed.js", import.meta.url).href];

/** A program or a module of nginx by any of its names, or undefined where it is not installed. */
export function lookUp(...names: string[]): string | undefined {
  // Debian puts servers where only root's PATH leads, and PostgreSQL's programs in a folder for each version.
  const debian = ["/usr/sbin", "/usr/lib/nginx/modules", ...globSync("/usr/lib/postgresql/*/bin")];
  const folders = [...(process.env.PATH ?? "").split(delimiter), ...debian];
  return names.flatMap((name) => folders.map((folder) => join(folder, name))).find(existsSync);
}

/** Says that tests are skipped, and what they lack; under CI that is an error. */
function skipped(what: string, lack: string): undefined {
  if (process.env.CI) throw new Error(`CI runs the tests with ${what} too: ${lack}`);
  console.warn(`Tests with ${what} are skipped: ${lack}`);
}

/** The same for tests; under CI it is an error when it is not installed. */
export const findProgram = (...names: string[]): string | undefined =>
  lookUp(...names) ?? skipped(names[0]!, "it is not installed");

/** An older Node, as .ci/run installs them, or undefined where it is not installed; under CI that is an error. */
export function findNode(version: "20" | "22"): string | undefined {
  const folder = `../../../.ci/nodes/node_modules/node${version}-${process.arch}`;
  const path = new URL(`${folder}/bin/node`, import.meta.url).pathname;
  return existsSync(path) ? path : skipped(`Node ${version}`, "npm ci --prefix .ci/nodes installs it");
}

/**
 * What a variable of the environment names for tests with `what`, or undefined where it is not set; under CI that is an
 * error. `script` of test/servers/ prints the variable.
 */
export const fromEnvironment = (variable: string, what: string, script: string): string | undefined =>
  process.env[variable] || skipped(what, `test/servers/${script} prints ${variable}`);

/**
 * Starts a server, and waits until it writes a line to `pipe` that says that it runs. Returns it and the lines that it
 * has written there so far. Throws with these when it ends before.
 */
export async function startServer(
  program: string,
  args: readonly string[],
  { says, pipe, ...options }: { says: RegExp; pipe: "stdout" | "stderr" } & SpawnOptions,
): Promise<{ child: ChildProcess; lines: string[] }> {
  const stdio = ["stdin", "stdout", "stderr"].map((name) => (name === pipe ? "pipe" : "ignore"));
  const child = spawn(program, args, { ...options, stdio } as SpawnOptions);
  const lines: string[] = [];
  await new Promise<void>((resolve, reject) => {
    // They are read until the end: a pipe that nobody empties would stop the server one day.
    createInterface({ input: child[pipe]! }).on("line", (line) => {
      lines.push(line);
      if (says.test(line)) resolve();
    });
    child.once("error", reject);
    child.once("close", () => reject(new Error(`${program} ended before it ran: ${lines.join("\n")}`)));
  });
  return { child, lines };
}

/** Ends a process, unless it has ended, and waits until it is gone. */
export async function endProcess(child: ChildProcess | undefined, signal: NodeJS.Signals): Promise<void> {
  if (!child || child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  child.kill(signal);
  await ended;
}

/** Lets a server listen on a free loopback port, which is returned. */
export async function listenLocally(server: Server): Promise<number> {
  await once(server.listen(0, "127.0.0.1"), "listening");
  return (server.address() as AddressInfo).port;
}

/** Whether somebody listens on a port of this machine. */
export async function takesConnections(port: number): Promise<boolean> {
  const socket = connect(port, "127.0.0.1");
  const taken = await once(socket, "connect").catch(() => undefined);
  socket.destroy();
  return taken !== undefined;
}

/** A server of this process on a free loopback port. */
export interface LocalServer {
  port: number;
  url: string;
  /** Connections that are open now. */
  open(): number;
  /** Ends these, too. */
  stop(): Promise<void>;
}

/** Starts one. A connection that fails is only closed. */
export async function serveLocally(server: Server): Promise<LocalServer> {
  const sockets = new Set<Socket>();
  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.on("error", () => socket.destroy()).on("close", () => sockets.delete(socket));
  });
  const port = await listenLocally(server);
  return {
    port,
    url: `http://127.0.0.1:${port}`,
    open: () => sockets.size,
    async stop() {
      const closed = once(server, "close");
      server.close();
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
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
