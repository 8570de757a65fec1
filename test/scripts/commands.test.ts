import { execFileSync, type SpawnOptionsWithoutStdio, spawn } from "node:child_process";
import { once } from "node:events";
import { cp, mkdir, mkdtemp, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { describe, expect, test } from "vitest";
import { variables } from "../../proxy/docs/settings.ts";
import { IntegrityError, VerificationError } from "../../proxy/site/client/client.ts";
import { errors, Fault } from "../../schemas/errors.ts";
import { retention } from "../../schemas/store/stored-objects.ts";
import { formatVersion } from "../../schemas/versions.ts";
import { exitCodeOf } from "../../scripts/cli.ts";
import { issueKey } from "../../snapshots/keys/keys.ts";
import { sampleDefaults } from "../../snapshots/sample/sample.ts";
import { contractJsonSchema } from "../../snapshots/sources/contract/describe-contract.ts";
import { SourceRefusal } from "../../snapshots/sources/sources.ts";
import { directoryStorage } from "../../snapshots/store/backends/directory.ts";
import {
  CorruptObjectError,
  FormatError,
  MissingObjectError,
  UnknownEncodingError,
} from "../../snapshots/store/errors.ts";
import { layout } from "../../snapshots/store/layout.ts";
import { seal } from "../../snapshots/store/objects.ts";
import { StorageError } from "../../snapshots/store/storage.ts";
import { ForkedLogError } from "../../snapshots/trust/log/log-reader.ts";
import { expectEnd, programs, runCommand } from "../helpers/publish/commands.ts";
import { findNode, nodeOptions } from "../helpers/servers/programs.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

const root = join(import.meta.dirname, "../..");
const folder = testFolder();

async function runProcess(program: string, args: readonly string[], options: SpawnOptionsWithoutStdio) {
  const child = spawn(program, args, options);
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "close")]);
  return { code: child.exitCode, stdout, stderr };
}

/** Prints the help of a script, which runs from the test's folder, with nothing in its environment. */
function helpOf(script: string, node = process.execPath, options: readonly string[] = []) {
  const env = { PATH: process.env.PATH, INIT_CWD: folder };
  const args = [...options, ...nodeOptions, `scripts/${script}.ts`, "--help"];
  return runProcess(node, args, { cwd: root, env });
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
  const { code, stderr } = await helpOf("proxy", node22, [...nodeOptions, ...loaded]);
  expect({ code, failure: code && stderr }).toEqual({ code: 0, failure: 0 });
});

const tooOld = (version: string) =>
  new RegExp(`^This needs Node 22 from 22\\.21 on, or 24\\.9 or later, and \\S+ is Node ${version}\\.\n$`);
test.each(["22.20.0", "23.11.1", "24.8.0"])(
  "Node %s is told in one sentence that it is too old",
  async (version) => {
    const older = `Object.defineProperty(process, "versions", { value: { ...process.versions, node: "${version}" } })`;
    const options = ["--import", `data:text/javascript,${encodeURIComponent(older)}`];
    expectEnd(await helpOf("start", process.execPath, options), 1, tooOld(version));
  },
);

const node20 = findNode("20");
test.skipIf(!node20)("Node 20 is told so too", async () => {
  expectEnd(await helpOf("start", node20), 1, tooOld("20\\.\\S+"));
});

