import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { errors } from "../../schemas/errors.ts";
import { expectEnd, programs } from "../helpers/publish/commands.ts";
import { findNode, nodeOptions } from "../helpers/servers/programs.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

const root = join(import.meta.dirname, "../..");
const folder = testFolder();

/** Prints the help of a script, which runs from the test's folder, with nothing in its environment. */
async function helpOf(script: string, node = process.execPath, options: readonly string[] = []) {
  const env = { PATH: process.env.PATH, INIT_CWD: folder };
  const args = [...nodeOptions, ...options, `scripts/${script}.ts`, "--help"];
  const child = spawn(node, args, { cwd: root, env });
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "close")]);
  return { code: child.exitCode, stdout, stderr };
}

test("the proxy's own help tells of its variables", async () => {
  expectEnd(await helpOf("proxy"), 0, "SNAPSHOT_STORE", "PORT (default: 8080)");
});

const node22 = findNode("22");
test.skipIf(!node22)("every command loads in Node 22, which macOS may have", async () => {
  const loaded = Object.keys(programs).flatMap((name) => ["--import", `./scripts/${name}.ts`]);
  const { code, stderr } = await helpOf("proxy", node22, loaded);
  expect({ code, failure: code && stderr }).toEqual({ code: 0, failure: 0 });
});

// Others that are too old are in sessions/installed.txt.
const node20 = findNode("20");
test.skipIf(!node20)("Node 20 is told in one sentence that it is too old", async () => {
  const told = /^This needs Node 22 from 22\.21 on, or 24\.9 or later, and \S+ is Node 20\.\S+\.\n$/;
  expectEnd(await helpOf("start", node20), 1, told);
});

test("every code of an error that the table has is given to one", async () => {
  const given = new Set<string>();
  for (const folder of ["scripts", "snapshots", "proxy", "schemas"])
    for (const file of await readdir(join(root, folder), { recursive: true }))
      if (/\.tsx?$/.test(file) && !/^(errors|problem)\.ts$/.test(file)) {
        const source = await readFile(join(root, folder, file), "utf8");
        for (const [, code = ""] of source.matchAll(/"([A-Z]+(?:_[A-Z]+)*)"/g)) given.add(code);
      }
  expect(Object.keys(errors).filter((code) => !given.has(code))).toEqual([]);
});
