import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { childrenOf, commandOf } from "../servers/processes.ts";
import { nodeOptions } from "../servers/programs.ts";
import type { UnitCommand } from "./deployed.ts";
import { until } from "./proxy-client.ts";

/** A running `npm run proxy`. */
export interface ProxyCommand {
  child: ChildProcess;
  output: { out: string; err: string };
  /** Settles with the exit code once it and its workers are gone: they hold its output open. */
  ended: Promise<number | null>;
  /** Waits for `workers` processes that listen, or the end; returns the port. */
  listening(workers?: number): Promise<number>;
  /** Process ids that said so far that they listen. */
  pids(): number[];
  /** Ends what is left of it and its workers. */
  kill(): Promise<void>;
}

/** Starts `npm run proxy`'s own command, in a group of processes of its own, over the store in a directory. */
export function startProxyCommand(
  directory: string,
  env: Record<string, string>,
  program = process.execPath,
): ProxyCommand {
  const script = new URL("../../../scripts/proxy.ts", import.meta.url).pathname;
  return startUnit({
    program,
    args: [...nodeOptions, script],
    cwd: process.cwd(),
    env: { INIT_CWD: directory, SNAPSHOT_STORE: "store", PORT: "0", ...env },
  });
}

/** Starts what a unit file says, in a group of processes of its own. */
export function startUnit({ program, args, cwd, env }: UnitCommand): ProxyCommand {
  const child = spawn(program, args, {
    detached: true,
    cwd,
    env: { PATH: process.env.PATH, ...env },
  });
  const output = { out: "", err: "" };
  child.stdout.on("data", (chunk) => (output.out += chunk));
  child.stderr.on("data", (chunk) => (output.err += chunk));
  const ended = once(child, "close").then(([code]) => code);
  const listeners = () => output.out.split("\n").filter((line) => line.includes('"listening"'));
  return {
    child,
    output,
    ended,
    async listening(workers = 1) {
      await until(
        `${workers} processes to listen, or the command to end`,
        () => listeners().length >= workers || (child.exitCode ?? child.signalCode) !== null,
      );
      return Number(/"url":"http:\/\/127\.0\.0\.1:(\d+)"/.exec(output.out)?.[1]);
    },
    pids: () => listeners().map((line) => Number(/"pid":(\d+)/.exec(line)?.[1])),
    async kill() {
      signalGroup(child, "SIGKILL");
      await ended;
    },
  };
}

/** Process ids of the workers that a proxy started, whether they listen yet or not; Linux alone tells. */
export const workersOf = ({ pid }: ChildProcess): number[] =>
  childrenOf(pid!).filter((child) => commandOf(child).includes("scripts/proxy.ts"));

/** Signals a process and all it started, as a terminal does on Ctrl-C. */
export function signalGroup({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  try {
    process.kill(-pid!, signal);
  } catch (error) {
    const gone = error instanceof Error && "code" in error && error.code === "ESRCH";
    if (!gone) throw error;
  }
}
