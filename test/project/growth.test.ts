import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { bearer, call, until } from "../helpers/http/proxy-client.ts";
import { type ProxyCommand, startProxyCommand, startUnit } from "../helpers/http/proxy-command.ts";
import { runCommand, snapshotCommand } from "../helpers/publish/archive-command.ts";
import { nodeOptions } from "../helpers/servers/programs.ts";

const run = promisify(execFile);
const root = join(import.meta.dirname, "../..");

let folder: string;
let copy: string;
let key: string;
let snapshotId: string;
const proxies: ProxyCommand[] = [];

/** A copy of the project with the patch that the README shows, and a store that the project itself made. */
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "prs-growth-"));
  copy = join(folder, "project");
  const { stdout } = await run(
    "git",
    [
      "ls-files",
      "-z",
      "--cached",
      "--others",
      "--exclude-standard",
      "schemas",
      "snapshots",
      "proxy",
      "scripts",
      "*.json",
    ],
    {
      cwd: root,
    },
  );
  for (const file of stdout.split("\0").filter((name) => name !== "")) {
    await mkdir(join(copy, dirname(file)), { recursive: true });
    await cp(join(root, file), join(copy, file));
  }
  await symlink(join(root, "node_modules"), join(copy, "node_modules"));
  const readme = await readFile(join(root, "README.md"), "utf8");
  const [, patch = ""] = /```diff\n(.*?)```/s.exec(readme) ?? [];
  await writeFile(join(folder, "patch"), patch);
  await run("git", ["apply", "../patch"], {
    cwd: copy,
    env: { ...process.env, GIT_DIR: join(folder, "none") },
  });

  const surroundings = { from: folder };
  await runCommand("sample", ["--out", "sources", "--markets", "400", "--protocols", "3"], surroundings);
  const published = await snapshotCommand(
    ["publish", "--store", "store", "--sources", "sources"],
    surroundings,
  );
  snapshotId = /snapshot ([0-9a-f]{64})/.exec(published.stdout)![1]!;
  const issued = await runCommand(
    "keys",
    ["issue", "--store", "store", "--plan", "aegis", "--owner", "me"],
    surroundings,
  );
  key = /prs_live_\w+/.exec(issued.stdout)![0];
});
afterEach(async () => {
  for (const proxy of proxies.splice(0)) await proxy.kill();
});
afterAll(() => rm(folder, { recursive: true, force: true }));

/** Runs a command of the patched copy. */
const patched = (script: string, ...args: string[]) =>
  run(process.execPath, [...nodeOptions, join(copy, "scripts", `${script}.ts`), ...args], {
    cwd: folder,
    env: { ...process.env, INIT_CWD: folder },
  });

/** Starts a proxy over the store, of the project or of the patched copy. Returns what asks it. */
async function serve(version: "ours" | "patched") {
  const env = { INIT_CWD: folder, SNAPSHOT_STORE: "store", PORT: "0", POLL_SECONDS: "1" };
  const args = [...nodeOptions, join(copy, "scripts/proxy.ts")];
  const proxy =
    version === "ours"
      ? startProxyCommand(folder, env)
      : startUnit({ program: process.execPath, args, cwd: copy, env });
  proxies.push(proxy);
  const port = await proxy.listening();
  expect(proxy.child.exitCode, proxy.output.err + proxy.output.out).toBe(null);
  const ask = (path: string, headers = {}) => call(port, path, { headers: { ...bearer(key), ...headers } });
  await until("the proxy to be ready", async () => (await ask("/readyz")).status === 200);
  return { port, ask };
}

const archive = "/api/v1/markets/historical";
const facets = "/api/v1/markets/facets";

test("the README's patch adds a filter in few lines", async () => {
  const patch = await readFile(join(folder, "patch"), "utf8");
  expect(patch.match(/^\+(?!\+)/gm)!.length).toBeLessThanOrEqual(12);
  expect(patch.match(/^\+\+\+ /gm)!.length).toBeLessThanOrEqual(4);
});

