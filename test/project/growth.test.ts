import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { bearer, call, until } from "../helpers/http/proxy-client.ts";
import { type ProxyCommand, startProxyCommand, startUnit } from "../helpers/http/proxy-command.ts";
import { runCommand, snapshotCommand } from "../helpers/publish/commands.ts";
import { nodeOptions } from "../helpers/servers/programs.ts";

const run = promisify(execFile);
const root = join(import.meta.dirname, "../..");

let patches: string[];
let signal: string;
let folder: string;
let key: string;
let snapshotId: string;
const proxies: ProxyCommand[] = [];

/** Copies of the project with patches that CONTRIBUTING.md shows, and stores that the project itself made. */
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "prs-growth-"));
  const guide = await readFile(join(root, ".github/CONTRIBUTING.md"), "utf8");
  const all = [...guide.matchAll(/```diff\n(.*?)```/gs)].map(([, patch]) => patch!);
  signal = all.find((patch) => patch.includes("+  depth: {"))!;
  patches = all.filter((patch) => patch !== signal);
  await makeCopy("patched", patches.join(""));
  await makeCopy("signal", signal);

  const options = { from: folder };
  await runCommand("sample", ["--out", "sources", "--markets", "400", "--protocols", "3"], options);
  const published = await snapshotCommand(["publish", "--store", "store", "--sources", "sources"], options);
  snapshotId = /snapshot ([0-9a-f]{64})/.exec(published.stdout)![1]!;
  const issued = await runCommand(
    "keys",
    ["issue", "--store", "store", "--plan", "aegis", "--owner", "me"],
    options,
  );
  key = /prs_live_\w+/.exec(issued.stdout)![0];
  await cp(join(folder, "store"), join(folder, "signals"), { recursive: true });
});
afterEach(async () => {
  for (const proxy of proxies.splice(0)) await proxy.kill();
});
afterAll(() => rm(folder, { recursive: true, force: true }));

async function makeCopy(name: string, patch: string): Promise<void> {
  const copy = join(folder, name);
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
  await writeFile(join(folder, "patch"), patch);
  await run("git", ["apply", "../patch"], {
    cwd: copy,
    env: { ...process.env, GIT_DIR: join(folder, "none") },
  });
}

/** Runs a command of a copy. */
const runIn = (copy: string, script: string, args: readonly string[]) =>
  run(process.execPath, [...nodeOptions, join(folder, copy, "scripts", `${script}.ts`), ...args], {
    cwd: folder,
    env: { ...process.env, INIT_CWD: folder },
  });
const patched = (script: string, ...args: string[]) => runIn("patched", script, args);

/** Starts a proxy over a store, of the project or of a copy. Returns what asks it. */
async function serve(version: "ours" | "patched" | "signal", store = "store") {
  const env = { INIT_CWD: folder, SNAPSHOT_STORE: store, PORT: "0", POLL_SECONDS: "1" };
  const cwd = join(folder, version);
  const args = [...nodeOptions, join(cwd, "scripts/proxy.ts")];
  const proxy =
    version === "ours"
      ? startProxyCommand(folder, env)
      : startUnit({ program: process.execPath, args, cwd, env });
  proxies.push(proxy);
  const port = await proxy.listening();
  expect(proxy.child.exitCode, proxy.output.err + proxy.output.out).toBe(null);
  const ask = (path: string, headers = {}) => call(port, path, { headers: { ...bearer(key), ...headers } });
  await until("the proxy to be ready", async () => (await ask("/readyz")).status === 200);
  return { proxy, ask, url: `http://127.0.0.1:${port}` };
}

const archive = "/api/v1/markets/historical";
const facets = "/api/v1/markets/facets";

test("the patches of CONTRIBUTING.md add a filter, an endpoint and a kind of object in few lines", async () => {
  const [filter, ...others] = patches;
  expect(filter!.match(/^\+(?!\+)/gm)!.length).toBeLessThanOrEqual(12);
  expect(filter!.match(/^\+\+\+ /gm)!.length).toBeLessThanOrEqual(4);
  expect(others).toHaveLength(2);
  for (const patch of others) expect(patch.split("\n").length).toBeLessThanOrEqual(60);
});

