import { mkdir, readdir, readFile } from "node:fs/promises";
import { Agent } from "node:http";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { MarketPage, ScoreList, Status, Usage } from "../../schemas/envelopes.ts";
import { layout } from "../../snapshots/store/layout.ts";
import { openStorage } from "../../snapshots/store/open-storage.ts";
import { firstColumn, withDuckDb } from "../helpers/archive/sql.ts";
import { cursorWalk, idsOf, pagesOf } from "../helpers/archive/walk.ts";
import { unitCommand } from "../helpers/http/deployed.ts";
import { type Listener, listenGreeted } from "../helpers/http/live-feed.ts";
import { askRows } from "../helpers/http/ndjson.ts";
import { bearer, call, outcome, until } from "../helpers/http/proxy-client.ts";
import { type ProxyCommand, startUnit } from "../helpers/http/proxy-command.ts";
import { runCommand } from "../helpers/publish/commands.ts";
import { loadSample } from "../helpers/publish/sample-sources.ts";
import { createBucket, letCdnRead, s3Environment } from "../helpers/servers/ceph.ts";
import { errorsOf, findNginx, type Nginx, startBalancer, startCdn } from "../helpers/servers/nginx.ts";
import { freePort } from "../helpers/servers/programs.ts";
import { findRedis, type TestRedis, testRedis } from "../helpers/servers/redis.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

const [archive, list] = ["/api/v1/markets/historical", "/api/v1/scores"];
const [environment, nginx, redisServer] = [s3Environment(), findNginx(), findRedis()];
const protocols = 12;
/** Protocols whose scores the second publish changes. */
const changed = ["ardent.fi-lend", "kestrel-lend"];

/** A proxy as prs-proxy.service runs it. */
interface Machine {
  command: ProxyCommand;
  port: number;
  metricsPort: number;
}

