import { Agent, createServer } from "node:http";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startTestProxy, type TestProxy } from "../helpers/http/proxy.ts";
import { type Call, call, outcome, remaining } from "../helpers/http/proxy-client.ts";
import { findNginx, type Nginx, startBalancer } from "../helpers/servers/nginx.ts";
import { listenLocally } from "../helpers/servers/programs.ts";
import { findRedis, type TestRedis, testRedis } from "../helpers/servers/redis.ts";

const list = "/api/v1/scores";
const nginx = findNginx();
const redisServer = findRedis();

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
  let balancer: Nginx;
  beforeAll(async () => {
    redis = await testRedis(redisServer!);
    await redis.start();
    const one = await startTestProxy({ quotaStore: redis.url, trustProxy: { hops: 1 }, pollSeconds: 0.1 });
    proxies = [one, await one.another()];
    const ports = proxies.map(({ port }) => port);
    balancer = await startBalancer(nginx!, ports);
    const [, two] = proxies;
    // Redis forgets a day by its own clock; this one it will not see.
    one.clock.now = two.clock.now = Date.parse("2100-03-01T12:00:00.000Z");
  });
  afterAll(async () => {
    await balancer?.stop();
    // The second first: the first one's removes the folder.
    for (const proxy of proxies?.toReversed() ?? []) await proxy.stop();
    await redis?.stop();
  });

  const get = (path: string, how?: Call) => call(balancer.port, path, how);
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
});