test("the kind of object of the patch is checked, kept, and made anew where it is damaged", async () => {
  await patched("sample", "--out", "tiered", "--markets", "400", "--protocols", "3");
  const publish = ["publish", "--store", "kinds", "--sources", "tiered"];
  await patched("snapshot", ...publish);
  const [name, ...others] = await readdir(join(folder, "kinds/private/tiers"));
  expect(others).toEqual([]);
  const path = join(folder, "kinds/private/tiers", name!);
  const content = await readFile(path, "utf8");
  const tiers: number[] = Object.values(JSON.parse(content).tiers);
  expect(tiers.reduce((sum, count) => sum + count)).toBe(3);
  const all = { "--keep-hours": "0", "--keep-commits": "1" };
  const collected = await patched("snapshot", "gc", "--store", "kinds", ...Object.entries(all).flat());
  expect(collected.stdout).toContain("0 objects");
  expect((await patched("snapshot", "verify", "--store", "kinds")).stdout).toMatch(
    /^All good: .* 0 of them unreferenced/m,
  );
  await writeFile(path, content.replace("1", "2"));
  const found = await patched("snapshot", "verify", "--store", "kinds").catch((error) => error);
  expect([found.code, found.stdout]).toEqual([
    1,
    expect.stringContaining(`private/tiers/${name}: its content`),
  ]);
  await rm(path);
  expect((await patched("snapshot", ...publish)).stdout).toContain("made 1 object anew");
  expect(await readFile(path, "utf8")).toBe(content);
});

test("the endpoint of the patch is checked, described and answered like any other", async () => {
  const { ask } = await serve("patched");
  const { paths } = (await ask("/openapi.json")).json();
  expect(Object.keys(paths["/api/v1/scores/{slug}/place"].get.responses)).toContain("429");
  const { scores }: { scores: { slug: string; bri: number }[] } = (await ask("/api/v1/scores")).json();
  for (const { slug, bri } of scores) {
    const answer = await ask(`/api/v1/scores/${slug}/place`);
    const place = 1 + scores.filter((entry) => entry.bri > bri).length;
    expect(answer.json()).toEqual({ slug, place, of: scores.length });
    expect(answer.headers).toMatchObject({ "x-snapshot-id": snapshotId, "x-ratelimit-limit": "100000" });
  }
  const codes = ["/api/v1/scores/none/place", `/api/v1/scores/${scores[0]!.slug}/place?x=1`].map(
    async (path) => (await ask(path)).json().code,
  );
  expect(await Promise.all(codes)).toEqual(["PROTOCOL_NOT_FOUND", "INVALID_PARAMETER"]);
});

