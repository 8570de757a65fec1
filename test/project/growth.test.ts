import { execFile } from "node:child_process";
import { cp, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { Client } from "../../proxy/site/client/client.ts";
import type { HistoricalMarket } from "../../schemas/records.ts";
import { pythonPath } from "../conformance/python.ts";
import { bearer, call, until } from "../helpers/http/proxy-client.ts";
import { type ProxyCommand, startProxyCommand, startUnit } from "../helpers/http/proxy-command.ts";
import { runCommand, snapshotCommand } from "../helpers/publish/commands.ts";
import { type CopiedCommands, commandsOf, copyProject } from "../helpers/publish/copies.ts";
import { findProgram, nodeOptions } from "../helpers/servers/programs.ts";

const run = promisify(execFile);
const root = join(import.meta.dirname, "../..");

let patches: string[];
let upgrades: string[];
let folder: string;
let key: string;
let snapshotId: string;
let patched: CopiedCommands;
let upgraded: CopiedCommands;
const proxies: ProxyCommand[] = [];

/** Copies of the project with patches that CONTRIBUTING.md shows, and stores that the project itself made. */
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "prs-growth-"));
  const guide = await readFile(join(root, ".github/CONTRIBUTING.md"), "utf8");
  const all = [...guide.matchAll(/```diff\n(.*?)```/gs)].map(([, patch]) => patch!);
  const isUpgrade = (patch: string) => /^\+.*(depth: \{|ORICHALCUM)/m.test(patch);
  upgrades = all.filter(isUpgrade);
  patches = all.filter((patch) => !isUpgrade(patch));
  patched = await makeCopy("patched", patches);
  upgraded = await makeCopy("upgraded", upgrades);

  const options = { from: folder };
  await runCommand("sample", ["--out", "sources", "--markets", "400", "--protocols", "3"], options);
  const published = await snapshotCommand(["publish", "--store", "store", "--sources", "sources"], options);
  snapshotId = /snapshot ([0-9a-f]{64})/.exec(published.stdout)![1]!;
  const issue = "issue --store store --plan aegis --owner me".split(" ");
  key = /prs_live_\w+/.exec((await runCommand("keys", issue, options)).stdout)![0];
  await cp(join(folder, "store"), join(folder, "upgrades"), { recursive: true });
});
afterEach(async () => {
  for (const proxy of proxies.splice(0)) await proxy.kill();
});
afterAll(async () => {
  for (const commands of [patched, upgraded]) await commands?.stop();
  await rm(folder, { recursive: true, force: true });
});

async function makeCopy(name: string, applied: readonly string[]): Promise<CopiedCommands> {
  const copy = join(folder, name);
  await copyProject(copy);
  for (const patch of applied) {
    await writeFile(join(folder, "patch"), patch);
    await run("git", ["apply", "../patch"], {
      cwd: copy,
      env: { ...process.env, GIT_DIR: join(folder, "none") },
    });
  }
  return commandsOf(copy, folder);
}

