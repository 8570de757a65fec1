import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { cp, mkdir, symlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { nodeOptions } from "../servers/programs.ts";
import type { Ended, programs } from "./commands.ts";

const root = join(import.meta.dirname, "../../..");
const listed = ["schemas", "snapshots", "proxy", "scripts", "package.json", "tsconfig.json"];

/** The files of the product, with those that git does not know yet. */
export const productFiles: readonly string[] = execFileSync(
  "git",
  ["ls-files", "-z", "--cached", "--others", "--exclude-standard", ...listed],
  { cwd: root, encoding: "utf8" },
)
  .split("\0")
  .filter((file) => file !== "");

/** Copies files of the product to where their packages are found, too. */
export async function copyProject(copy: string, files = productFiles): Promise<void> {
  for (const file of files) {
    await mkdir(join(copy, dirname(file)), { recursive: true });
    await cp(join(root, file), join(copy, file));
  }
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
  const { Shell } = await import(scripts + "/cli.ts");
  process.on("message", async ({ name, args }) => {
    const said = { stdout: "", stderr: "" };
    const [stdout, stderr] = Object.keys(said).map((to) => ({ write: (text) => (said[to] += text) }));
    const program = (await import(scripts + "/commands/" + name + ".ts"))[name + "Program"];
    const code = await runProgram(program, args, new Shell(from, process.env, { stdout, stderr }));
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