test("the patched project takes over an older store, and the older project tells what it cannot read", async () => {
  const older = await serve("ours");
  const newer = await serve("patched");
  expect((await newer.ask("/openapi.json")).text).toContain('"top_risk_driver"');
  expect((await newer.ask("/site/app.js")).text).toContain("top_risk_driver");
  const refusedAt = async (path: string) => {
    const refused = await newer.ask(path);
    const { code, parameter, detail } = refused.json();
    expect([refused.status, code, parameter]).toEqual([400, "INVALID_PARAMETER", "top_risk_driver"]);
    expect(detail).toContain(`The snapshot ${snapshotId}, published at `);
  };
  await refusedAt(`${archive}?top_risk_driver=x`);
  await refusedAt(`${facets}?by=top_risk_driver`);
  const rowsOf = async (query = "") =>
    (await newer.ask(`${archive}${query}`, { accept: "application/x-ndjson" })).text
      .trimEnd()
      .split("\n")
      .map((row) => JSON.parse(row));
  const before = await rowsOf();
  const { id, topRiskDriver: driver } = before[0];
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
  for (const path of paths) expect([path, (await newer.ask(path)).status]).toEqual([path, 200]);

  // All markets change, but the guard counts none of them: only what is new differs.
  await patched("sample", "--out", "newer", "--markets", "400", "--protocols", "3");
  const publish = ["publish", "--store", "store", "--sources", "newer"];
  const { stdout } = await patched("snapshot", ...publish);
  expect(stdout).toContain("It changes +0 ~400 -0 markets");
  expect((await patched("snapshot", ...publish)).stdout).toContain("Nothing new");
  expect((await patched("snapshot", "verify", "--store", "store")).stdout).toMatch(/^All good: 2 commits/m);
  const query = `?top_risk_driver=${encodeURIComponent(driver)}`;
  await until("the new commit", async () => (await newer.ask(`${archive}${query}`)).status === 200);
  const having = before.filter(({ topRiskDriver }) => topRiskDriver === driver).length;
  const page = (await newer.ask(`${archive}${query}&pageSize=1`)).json();
  expect(page).toMatchObject({ version: "bri-pm-v2", total: having, markets: [{ venue: "Polyphony" }] });
  expect((await newer.ask(`${facets}${query}&by=tier`)).json().total).toBe(having);
  const csv = { accept: "text/csv" };
  expect((await newer.ask(archive, csv)).text.split("\r\n")[0]).toContain(",topRiskDriver,venue,");
  const changes = (await newer.ask(`/api/v1/markets/changes?since=${snapshotId}`)).text.trimEnd().split("\n");
  const put = changes.map((line) => JSON.parse(line).market);
  expect(put.map(({ venue: _, ...market }) => market)).toEqual(expect.arrayContaining(before));
  expect(put).toHaveLength(before.length);

  // The older snapshot stays what it was.
  const then = `asOf=${snapshotId}`;
  await refusedAt(`${archive}${query}&${then}`);
  expect((await newer.ask(`${archive}?${then}`)).json()).toMatchObject({ version: "bri-pm-v1", total: 400 });
  expect((await newer.ask(`${archive}?${then}`, csv)).text).not.toContain("venue");
  expect(await rowsOf(`?${then}`)).toEqual(before);
  await patched("snapshot", "rollback", snapshotId, "--store", "store");
  await until("the rollback", async () => (await newer.ask(`${archive}${query}`)).status === 400);
  expect(await rowsOf()).toEqual(before);
  await patched("snapshot", ...publish, "--resume");
  await until("the return", async () => (await newer.ask(`${archive}${query}`)).status === 200);

  // The older project keeps what it has, and says why.
  expect((await older.ask(archive)).json()).toMatchObject({ version: "bri-pm-v1", total: 400 });
  const line = "it has version bri-pm-v2 of the feed, and this program knows bri-pm-v1: use a newer one";
  await until("the reason", () => older.proxy.output.out.includes(line));
  for (const command of [["verify"], ["publish", "--sources", "sources"]]) {
    const ended = await snapshotCommand([...command, "--store", "store"], { from: folder });
    expect([ended.code, ended.stdout + ended.stderr]).toEqual([3, expect.stringContaining(line)]);
  }
});