/** Starts a proxy over a store, of the project or of a copy. Returns what asks it. */
async function serve(version: "ours" | "patched" | "upgraded", store = "store") {
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

// What older snapshots are answered from by a newer project is tried with the further patches below.
test("the patched project serves an older store, takes it over, and the older project tells what it cannot read", async () => {
  const older = await serve("ours");
  const newer = await serve("patched");
  for (const path of ["/openapi.json", "/site/app.js"])
    expect((await newer.ask(path)).text).toContain("top_risk_driver");
  const { paths } = (await newer.ask("/openapi.json")).json();
  expect(Object.keys(paths["/api/v1/scores/{slug}/place"].get.responses)).toContain("429");
  const { scores }: { scores: { slug: string; bri: number }[] } = (await newer.ask("/api/v1/scores")).json();
  for (const { slug, bri } of scores) {
    const answer = await newer.ask(`/api/v1/scores/${slug}/place`);
    const place = 1 + scores.filter((entry) => entry.bri > bri).length;
    expect(answer.json()).toEqual({ slug, place, of: scores.length });
    expect(answer.headers).toMatchObject({ "x-snapshot-id": snapshotId, "x-ratelimit-limit": "100000" });
  }
  for (const [path, code] of [
    ["none/place", "PROTOCOL_NOT_FOUND"],
    [`${scores[0]!.slug}/place?x=1`, "INVALID_PARAMETER"],
  ])
    expect((await newer.ask(`/api/v1/scores/${path}`)).json().code).toBe(code);

  // All markets change, but the guard counts none of them: only what is new differs.
  await patched.run("sample", "--out", "newer", "--markets", "400", "--protocols", "3");
  const publish = ["publish", "--store", "store", "--sources", "newer"];
  const { stdout } = await patched.run("snapshot", ...publish);
  expect(stdout).toContain("It changes +0 ~400 -0 markets");
  expect((await patched.run("snapshot", ...publish)).stdout).toContain("Nothing new");
  const [{ topRiskDriver: driver }] = (await older.ask(archive)).json().markets;
  const query = `?top_risk_driver=${encodeURIComponent(driver)}`;
  await until("the new commit", async () => (await newer.ask(`${archive}${query}`)).status === 200);
  const { markets }: { markets: HistoricalMarket[] } = (await newer.ask(`${archive}?pageSize=400`)).json();
  const total = markets.filter(({ topRiskDriver }) => topRiskDriver === driver).length;
  const page = (await newer.ask(`${archive}${query}&pageSize=1`)).json();
  expect(page).toMatchObject({ version: "bri-pm-v2", total, markets: [{ venue: "Polyphony" }] });

  // The older project keeps what it has, and says why.
  expect((await older.ask(archive)).json()).toMatchObject({ version: "bri-pm-v1", total: 400 });
  const line = "it has version bri-pm-v2 of the feed, and this program knows bri-pm-v1: use a newer one";
  await until("the reason", () => older.proxy.output.out.includes(line));
  for (const command of [["verify"], ["publish", "--sources", "sources"]]) {
    const ended = await snapshotCommand([...command, "--store", "store"], { from: folder });
    expect([ended.code, ended.stdout + ended.stderr]).toEqual([3, expect.stringContaining(line)]);
  }

  // The further kind of object is checked, kept, and made anew where it is damaged.
  const [name, ...others] = await readdir(join(folder, "store/private/tiers"));
  expect(others).toEqual([]);
  const path = join(folder, "store/private/tiers", name!);
  const content = await readFile(path, "utf8");
  const tiers: number[] = Object.values(JSON.parse(content).tiers);
  expect(tiers.reduce((sum, count) => sum + count)).toBe(3);
  const verified = async () => patched.run("snapshot", "verify", "--store", "store").catch((error) => error);
  expect((await verified()).stdout).toMatch(/^All good: .* 0 of them unreferenced/m);
  await writeFile(path, content.replace("1", "2"));
  const found = expect.stringContaining(`private/tiers/${name}: its content`);
  expect(await verified()).toMatchObject({ code: 1, stdout: found });
  await rm(path);
  expect((await patched.run("snapshot", ...publish)).stdout).toContain("made 1 object anew");
  expect(await readFile(path, "utf8")).toBe(content);
});

test("a further signal and tier, wider bounds, a new name and a retired filter leave older snapshots as they were", async () => {
  expect(upgrades).toHaveLength(2);
  for (const patch of upgrades) expect(patch.split("\n").length).toBeLessThanOrEqual(62);
  const older = await serve("ours", "upgrades");
  const newer = await serve("upgraded", "upgrades");
  await writeFile(join(folder, "key"), key, { mode: 0o600 });
  const reached = ["--url", newer.url, "--key-file", "key", "--json"];
  const verified = async (commits: number) => {
    const check = upgraded.run("snapshot", "verify", "--store", "upgrades", "--json");
    const found = JSON.parse((await check.catch((error) => error)).stdout);
    // Every version publishes its own site.
    const faults = found.faults.filter(({ key }: { key: string }) => !key.startsWith("public/site/"));
    expect([found.commits, faults, found.unchecked]).toEqual([commits, [], []]);
  };
  /** By the older project, in this process, and by the upgraded one. */
  const byBoth = async (script: "ask" | "sync", argsOf: (who: string) => string[]) => {
    const ours = await runCommand(script, [...reached, ...argsOf("older")], { from: folder });
    expect([ours.code, ours.stderr]).toEqual([0, expect.any(String)]);
    const theirs = await upgraded.run(script, ...reached, ...argsOf("newer"));
    return [ours, theirs].map(({ stdout }) => JSON.parse(stdout));
  };
  const synced = () => byBoth("sync", (who) => ["--to", `copy-${who}`]);
  const [csv, ndjson] = [{ accept: "text/csv" }, { accept: "application/x-ndjson" }];
  const refusal = async (query: string) => {
    const { code, parameter, detail } = (await newer.ask(query)).json();
    expect(code).toBe("INVALID_PARAMETER");
    return [parameter, detail];
  };
  const noIndex = expect.stringContaining(`The snapshot ${snapshotId}, published at `);
  const takenAway = expect.stringContaining("There was such a filter, and it was taken away.");

  // The older snapshot, by the newer project.
  await verified(1);
  const same = ["weight_version=bri-pm-w-v1", "min_informed=50&tier=CAST,FORGED"];
  for (const query of same) {
    const counted = `${facets}?${query}&by=tier,composite,informed,weight_version,month`;
    expect((await newer.ask(counted)).json()).toEqual((await older.ask(counted)).json());
    const page = `${archive}?${query}`;
    expect((await newer.ask(page, ndjson)).text).toBe((await older.ask(page, ndjson)).text);
  }
  const before = (await older.ask(archive, csv)).text;
  expect((await newer.ask(archive, csv)).text).toBe(before);
  expect((await newer.ask(`${archive}?min_composite=1001`)).json().total).toBe(0);
  expect(await refusal(`${archive}?min_depth=1`)).toEqual(["depth", noIndex]);
  expect(await refusal(`${facets}?by=depth`)).toEqual(["depth", noIndex]);
  for (const copy of await synced()) expect(copy).toMatchObject({ snapshotId, how: "whole", unchecked: [] });

  await upgraded.run("sample", "--out", "upgraded-sources", "--markets", "400", "--protocols", "3");
  const publish = ["publish", "--store", "upgrades", "--sources", "upgraded-sources"];
  expect((await upgraded.run("snapshot", ...publish)).stdout).toContain("It changes +0 ~400 -0 markets");
  await verified(2);
  await until("the new commit", async () => (await newer.ask(`${archive}?min_depth=0`)).status === 200);
  const { snapshotId: current } = (await newer.ask("/api/v1/status")).json();
  const rows = (await newer.ask(archive, ndjson)).text.trimEnd().split("\n");
  const markets: HistoricalMarket[] = rows.map((row) => JSON.parse(row));
  const depthOf = ({ dimensions }: HistoricalMarket) =>
    dimensions.find(({ key }) => String(key) === "depth")!.score;
  const found = [
    ["min_depth=50", markets.filter((market) => depthOf(market) >= 50)],
    ["min_composite=1001", markets.filter(({ composite }) => composite > 1000)],
    ["tier=ORICHALCUM", markets.filter(({ tier }) => String(tier) === "ORICHALCUM")],
    ["weight_version=bri-pm-w-v1", markets],
  ] as const;
  for (const [query, own] of found) {
    expect(own.length).toBeGreaterThan(0);
    expect([query, (await newer.ask(`${archive}?${query}`)).json().total]).toEqual([query, own.length]);
  }
  const { depth, composite } = (await newer.ask(`${facets}?by=depth,composite`)).json().facets;
  expect([depth.buckets.length, composite.buckets.length]).toEqual([10, 18]);
  const [head] = (await newer.ask(archive, csv)).text.split("\r\n");
  expect(head).toMatch(/,formulaVersion,weights,.*,depth$/);
  for (const asOf of ["", `&asOf=${snapshotId}`]) {
    const query = `formula_version=bri-pm-v3${asOf}`;
    expect(await refusal(`${archive}?${query}`)).toEqual(["formula_version", takenAway]);
    expect(await refusal(`${facets}?by=formula_version${asOf}`)).toEqual(["by", takenAway]);
  }

  // The older reader judges what it knows, and accuses nobody.
  for (const asOf of [snapshotId, current]) {
    const answer = (await newer.ask(`${facets}?min_informed=50&by=informed,outcome&asOf=${asOf}`)).json();
    const line = `--as-of ${asOf} --limit 100 --by informed,outcome min_informed=50`;
    const asked = await byBoth("ask", () => line.split(" "));
    const unjudged = asOf === current ? [expect.stringContaining("version bri-pm-v2 of the feed")] : [];
    expect(asked).toMatchObject([{ ...answer, vouched: { unjudged } }, answer]);
  }
  const python = findProgram("python3");
  if (python) {
    const script = `
import json, sys
from client import *
client, refused = Client(*sys.argv[1:]), []
for filters, by in (({"min_composite": 500}, []), ({}, ["tier"]), ({"formula_version": "bri-pm-v3"}, [])):
    try:
        client.recompute(filters, by)
    except ApiError as error:
        refused.append([error.code, error.parameter])
found = client.recompute({"min_informed": 50}, ["informed", "outcome"])
print(json.dumps([found.total, len(found.vouched.unjudged), refused]))`;
    const { stdout } = await run(python, ["-c", script, newer.url, key], {
      env: { ...process.env, ...pythonPath },
    });
    const { total } = (await newer.ask(`${facets}?min_informed=50&by=informed`)).json();
    const refused = ["composite", "tier", "formula_version"].map((name) => ["INVALID_PARAMETER", name]);
    expect(JSON.parse(stdout)).toEqual([total, 1, refused]);
  }
  const verifiedRows = new Client({ url: newer.url, key }).rows(
    { weight_version: "bri-pm-w-v1" },
    { verified: true },
  );
  let count = 0;
  for await (const { text } of verifiedRows) expect(text).toBe(rows[count++]);
  expect([count, verifiedRows.vouched!.complete]).toEqual([400, false]);
  const [copyOfOlder, copyOfNewer] = await synced();
  expect(copyOfOlder).toMatchObject({
    snapshotId: current,
    unchecked: [expect.stringMatching(/^Columns of/)],
  });
  expect(copyOfNewer).toMatchObject({ snapshotId: current, how: "changes", unchecked: [] });

  // The older snapshot stays what it was.
  expect((await newer.ask(`${archive}?asOf=${snapshotId}`, csv)).text).toBe(before);
  expect(await refusal(`${archive}?min_depth=1&asOf=${snapshotId}`)).toEqual(["depth", noIndex]);
  for (const id of [snapshotId, current]) {
    const exported = await upgraded.run("snapshot", "export", "--store", "upgrades", "--snapshot", id);
    expect(exported.stdout).toContain("400");
  }
  await upgraded.run("snapshot", "rollback", snapshotId, "--store", "upgrades");
  await until("the rollback", async () => (await newer.ask(archive, csv)).text === before);
  for (const copy of await synced())
    expect(copy).toMatchObject({ snapshotId, how: "changes", unchecked: [] });
  await verified(3);
});
