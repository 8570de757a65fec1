import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect } from "vitest";
import { askProgram } from "../../../scripts/ask.ts";
import { shellOf } from "../../../scripts/cli.ts";
import { doctorProgram } from "../../../scripts/doctor.ts";
import { keysProgram } from "../../../scripts/keys.ts";
import { runProgram } from "../../../scripts/program.ts";
import { sampleProgram } from "../../../scripts/sample.ts";
import { snapshotProgram } from "../../../scripts/snapshot.ts";
import { startProgram } from "../../../scripts/start.ts";
import { syncProgram } from "../../../scripts/sync.ts";
import { nodeOptions } from "../servers/programs.ts";

/** How a command ended and what it said. */
export interface Ended {
  code: number | null;
  stdout: string;
  stderr: string;
}

/** Where and how a command runs. */
export interface CommandOptions {
  /** The user's working directory. */
  from: string;
  /** Added to the environment of the tests. */
  env?: NodeJS.ProcessEnv;
  /** Runs through npm, as a user would. Otherwise the command runs in this process, which saves seconds. */
  npm?: boolean;
}

/** Every program of scripts/, by its name. */
export const programs = {
  ask: askProgram,
  doctor: doctorProgram,
  keys: keysProgram,
  sample: sampleProgram,
  snapshot: snapshotProgram,
  start: startProgram,
  sync: syncProgram,
};

const root = join(import.meta.dirname, "../../..");

/** Runs `npm run snapshot -- ARGUMENTS` to its end. */
export function snapshotCommand(args: readonly string[], options: CommandOptions): Promise<Ended> {
  return runCommand("snapshot", args, options);
}

/** Runs `npm run NAME -- ARGUMENTS` in the same way. */
export async function runCommand(
  name: keyof typeof programs,
  args: readonly string[],
  { from, env = {}, npm = false }: CommandOptions,
): Promise<Ended> {
  if (npm) return watched("npm", ["--prefix", root, "run", "--silent", name, "--", ...args], from, from, env);
  const output = { stdout: new Heard(), stderr: new Heard() };
  const code = await runProgram(programs[name], args, shellOf(from, { ...process.env, ...env }, output));
  return { code, stdout: output.stdout.text, stderr: output.stderr.text };
}

/** A command ended with this code, and says all of these texts: on stdout where it succeeded, and else on stderr. */
export function expectEnd(ended: Ended, code: number, ...told: readonly (string | RegExp)[]): void {
  const said = code === 0 ? ended.stdout : ended.stderr;
  const wanted = (text: string | RegExp) =>
    typeof text === "string" ? expect.stringContaining(text) : expect.stringMatching(text);
  for (const text of ["", ...told]) expect([ended.code, said]).toEqual([code, wanted(text)]);
}

/** Runs a script as a process of its own, which `watch` sees as it begins. */
export function scriptProcess(
  name: "snapshot" | "sync",
  args: readonly string[],
  { from, env = {} }: Omit<CommandOptions, "npm">,
  watch: (child: ChildProcess) => void = () => {},
): Promise<Ended> {
  const all = [...nodeOptions, join(root, `scripts/${name}.ts`), ...args];
  return watched(process.execPath, all, root, from, env, watch);
}

async function watched(
  program: string,
  args: readonly string[],
  cwd: string,
  from: string,
  more: NodeJS.ProcessEnv,
  watch: (child: ChildProcess) => void = () => {},
): Promise<Ended> {
  const env = { ...process.env, INIT_CWD: from, ...more };
  const child = spawn(program, args, { cwd, env, stdio: ["ignore", "pipe", "pipe"] });
  watch(child);
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "close")]);
  return { code: child.exitCode, stdout, stderr };
}

/** Keeps what is written to it. */
class Heard {
  text = "";

  write(text: string): void {
    this.text += text;
  }
}
