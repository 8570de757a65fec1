import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { nodeOptions } from "./programs.ts";

/** How a command ended and what it said. */
export interface Ended {
  code: number | null;
  stdout: string;
  stderr: string;
}

/** Where and how a command runs. */
export interface Surroundings {
  /** The folder the user stands in. */
  from: string;
  env?: NodeJS.ProcessEnv;
  /** Through npm, as a user does it; without, half a second sooner. */
  npm?: boolean;
}

const root = join(import.meta.dirname, "../..");

/** Runs `npm run snapshot -- ARGUMENTS` to its end; `watch` sees the process as it begins. */
export function snapshotCommand(
  args: readonly string[],
  surroundings: Surroundings,
  watch?: (child: ChildProcess) => void,
): Promise<Ended> {
  return runCommand("snapshot", args, surroundings, watch);
}

/** Runs `npm run NAME -- ARGUMENTS`, which is scripts/NAME.ts, in the same way. */
export async function runCommand(
  name: "snapshot" | "keys",
  args: readonly string[],
  { from, env = {}, npm = false }: Surroundings,
  watch: (child: ChildProcess) => void = () => {},
): Promise<Ended> {
  const [command, all] = npm
    ? ["npm", ["--prefix", root, "run", "--silent", name, "--", ...args]]
    : [process.execPath, [...nodeOptions, join(root, `scripts/${name}.ts`), ...args]];
  const child = spawn(command, all, {
    // npm goes to its prefix itself; tsx is found from the project's folder.
    cwd: npm ? from : root,
    env: { ...process.env, INIT_CWD: from, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  watch(child);
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "close")]);
  return { code: child.exitCode, stdout, stderr };
}