test("the patched project serves an older store, indexes it with its next publish, and leaves it to the older project", async () => {
  const first = await serve("patched");
  const openapi = (await first.ask("/openapi.json")).text;
  expect(openapi).toContain('"top_risk_driver"');
  expect((await first.ask("/site/fields.js")).text).toContain("top_risk_driver");
  for (const path of [`${archive}?top_risk_driver=x`, `${facets}?by=top_risk_driver`]) {
    const refused = await first.ask(path);
    expect([refused.status, refused.json()]).toMatchObject([
      400,
      { code: "INVALID_PARAMETER", parameter: "top_risk_driver" },
    ]);
    expect(refused.json().detail).toContain(`The snapshot ${snapshotId}, published at `);
  }
  const rows = (await first.ask(archive, { accept: "application/x-ndjson" })).text.trimEnd().split("\n");
  const drivers = rows.map((row): string => JSON.parse(row).topRiskDriver);
  const [driver] = drivers as [string];
  const having = drivers.filter((other) => other === driver).length;
  const id: string = JSON.parse(rows[0]!).id;
  const paths = [
    `${archive}?min_composite=500&tier=CAST,FORGED`,
    `${facets}?by=tier,composite,month`,
    "/api/v1/scores",
    "/api/v1/status",
    "/api/v1/snapshots",
    `/api/v1/markets/${id}`,
    `/api/v1/markets/${id}/proof`,
    `${archive}?asOf=${snapshotId}`,
  ];
  for (const path of paths) expect([path, (await first.ask(path)).status]).toEqual([path, 200]);

  const publish = ["publish", "--store", "store", "--sources", "sources"];
  const { stdout } = await patched("snapshot", ...publish);
  expect(stdout).toContain(`Published commit 2, snapshot ${snapshotId}`);
  expect(stdout).toContain("It changes +0 ~0 -0 markets");
  expect(stdout).toMatch(/re-indexed \d+ segments? that another version made/);
  expect((await patched("snapshot", ...publish)).stdout).toContain("Nothing new");
  expect((await patched("snapshot", "verify", "--store", "store")).stdout).not.toMatch(/fault|not checked/);
  const query = `top_risk_driver=${encodeURIComponent(driver)}`;
  await until("the new commit", async () => (await first.ask(`${archive}?${query}`)).status === 200);
  expect((await first.ask(`${archive}?${query}`)).json().total).toBe(having);
  expect((await first.ask(`${facets}?by=tier&${query}`)).json().total).toBe(having);
  const csv = (await first.ask(`${archive}?${query}`, { accept: "text/csv" })).text;
  expect(csv.trimEnd().split("\r\n")).toHaveLength(having + 1);
  const changes = await first.ask(`/api/v1/markets/changes?since=${snapshotId}`);
  expect([changes.status, changes.text]).toEqual([200, ""]);
  await patched("snapshot", "export", "--store", "store");

  const ours = await serve("ours");
  const unknown = await ours.ask(`${archive}?${query}`);
  expect([unknown.status, unknown.json().parameter]).toEqual([400, "top_risk_driver"]);
  for (const path of paths) expect([path, (await ours.ask(path)).status]).toEqual([path, 200]);
  const verified = await snapshotCommand(["verify", "--store", "store"], { from: folder });
  // The files of the site are those of the version that published.
  expect(verified.stdout).toMatch(/^public\/site\/fields\.js: it differs from this version's file/);
  expect(verified.stdout).toContain("not checked, because it has columns that this version does not know");
  expect(verified.stdout).toContain("\n1 fault: ");
  await writeFile(join(folder, "key"), key);
  const sync = ["--url", `http://127.0.0.1:${ours.port}`, "--key-file", "key", "--to", "archive"];
  const synced = await runCommand("sync", sync, { from: folder });
  expect([synced.code, synced.stderr]).toEqual([0, expect.not.stringContaining("refused")]);
});
