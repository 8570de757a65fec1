import { type ChildProcess, type SpawnOptions, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { setTimeout as pause } from "node:timers/promises";
import { nodeOptions } from "../../helpers/servers/programs.ts";

const root = join(import.meta.dirname, "../../..");

/** How node runs a source of this repository. */
export const nodeCommand = (file: string, ...flags: string[]) => [
  process.execPath,
  ...flags,
  ...nodeOptions,
  join(root, file),
];

/** How long a server may take to come up, or to go down. */
const patience = 60_000;

/** Starts a server in the project's folder, to be ended by its process id. What it says on stderr is shown. */
export function startServer(
  ends: AsyncDisposableStack,
  command: readonly string[],
  { stopSignal = "SIGTERM", ...options }: SpawnOptions & { stopSignal?: NodeJS.Signals } = {},
): ChildProcess {
  const [program, ...args] = command;
  const child = spawn(program!, args, { cwd: root, stdio: ["ignore", "ignore", "inherit"], ...options });
  const ended = once(child, "exit");
  ends.defer(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill(stopSignal);
    const late = setTimeout(() => child.kill("SIGKILL"), patience);
    await ended;
    clearTimeout(late);
  });
  return child;
}

/** Waits until `ready` does not throw. Throws its error when the server ended, or did not come up in time. */
export async function whenReady(child: ChildProcess, ready: () => Promise<void>): Promise<void> {
  for (const start = Date.now(); ; await pause(50)) {
    try {
      return await ready();
    } catch (error) {
      const ended = child.exitCode !== null || child.signalCode !== null;
      if (ended || Date.now() - start > patience) throw error;
    }
  }
}

/** Runs a command to its end and returns what it printed. Throws when it fails, with what it said. */
export async function runProgram(
  ends: AsyncDisposableStack,
  command: readonly string[],
  { watch, ...options }: SpawnOptions & { watch?: (child: ChildProcess) => void } = {},
): Promise<string> {
  const [program, ...args] = command;
  const child = spawn(program!, args, { cwd: root, ...options, stdio: ["ignore", "pipe", "pipe"] });
  // Ctrl-C in the middle of it; once it has ended there is nothing to signal.
  ends.defer(() => void child.kill());
  watch?.(child);
  const [out, err] = await Promise.all([text(child.stdout!), text(child.stderr!), once(child, "close")]);
  if (child.exitCode === 0) return out;
  throw new Error(`${command.join(" ")} ended with ${child.exitCode ?? child.signalCode}: ${err || out}`);
}
