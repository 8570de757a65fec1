import { Agent, createServer } from "node:http";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { MarketPage } from "../../schemas/envelopes.ts";
import { issueKey, revokeKey } from "../../snapshots/keys/records.ts";
import { startTestProxy, type TestProxy } from "../helpers/http/proxy.ts";
import { type Answer, bearer, type Call, call, outcome, until } from "../helpers/http/proxy-client.ts";
import { type ProxyCommand, startProxyCommand } from "../helpers/http/proxy-command.ts";
import { inArchiveOrder, market, publishRecords } from "../helpers/publish/records.ts";
import { errorsOf, findNginx, type Nginx, startBalancer } from "../helpers/servers/nginx.ts";
import { listenLocally } from "../helpers/servers/programs.ts";
import { findRedis, type TestRedis, testRedis } from "../helpers/servers/redis.ts";

const [list, archive] = ["/api/v1/scores", "/api/v1/markets/historical"];
const nginx = findNginx();
const redisServer = findRedis();
const remaining = (answer: Answer) => Number(answer.headers["x-ratelimit-remaining"]);

describe.skipIf(!nginx)("a load balancer", () => {
  test("goes on with a proxy whose answer it could not take, and takes a long head", async () => {
    const server = createServer(({ url = "" }, response) => {
      response.setHeader("x-long", "x".repeat(Number(url.slice(1)) * 1024)).end(url);
    });
    const port = await listenLocally(server);
    const balancer = await startBalancer(nginx!, [port, port]);
    const status = async (kibibytes: number) => (await call(balancer.port, `/${kibibytes}`)).status;
    for (let turn = 0; turn < 4; turn += 1)
      expect([await status(100), await status(1), await status(12)]).toEqual([502, 200, 200]);
    await balancer.stop();
    server.close();
  });
});