test("a risk signal that the patch adds leaves older snapshots as they were published", async () => {
  expect(signal.split("\n").length).toBeLessThanOrEqual(60);
  const inSignal = (script: string, ...args: string[]) => runIn("signal", script, args);
  const older = await serve("ours", "signals");
  const newer = await serve("signal", "signals");
  await writeFile(join(folder, "key"), key, { mode: 0o600 });
  const reached = (url: string) => ["--url", url, "--key-file", "key"];
  const verified = async (commits: number) => {
    const check = inSignal("snapshot", "verify", "--store", "signals", "--json");
    const found = JSON.parse((await check.catch((error) => error)).stdout);
    // Every version publishes its own site.
    const faults = found.faults.filter(({ key }: { key: string }) => !key.startsWith("public/site/"));
    expect([found.commits, faults, found.unchecked]).toEqual([commits, [], []]);
  };
  const csv = { accept: "text/csv" };
  const ndjson = { accept: "application/x-ndjson" };
  const refused = async (path: string, parameter: string) => {
    const { code, parameter: named, detail } = (await newer.ask(path)).json();
    expect([code, named]).toEqual(["INVALID_PARAMETER", parameter]);
    expect(detail).toContain(`The snapshot ${snapshotId}, published at `);
  };

  // The older snapshot, by the newer project.
  await verified(1);
  const paths = [`${facets}?by=tier,composite,informed,month`, `${archive}?min_informed=50&tier=CAST,FORGED`];
  for (const path of paths)
    expect({ ...(await newer.ask(path)).json(), timestamp: 0 }).toEqual({
      ...(await older.ask(path)).json(),
      timestamp: 0,
    });
  const before = await older.ask(archive, csv);
  expect((await newer.ask(archive, csv)).text).toBe(before.text);
  await refused(`${archive}?min_depth=1`, "depth");
  await refused(`${facets}?by=depth`, "depth");
  const syncInto = (to: string) => [...reached(newer.url), "--to", to, "--json"];
  const synced = async (from: typeof inSignal | "ours", to: string) => {
    if (from === "ours") {
      const ended = await runCommand("sync", syncInto(to), { from: folder });
      expect([ended.code, ended.stderr]).toEqual([0, expect.any(String)]);
      return JSON.parse(ended.stdout);
    }
    return JSON.parse((await from("sync", ...syncInto(to))).stdout);
  };
  expect(await synced(inSignal, "copy-newer")).toMatchObject({ snapshotId, how: "whole", unchecked: [] });
  expect(await synced("ours", "copy-older")).toMatchObject({ snapshotId, how: "whole", unchecked: [] });

  // A snapshot with the signal.
  await inSignal("sample", "--out", "signal-sources", "--markets", "400", "--protocols", "3");
  const publish = ["publish", "--store", "signals", "--sources", "signal-sources"];
  const { stdout } = await inSignal("snapshot", ...publish);
  expect(stdout).toContain("It changes +0 ~400 -0 markets");
  await verified(2);
  await until("the new commit", async () => (await newer.ask(`${archive}?min_depth=0`)).status === 200);
  const rows: { dimensions: { key: string; score: number }[] }[] = (await newer.ask(archive, ndjson)).text
    .trimEnd()
    .split("\n")
    .map((row) => JSON.parse(row));
  const depths = rows.map(({ dimensions }) => dimensions.find(({ key }) => key === "depth")!.score);
  const deep = depths.filter((depth) => depth >= 50).length;
  const { total, facets: counted } = (await newer.ask(`${facets}?min_depth=50&by=depth`)).json();
  expect([total, counted.depth.buckets.length]).toEqual([deep, 10]);
  const [head, first] = (await newer.ask(`${archive}?min_depth=50`, csv)).text.split("\r\n");
  expect([head, Number(first!.split(",").at(-1)) >= 50]).toEqual([expect.stringMatching(/,depth$/), true]);

  // Both kinds of reader, over both snapshots.
  for (const asOf of [snapshotId, (await newer.ask("/api/v1/status")).json().snapshotId]) {
    const answer = (await newer.ask(`${facets}?min_informed=50&by=informed,composite&asOf=${asOf}`)).json();
    const args = [
      ...reached(newer.url),
      "--as-of",
      asOf,
      "--by",
      "informed,composite",
      "--json",
      "min_informed=50",
    ];
    const ours = await runCommand("ask", args, { from: folder });
    for (const { stdout } of [ours, await inSignal("ask", ...args)])
      expect(JSON.parse(stdout)).toMatchObject(answer);
  }
  const changes = await newer.ask(`/api/v1/markets/changes?since=${snapshotId}`);
  expect(changes.text.trimEnd().split("\n")).toHaveLength(400);
  const current = (await newer.ask("/api/v1/status")).json().snapshotId;
  expect(await synced(inSignal, "copy-newer")).toMatchObject({
    snapshotId: current,
    how: "changes",
    unchecked: [],
  });
  const unjudged = await synced("ours", "copy-older");
  expect(unjudged).toMatchObject({ snapshotId: current, how: "changes", unchecked: [expect.any(String)] });
  expect((await newer.ask(`${archive}?asOf=${snapshotId}`, csv)).text).toBe(before.text);
  await refused(`${archive}?min_depth=1&asOf=${snapshotId}`, "depth");
  for (const id of [snapshotId, current]) {
    const exported = await inSignal("snapshot", "export", "--store", "signals", "--snapshot", id);
    expect(exported.stdout).toContain("400");
  }
  await inSignal("snapshot", "rollback", snapshotId, "--store", "signals");
  await until("the rollback", async () => (await newer.ask(archive, csv)).text === before.text);
  expect(await synced(inSignal, "copy-newer")).toMatchObject({ snapshotId, how: "changes", unchecked: [] });
  expect(await synced("ours", "copy-older")).toMatchObject({ snapshotId, how: "changes", unchecked: [] });
  await verified(3);
});
