import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { variables } from "../../proxy/docs/settings.ts";
import { IntegrityError, VerificationError } from "../../proxy/site/client/client.ts";
import { errors, Fault } from "../../schemas/errors.ts";
import { retention } from "../../schemas/store/stored-objects.ts";
import { exitCodeOf } from "../../scripts/cli.ts";
import { sampleDefaults } from "../../snapshots/sample/sample.ts";
import { SourceRefusal } from "../../snapshots/sources/sources.ts";
import {
  CorruptObjectError,
  FormatError,
  MissingObjectError,
  UnknownEncodingError,
} from "../../snapshots/store/errors.ts";
import { StorageError } from "../../snapshots/store/storage.ts";
import { ForkedLogError } from "../../snapshots/trust/log/log-reader.ts";
import { expectEnd, programs, runCommand } from "../helpers/publish/commands.ts";
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

function run(line: string) {
  const [name, ...args] = line.split(" ");
  return runCommand(name as keyof typeof programs, args, { from: folder });
}

// That it tells all options is seen in test/project/named.test.ts.
test.for<[string, ...string[]]>([
  ["sample -h", "--out DIR", "(required)", `(default: ${sampleDefaults.markets})`, "--seed N", "--json"],
  ["snapshot --help", "--sources SOURCES", `(default: ${retention.keepHours})`, "FILE.sql", "rollback"],
  ["snapshot contract -h", "--sql", "--json", "CREATE TABLE", "JSON Schema"],
  ["keys issue -h", "--plan developer|aegis", "(default: the plan's)", "--create", "(default: off)"],
  ["keys rotate -h", "rotate ID", "--grace TIME", "(default: 24h)", "at most 30d"],
  [
    "start --help",
    ...variables.map(({ name, fixed, otherwise }) => `${name} (default: ${fixed ?? otherwise})`),
  ],
])("%s tells of the command", async ([line, ...told]) => {
  const { code, stdout, stderr } = await run(line);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  for (const part of told) expect(stdout).toContain(part);
  if (/ (issue|rotate) /.test(line)) expect(stdout.match(/npm run/g)).toHaveLength(1);
});

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

test.each([
  [new Fault("KEY_FILE", "x"), 2],
  [new Fault("SNAPSHOT_NOT_FOUND", "x"), 2],
  [new SourceRefusal([]), 3],
  [new FormatError("key", "x"), 3],
  [new UnknownEncodingError("key", "x"), 3],
  [new Fault("COMMIT_LOST", "x"), 4],
  [new StorageError("x"), 5],
  [new IntegrityError("x"), 6],
  [new VerificationError("page", "x"), 6],
  [new ForkedLogError("key", "x"), 6],
  [new CorruptObjectError("key", "x"), 1],
  [new MissingObjectError("key"), 1],
  [new Fault("DEADLINE", "x"), 1],
  [new TypeError("x"), 1],
  [Object.assign(new Error("x"), { code: "toString" }), 1],
])("%o ends a command with %i", (error, code) => {
  expect(exitCodeOf(error)).toBe(code);
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