describe.skipIf(!nginx || !redisServer)("two proxies behind one load balancer", () => {
  let redis: TestRedis;
  let proxies: [TestProxy, TestProxy];
  const balancers: Nginx[] = [];
  let commands: ProxyCommand[] = [];
  beforeAll(async () => {
    redis = await testRedis(redisServer!);
    await redis.start();
    const one = await startTestProxy({ quotaStore: redis.url, trustProxy: { hops: 1 } });
    proxies = [one, await one.another()];
    const ports = proxies.map(({ port }) => port);
    balancers.push(await startBalancer(nginx!, ports));
    const [, two] = proxies;
    // Redis forgets a day by its own clock; this one it will not see.
    one.clock.now = two.clock.now = Date.parse("2100-03-01T12:00:00.000Z");
  });
  afterAll(async () => {
    for (const balancer of balancers) await balancer.stop();
    for (const command of commands) await command.kill();
    // The second first: the first one's removes the folder.
    for (const proxy of proxies?.toReversed() ?? []) await proxy.stop();
    await redis?.stop();
  });

  const get = (path: string, how?: Call) => call(balancers[0]!.port, path, how);
  /** A client of another address of loopback, with so many connections. */
  const client = (localAddress: string, maxSockets: number) =>
    new Agent({ keepAlive: true, maxSockets, localAddress });
  const answered = ({ logged }: TestProxy) => logged.filter((line) => line.includes('"answered"')).length;

  test("Free is counted by client address, exactly over both", async () => {
    const [before, agent, other] = [proxies.map(answered), client("127.0.0.2", 20), client("127.0.0.3", 1)];
    const answers = await Promise.all(Array.from({ length: 1100 }, () => get(list, { agent })));
    const passed = answers.filter(({ status }) => status === 200).map(remaining);
    expect(passed.sort((a, b) => a - b)).toEqual(Array.from({ length: 1000 }, (_, left) => left));
    const refused = answers.filter(({ status }) => status !== 200).map(outcome);
    expect(refused).toEqual(Array.from({ length: 100 }, () => "429 QUOTA_EXCEEDED"));
    expect(remaining(await get(list, { agent: other }))).toBe(999);
    for (const [place, proxy] of proxies.entries())
      expect(answered(proxy) - before[place]!).toBeGreaterThan(400);
    for (const each of [agent, other]) each.destroy();
  });

  test("what a client claims of its address changes nothing", async () => {
    const agent = client("127.0.0.4", 1);
    const claims = [
      ["X-Forwarded-For", "192.0.2.1"],
      ["X-Forwarded-For", "127.0.0.5"],
      ["X-Forwarded-For", "192.0.2.1, 192.0.2.2,"],
      ["X-Forwarded-For", "192.0.2.1", "X-Forwarded-For", "192.0.2.3"],
      ["X-Forwarded-For", ""],
      ["x-forwarded-for", "rubbish\t, ::1"],
      ["Forwarded", "for=192.0.2.9", "X-Real-IP", "192.0.2.9", "X_Forwarded_For", "192.0.2.9"],
      ["Connection", "X-Forwarded-For", "X-Forwarded-For", "192.0.2.4"],
    ];
    let left = 1000;
    for (const headers of [...claims, ...claims]) {
      left -= 1;
      expect(remaining(await get(list, { headers, agent })), headers.join(" ")).toBe(left);
    }
    agent.destroy();
  });

  test("a key issued, and one revoked, is soon known to both", async () => {
    const [{ storage, clock }] = proxies;
    const now = new Date(clock.now);
    const { key, record } = await issueKey(storage, { plan: "aegis", owner: "acme" }, now);
    const all = async (wanted: string) => {
      const each = await Promise.all(proxies.map((proxy) => proxy.get(archive, { headers: bearer(key) })));
      return each.every((answer) => outcome(answer) === wanted);
    };
    const balanced = () =>
      Promise.all(
        Array.from({ length: 10 }, async () => outcome(await get(archive, { headers: bearer(key) }))),
      );
    await until("the key to work through both proxies", () => all("200"));
    expect(new Set(await balanced())).toEqual(new Set(["200"]));
    await revokeKey(storage, record.id, now);
    await until("both proxies to refuse the revoked key", () => all("401 INVALID_API_KEY"));
    expect(new Set(await balanced())).toEqual(new Set(["401 INVALID_API_KEY"]));
  });

  test("a walk that alternates between them is complete while snapshots are published", async () => {
    const [one, two] = proxies;
    const key = await one.issue({ owner: "walker" });
    await until(
      "the second proxy to accept the key",
      async () => (await two.get(archive, { headers: bearer(key) })).status === 200,
    );
    const contents = new Map<string, string[]>();
    let size = 60;
    async function publish() {
      size += 1;
      const markets = Array.from({ length: size }, (_, place) => market(place));
      const { snapshotId } = await publishRecords(one.storage, markets);
      contents.set(
        snapshotId,
        inArchiveOrder(markets).map(({ id }) => id),
      );
    }
    const page = async (search: string) => {
      const answer = await get(`${archive}?${search}`, { headers: bearer(key) });
      expect(outcome(answer)).toBe("200");
      return { id: String(answer.headers["x-snapshot-id"]), ...(answer.json() as MarketPage) };
    };
    await publish();
    for (const proxy of proxies)
      await until("the proxy to serve one of the snapshots", async () =>
        contents.has(String((await proxy.get("/healthz")).headers["x-snapshot-id"])),
      );
    const before = proxies.map(answered);
    for (let walk = 0; walk < 3; walk += 1) {
      let current = await page("pageSize=7");
      const [snapshot, seen] = [current.id, current.markets.map(({ id }) => id)];
      while (current.nextCursor !== null) {
        const cursor = encodeURIComponent(current.nextCursor);
        // At the same time, so that a proxy may be asked for a snapshot it has not taken up.
        [current] = await Promise.all([page(`cursor=${cursor}`), publish()]);
        expect(current).toMatchObject({ id: snapshot, total: contents.get(snapshot)!.length });
        seen.push(...current.markets.map(({ id }) => id));
      }
      expect(seen).toEqual(contents.get(snapshot));
    }
    for (const [place, proxy] of proxies.entries())
      expect(answered(proxy) - before[place]!).toBeGreaterThan(10);
  });

  test("one that ends on SIGTERM under load costs no request", async () => {
    const [{ directory, storage }] = proxies;
    const request = { plan: "aegis", owner: "busy", quota: 10_000_000 } as const;
    const { key } = await issueKey(storage, request, new Date());
    const environment = { QUOTA_STORE: redis.url, TRUST_PROXY: "1" };
    commands = [1, 2].map(() => startProxyCommand(directory, environment));
    const ports = await Promise.all(commands.map((command) => command.listening()));
    const busy = await startBalancer(nginx!, ports);
    balancers.push(busy);
    const agent = client("127.0.0.1", 8);
    const failed: string[] = [];
    let [sent, done] = [0, false];
    const load = async () => {
      for (; !done; sent += 1) {
        const answer = await call(busy.port, list, { headers: bearer(key), agent });
        if (answer.status !== 200) failed.push(`${answer.status} ${answer.text}`);
      }
    };
    const loads = Array.from({ length: 8 }, load);
    await until("100 requests to be sent", () => sent > 100);
    commands[0]!.child.kill("SIGTERM");
    expect(await commands[0]!.ended).toBe(0);
    const atEnd = sent;
    await until("100 more requests to be sent", () => sent > atEnd + 100);
    done = true;
    await Promise.all(loads);
    agent.destroy();
    expect([failed, errorsOf(busy)]).toEqual([[], []]);
    // None was cut and asked again: each cost one unit.
    const usage = await call(ports[1]!, "/api/v1/usage", { headers: bearer(key) });
    expect(usage.json().remaining).toBe(request.quota - sent);
  });
});