test("snapshot contract prints the contract in one form", async () => {
  expectEnd(await run("snapshot contract"), 0, /^# Contract of the sources\n/);
  const sql = await run("snapshot contract --sql");
  const tables = sql.stdout.match(/^CREATE TABLE \w+/gm);
  expect([sql.code, tables]).toEqual([0, ["CREATE TABLE markets", "CREATE TABLE protocol_scores"]]);
  const json = await run("snapshot contract --json");
  expect([json.code, JSON.parse(json.stdout)]).toEqual([0, contractJsonSchema()]);
});

test("keys list shows owners so that nothing of them acts on the terminal", async () => {
  const owner = "a\u001b[2J\u009b31m\u202eb\nid  aegis";
  await issueKey(directoryStorage(join(folder, "keys")), { plan: "aegis", owner }, new Date());
  const { stdout } = await run("keys list --store keys");
  expect(stdout).toContain("  a\\u{1b}[2J\\u{9b}31m\\u{202e}b\\u{a}id  aegis  issued");
  expect(stdout.match(/\n/g)).toHaveLength(1);
});

test("options that npm takes for its own are missed, before the command's name and behind it", async () => {
  // One that is also given behind `--` is not missed.
  const line = "--keep-hours=1 --store a gc --dry-run -- --store b".split(" ");
  const args = ["--prefix", root, "run", "--silent", "snapshot", ...line];
  const told = "npm took --dry-run, --keep-hours for itself; begin with `npm run snapshot --`";
  expectEnd(await runProcess("npm", args, { cwd: folder }), 2, told);
});

describe("a store of another format", () => {
  const remedies = [
    [
      formatVersion - 1,
      "publish into a new store; from an earlier format only keys/ carries over, by copying it",
    ],
    [formatVersion + 1, "use a newer version of this program"],
  ] as const;
  const lines = ["list", "verify", "gc", "rollback 1", "diff 1 1", "export", "publish --sources none"];
  lines.push("verify --repair --sources none");

  test.for(lines)("is told in one line with what to do: snapshot %s", async (line) => {
    for (const [version, remedy] of remedies) {
      const store = join(folder, `format-${version}`);
      const storage = directoryStorage(store);
      for (const commit of [1, 2])
        await storage.put(layout.commit(commit), seal({ formatVersion: version, commit }));
      const told = `format version ${version}; this reader knows version ${formatVersion}: ${remedy}\n`;
      const ended = await run(`snapshot ${line} --store ${store}`);
      expectEnd(ended, 3, /^commits\/000000000[12]\.json: .*\n$/, told);
    }
  });
});

test("a copy without packages says what is missing, whatever is run", async () => {
  const bare = join(folder, "bare");
  await mkdir(join(bare, "scripts"), { recursive: true });
  await cp(join(root, "scripts/installed.js"), join(bare, "scripts/installed.js"));
  const { scripts } = JSON.parse(await readFile(join(root, "package.json"), "utf8"));
  const ours = Object.keys(scripts).filter((name) => scripts[name].includes("--import"));
  expect(ours).toEqual(expect.arrayContaining([...Object.keys(programs), "proxy", "bench", "mutants"]));
  for (const name of ours) {
    const [node, ...args] = scripts[name].split(" ");
    expect(node).toBe("node");
    expectEnd(await runProcess(process.execPath, args, { cwd: bare }), 1, /^[^\n]*npm ci[^\n]*\n$/);
  }
});

test("packages of another system are told in a line by the commands that need DuckDB", async () => {
  const scripts = join(await mkdtemp(join(folder, "elsewhere-")), "scripts");
  await mkdir(scripts);
  await cp(join(root, "scripts/installed.js"), join(scripts, "installed.js"));
  const stub = async (name: string, exports?: Record<string, string>) => {
    const target = join(scripts, "../node_modules", name);
    await mkdir(target, { recursive: true });
    await writeFile(join(target, "package.json"), JSON.stringify({ name, ...(exports && { exports }) }));
    await writeFile(join(target, "esm.mjs"), "");
  };
  await stub("tsx", { "./esm": "./esm.mjs" });
  for (const name of ["snapshot", "sync"])
    await writeFile(join(scripts, `${name}.ts`), "process.stdout.write('started')");
  const start = (name: string, ...before: string[]) => {
    const args = [...before, "--import", "./scripts/installed.js", `scripts/${name}.ts`];
    return runProcess(process.execPath, args, { cwd: join(scripts, "..") });
  };
  const system = `${process.platform}-${process.arch}`;
  const refusal = (of: string) => ({
    code: 1,
    stdout: "",
    stderr: `DuckDB is not installed for ${of}: run \`npm ci\` on this system, or use one that DuckDB is built for, such as Debian.\n`,
  });
  const started = { code: 0, stdout: "started", stderr: "" };
  expect(await start("snapshot")).toEqual(refusal(system));
  expect(await start("sync")).toEqual(started);
  await stub(`@duckdb/node-bindings-${system}`);
  expect(await start("snapshot")).toEqual(started);
  const musl = "data:text/javascript,process.report.getReport = () => ({ header: {} })";
  if (process.platform !== "linux") return;
  expect(await start("snapshot", "--import", musl)).toEqual(refusal(`${system}-musl`));
  await stub(`@duckdb/node-bindings-${system}-musl`);
  expect(await start("snapshot", "--import", musl)).toEqual(started);
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

test.each(["sync", "ask"])("%s loads no database and no S3 client, which take 40 MB", async (name) => {
  const metafile = join(folder, `${name}.json`);
  const options = ["--bundle", "--platform=node", "--format=esm", "--packages=external"];
  execFileSync(
    join(root, "node_modules/.bin/esbuild"),
    [`scripts/${name}.ts`, ...options, `--metafile=${metafile}`, `--outfile=${join(folder, `${name}.mjs`)}`],
    { cwd: root, stdio: "ignore" },
  );
  const { outputs } = JSON.parse(await readFile(metafile, "utf8"));
  const imports = Object.values<{ imports: { path: string }[] }>(outputs).flatMap((output) => output.imports);
  expect(new Set(imports.map(({ path }) => path).filter((path) => !path.startsWith("node:")))).toEqual(
    new Set(["zod"]),
  );
});