// One story from an empty bucket on: each test goes on where the one before it ended.
describe.skipIf(!environment || !nginx || !redisServer)("the service, put up with .github/deploy", () => {
  const folder = testFolder();
  let store: string;
  let bucket: URL;
  let sources: string;
  let redis: TestRedis;
  let cdn: Nginx;
  let balancer: Nginx;
  let machines: Machine[] = [];
  let listener: Listener;
  /** Ids of the markets in the sources, and the snapshot made of them. */
  let ids: string[];
  let snapshotId: string;
  let key: { key: string; id: string };

  const aws = {
    AWS_REGION: "us-east-1",
    AWS_ENDPOINT_URL_S3: environment?.AWS_ENDPOINT_URL_S3 ?? "",
    AWS_ACCESS_KEY_ID: process.env.AWS_ACCESS_KEY_ID ?? "",
    AWS_SECRET_ACCESS_KEY: process.env.AWS_SECRET_ACCESS_KEY ?? "",
  };

  beforeAll(async () => {
    redis = await testRedis(redisServer!, "secret");
    await redis.start();
    sources = await createBucket(environment!);
    store = await createBucket(environment!);
    bucket = new URL(store.slice("s3://".length), `${aws.AWS_ENDPOINT_URL_S3}/`);
    await letCdnRead(environment!, store);
    cdn = await startCdn(nginx!, bucket);
  });
  afterAll(async () => {
    listener?.socket.terminate();
    await Promise.all(machines.map(({ command }) => command.kill()));
    for (const server of [balancer, cdn, redis]) await server?.stop();
  });

  /** Runs a unit that a timer starts to its end, which must be a good one. */
  async function runUnit(name: string, variables: Record<string, string>): Promise<string> {
    const { ended, output } = startUnit(unitCommand(name, { ...aws, STORE: store, ...variables }, folder));
    expect([await ended, output.err]).toEqual([0, expect.any(String)]);
    return output.out;
  }

  /** Puts a sample with these edits where the sources are, and publishes it. */
  async function publish(...edits: string[]): Promise<void> {
    const directory = join(folder, "sources");
    ids = await withDuckDb(folder, async (sql) => {
      await loadSample(sql, join(folder, "sample"), 600, { protocols });
      for (const edit of edits) await sql.run(edit);
      await mkdir(directory, { recursive: true });
      for (const [table, name] of [
        ["markets", "markets"],
        ["scores", "protocol_scores"],
      ])
        await sql.run(`COPY ${table} TO '${join(directory, `${name}.parquet`)}'`);
      return firstColumn<string>(sql, "SELECT id FROM markets ORDER BY id");
    });
    const remote = await openStorage(sources, folder, environment);
    for (const name of await readdir(directory))
      await remote.put(name, await readFile(join(directory, name)));
    snapshotId = /snapshot ([0-9a-f]{64})/.exec(await runUnit("prs-publish", { SOURCES: sources }))![1]!;
  }

  async function startMachine(port = 0): Promise<Machine> {
    const metricsPort = await freePort();
    const variables = {
      ...aws,
      SNAPSHOT_STORE: store,
      PUBLIC_ORIGIN: `http://127.0.0.1:${cdn.port}`,
      HOST: "127.0.0.1",
      PORT: String(port),
      METRICS_PORT: String(metricsPort),
      TRUST_PROXY: "127.0.0.1/32",
      QUOTA_STORE: redis.url,
      POLL_SECONDS: "1",
    };
    const command = startUnit(unitCommand("prs-proxy", variables, folder));
    return { command, port: await command.listening(), metricsPort };
  }

  const get = (path: string, headers: Record<string, string> = bearer(key.key)) =>
    call(balancer.port, path, { headers });
  /** The same, of each proxy itself. */
  const each = (path: string, headers = bearer(key.key)) =>
    Promise.all(machines.map(({ port }) => call(port, path, { headers })));
  const keys = (...args: string[]) =>
    runCommand("keys", [...args, "--store", store, "--json"], { from: folder, env: aws });
  async function metric(name: string): Promise<number[]> {
    const texts = await Promise.all(machines.map(({ metricsPort }) => call(metricsPort, "/metrics")));
    return texts.map(({ text }) => Number(new RegExp(`^${name} (.*)$`, "m").exec(text)?.[1]));
  }
  const page = async (query: Record<string, string | number>): Promise<MarketPage> => {
    const answer = await get(`${archive}?${new URLSearchParams(query as Record<string, string>)}`);
    expect(outcome(answer)).toBe("200");
    return answer.json();
  };
  /** What is left of the day, which both must tell alike. */
  async function left(): Promise<number> {
    const [one, two] = (await each("/api/v1/usage")).map((answer) => (answer.json() as Usage).remaining);
    expect(one).toBe(two);
    return one!;
  }

  test("publish: scores and the site are on the CDN before there is a proxy", async () => {
    await publish();
    const scores: ScoreList = (await call(cdn.port, `/${layout.stableScoreList}`)).json();
    expect(scores.count).toBe(protocols);
    const home = await call(cdn.port, `/${layout.siteIndex}`);
    expect(home).toMatchObject({ status: 200, headers: { "content-type": "text/html; charset=utf-8" } });
  });

  test("a key that is issued works through the balancer soon", async () => {
    machines = await Promise.all([startMachine(), startMachine()]);
    balancer = await startBalancer(
      nginx!,
      machines.map(({ port }) => port),
    );
    expect(outcome(await get(archive, {}))).toBe("401 API_KEY_REQUIRED");
    key = JSON.parse((await keys("issue", "--plan", "aegis", "--owner", "acme")).stdout);
    const accepted = async () => (await each("/api/v1/usage")).every(({ status }) => status === 200);
    await until("every proxy to accept the key", accepted);
    expect((await get("/api/v1/usage")).json()).toMatchObject({ plan: "aegis", remaining: 100_000 });
    expect((await each("/readyz")).map(outcome)).toEqual(["200", "200"]);
    for (const age of await metric("prs_publish_age_seconds")) expect(age).toBeGreaterThanOrEqual(0);
  });

  test("a walk over both proxies gives every market once, and is counted once", async () => {
    const [before, counted] = [await metric("http_requests_total.*historical.*200.*"), await left()];
    const pages = await pagesOf(cursorWalk({ page }, { pageSize: 100 }));
    expect(pages.flatMap(idsOf).toSorted()).toEqual(ids);
    expect(new Set(pages.map(({ total }) => total))).toEqual(new Set([ids.length]));
    expect(await left()).toBe(counted - pages.length);
    for (const [place, after] of (await metric("http_requests_total.*historical.*200.*")).entries())
      expect(after - (before[place] || 0)).toBeGreaterThan(pages.length / 3);
  });

  test("a walk goes on over a publish, which the feed tells and everybody then sees", async () => {
    const [old, oldIds] = [snapshotId, ids];
    listener = await listenGreeted(balancer.port, key.key);
    const walk = cursorWalk({ page }, { pageSize: 500 });
    const pages = [(await walk.next()).value as MarketPage];
    const slugs = changed.map((slug) => `'${slug}'`).join();
    await publish(
      `UPDATE scores SET confidence = 100 - confidence WHERE slug IN (${slugs})`,
      "DELETE FROM markets WHERE hash(id) % 50 = 0",
    );
    expect(ids.length).toBeLessThan(oldIds.length);
    await until("every proxy to serve the new snapshot", async () =>
      (await each("/api/v1/status")).every((answer) => (answer.json() as Status).snapshotId === snapshotId),
    );
    for await (const each of walk) pages.push(each);
    expect(pages.flatMap(idsOf).toSorted()).toEqual(oldIds);
    expect((await page({})).total).toBe(ids.length);
    expect((await get("/api/v1/status")).json()).toMatchObject({ snapshotId, stale: false });
    await listener.count(1 + changed.length);
    expect(listener.changes().map(({ slug }) => slug)).toEqual(changed);
    expect(listener.changes()[0]).toMatchObject({ type: "score.changed", snapshotId });
    expect(listener.heard[0]).toMatchObject({ type: "hello", snapshotId: old });
  });

  test("all rows come in one answer, as many as its head says", async () => {
    const rows = await askRows(`http://127.0.0.1:${balancer.port}${archive}`, bearer(key.key));
    const lines = await rows.toEnd();
    expect(rows.headers).toMatchObject({
      "x-count": String(ids.length),
      "x-snapshot-id": snapshotId,
      "transfer-encoding": "chunked",
    });
    expect(lines.map((line) => JSON.parse(line).id).toSorted()).toEqual(ids);
  });

  test("the proxies are restarted one after the other under load, and no request is lost", async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 8 });
    const failed: string[] = [];
    const before = await left();
    let [answered, done] = [0, false];
    const posted = { method: "POST", body: JSON.stringify({ slugs: changed }) };
    const headers = { ...bearer(key.key), "content-type": "application/json" };
    const load = async (_: unknown, place: number) => {
      const [path, how] = place % 2 ? [`${list}/batch`, posted] : [archive, {}];
      for (; !done; answered += 1) {
        const answer = call(balancer.port, path!, { ...how, headers, agent });
        const ended = await answer.then(outcome, (error) => error.code);
        if (ended !== "200") failed.push(ended);
      }
    };
    const more = async () => {
      const now = answered;
      await until("50 more answers", () => answered > now + 50);
    };
    const loads = Array.from({ length: 4 }, load);
    for (const [place, { command, port }] of machines.entries()) {
      await more();
      command.child.kill("SIGTERM");
      expect(await command.ended).toBe(0);
      await more();
      machines[place] = await startMachine(port);
      // Until the balancer uses it again.
      const answers = async () => (await metric("http_requests_total.*historical.*200.*"))[place]! > 0;
      await until("the restarted proxy to answer archive requests", answers);
    }
    done = true;
    await Promise.all(loads);
    agent.destroy();
    expect([failed, errorsOf(balancer)]).toEqual([[], []]);
    // None was cut and asked again: each cost one unit.
    expect(await left()).toBe(before - answered);
    expect(await listener.closed).toBe(1001);
  });

  test("gc leaves the service, the CDN and the site working and current", async () => {
    await runUnit("prs-export", {});
    await runUnit("prs-gc", {});
    expect(await runUnit("prs-verify", {})).toContain("All good");
    const another = await startCdn(nginx!, bucket);
    const [home, scores] = await Promise.all(
      [layout.siteIndex, layout.stableScoreList].map((name) => call(another.port, `/${name}`)),
    );
    await another.stop();
    expect(home!.status).toBe(200);
    expect((scores!.json() as ScoreList).scores).toEqual(((await get(list)).json() as ScoreList).scores);
    expect((await get("/api/v1/status")).json()).toMatchObject({ snapshotId, stale: false });
    expect((await pagesOf(cursorWalk({ page }, { pageSize: 500 }))).flatMap(idsOf).toSorted()).toEqual(ids);
  });

  test("a key that is revoked is refused soon", async () => {
    expect((await keys("revoke", key.id)).code).toBe(0);
    const refused = async () => (await each(archive)).every(({ status }) => status === 401);
    await until("every proxy to refuse the revoked key", refused);
    for (let times = 0; times < 4; times += 1)
      expect(outcome(await get(archive))).toBe("401 INVALID_API_KEY");
  });
});
