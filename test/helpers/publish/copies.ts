import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { copyFile, mkdir, symlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { nodeOptions } from "../servers/programs.ts";
import type { Ended, programs } from "./commands.ts";

const root = join(import.meta.dirname, "../../..");

/** The files of the project at these places, with those that git does not know yet. */
export function filesAt(...places: string[]): string[] {
  const listed = ["ls-files", "-z", "--cached", "--others", "--exclude-standard", ...places];
  return execFileSync("git", listed, { cwd: root, encoding: "utf8" }).split("\0").slice(0, -1);
}

export const productFiles = filesAt(
  ...["schemas", "snapshots", "proxy", "scripts", "package.json", "tsconfig.json"],
);

/** Copies files of the project. */
export async function copyFiles(copy: string, files: readonly string[]): Promise<void> {
  // `cp` would look at all folders above each file.
  for (const folder of new Set(files.map(dirname))) await mkdir(join(copy, folder), { recursive: true });
  for (const file of files) await copyFile(join(root, file), join(copy, file));
}

/** Copies files of the product to where their packages are found, too. */
export async function copyProject(copy: string, files = productFiles): Promise<void> {
  await copyFiles(copy, files);
  await symlink(join(root, "node_modules"), join(copy, "node_modules"));
}

/** Runs commands of a copy of the project, one at a time. */
export interface CopiedCommands {
  /** As `npm run NAME -- ARGUMENTS` would. Throws how the command ended when that is not with 0. */
  run(name: keyof typeof programs, ...args: string[]): Promise<Ended>;
  stop(): Promise<void>;
}

const runner = `
  const [, scripts, from] = process.argv;
  const { runProgram } = await import(scripts + "/program.ts");
  const { shellOf } = await import(scripts + "/cli.ts");
  process.on("message", async ({ name, args }) => {
    const said = { stdout: "", stderr: "" };
    const [stdout, stderr] = Object.keys(said).map((to) => ({ write: (text) => (said[to] += text) }));
    const program = (await import(scripts + "/" + name + ".ts"))[name + "Program"];
    const code = await runProgram(program, args, shellOf(from, process.env, { stdout, stderr }));
    process.send({ code, ...said });
  });`;

/** A process of its own for each command would spend most of its time on loading the modules of the copy. */
export function commandsOf(copy: string, from: string): CopiedCommands {
  const options = [...nodeOptions, "--input-type=module", "--eval", runner];
  const child = spawn(process.execPath, [...options, join(copy, "scripts"), from], {
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
  const gone = once(child, "exit").then(([code]) => ({ code, stdout: "", stderr: `${copy} runs no more` }));
  return {
    async run(name, ...args) {
      child.send({ name, args });
      const told = once(child, "message").then(([ended]) => ended as Ended);
      const ended = await Promise.race([told, gone]);
      if (ended.code !== 0) throw Object.assign(new Error(ended.stderr), ended);
      return ended;
    },
    async stop() {
      child.disconnect();
      await gone;
    },
  };
}
