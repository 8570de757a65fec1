import { Agent } from "node:http";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { clientAccount, parseTrust } from "../../../proxy/access/identity.ts";
import { sqliteQuota } from "../../../proxy/quota/counters.ts";
import { createQuota } from "../../../proxy/quota/quota.ts";
import { startTestProxy, type TestProxy } from "../../helpers/http/proxy.ts";
import { call } from "../../helpers/http/proxy-client.ts";
import { collectGarbage } from "../../helpers/servers/memory.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";

const folder = testFolder();
const nobody = { hops: 0 };

describe("over real connections", () => {
  const proxies: TestProxy[] = [];
  const claim = (...values: string[]) => values.flatMap((value) => ["X-Forwarded-For", value]);
  /** Units left after a request from a loopback address, with these headers. */
  async function left(proxy: TestProxy, from: string, headers: string[] = []): Promise<number> {
    const agent = new Agent({ localAddress: from });
    const answer = await call(proxy.port, "/api/v1/scores", { agent, headers });
    agent.destroy();
    return Number(answer.headers["x-ratelimit-remaining"]);
  }
  beforeAll(async () => {
    const first = await startTestProxy();
    // All over one quota file: the first trusts nobody, and the last one listens for both kinds of addresses.
    proxies.push(first, await first.another({ trustProxy: { hops: 1 } }));
    proxies.push(await first.another({ trustProxy: parseTrust("127.0.0.8/30,2001:db8::/32") }));
    proxies.push(await first.another({ trustProxy: parseTrust("127.0.0.8/30"), host: "::" }));
  });
  afterAll(async () => {
    for (const proxy of proxies.reverse()) await proxy.stop();
  });

  test("who is trusted by none is counted by his connection, whatever he claims", async () => {
    const [proxy] = proxies as [TestProxy];
    expect(await left(proxy, "127.0.1.1")).toBe(999);
    expect(await left(proxy, "127.0.1.1", claim("192.0.2.1", ",".repeat(2000), "127.0.1.2"))).toBe(998);
    expect(await left(proxy, "127.0.1.2")).toBe(999);
  });

  test("behind one hop the last claim counts, of all fields, and behind networks the first of others", async () => {
    const [, hop, listed] = proxies as [TestProxy, TestProxy, TestProxy];
    const spoofs = [[], ["198.51.100.7"], ["198.51.100.7, 198.51.100.8"], ["::1", "garbage,,"], [", ,"]];
    for (const [place, spoof] of spoofs.entries())
      expect(await left(hop, "127.0.2.1", claim(...spoof, "203.0.113.1"))).toBe(999 - place);
    expect(await left(hop, "127.0.2.2", claim("198.51.100.7"))).toBe(999);
    expect(await left(listed, "127.0.0.9", claim("203.0.113.10", "2001:db8::5", "127.0.0.8"))).toBe(999);
    // Next door to the listed network.
    expect(await left(listed, "127.0.0.12", claim("203.0.113.10"))).toBe(999);
  });

  test("an IPv4 address is one client on a socket of both kinds, too", async () => {
    const [plain, , , both] = proxies as [TestProxy, TestProxy, TestProxy, TestProxy];
    expect(await left(plain, "127.0.3.1")).toBe(999);
    expect(await left(both, "127.0.3.1")).toBe(998);
    expect(await left(both, "127.0.0.9", claim("127.0.3.1"))).toBe(997);
  });
});

describe("clientAccount(peer, forwarded, trust)", () => {
  const hex = (value: number) => value.toString(16);

  test("makes one account of 65,536 addresses of one /64, in any spelling and from any source", () => {
    const accounts = new Set<string>();
    for (let index = 0; index < 65_536; index += 1) {
      const tail = hex(index);
      const address = [
        `2001:db8:0:7::${tail}`,
        `2001:DB8:0:7:${tail}::`,
        `2001:0db8:0000:0007:${tail}:ffff:0:1`,
        `2001:db8::7:0:0:${tail}:1`,
      ][index % 4]!;
      accounts.add(clientAccount(address, [], nobody));
      accounts.add(clientAccount("10.0.0.1", [`198.51.100.7, ${address}`], { hops: 1 }));
    }
    expect([...accounts]).toEqual(["2001:db8:0:7::/64"]);
  });

  test("makes 65,536 accounts of as many /64", () => {
    const accounts = new Set<string>();
    for (let index = 0; index < 65_536; index += 1)
      accounts.add(clientAccount(`2001:db8:0:${hex(index)}::1`, [], nobody));
    expect(accounts.size).toBe(65_536);
  });
});

const addresses = 50_000;
const atOnce = 500;

test(`${addresses} addresses leave spent accounts spent, and memory as it was`, async () => {
  const now = () => Date.parse("2026-03-01T12:00:00.000Z");
  const failed = (error: unknown) => {
    throw error;
  };
  const quota = createQuota(sqliteQuota(join(folder, "million.sqlite")), {
    onFailure: "closed",
    now,
    failed,
  });
  const caller = (address: string, limit: number) => {
    return { plan: "free", account: `free:${clientAccount(address, [], nobody)}`, limit } as const;
  };
  const spent = Array.from({ length: 10 }, (_, index) => caller(`192.0.2.${index}`, 2));
  for (const one of [...spent, ...spent]) expect((await quota.take(one, 1)).allowed).toBe(true);
  await collectGarbage();
  const before = process.memoryUsage();
  const takeFirst = async (index: number) => {
    const address = `10.${index >> 16}.${(index >> 8) & 255}.${index & 255}`;
    const { allowed, remaining } = await quota.take(caller(address, 2), 1);
    if (!allowed || remaining !== 1) expect.fail(`${address}: ${allowed}, ${remaining} left`);
  };
  for (let index = 0; index < addresses; index += atOnce)
    await Promise.all(Array.from({ length: atOnce }, (_, place) => takeFirst(index + place)));
  await collectGarbage();
  const after = process.memoryUsage();
  for (const one of spent) expect((await quota.take(one, 1)).allowed).toBe(false);
  expect((await quota.take(caller("10.0.0.0", 2), 1)).remaining).toBe(0);
  quota.close();
  // The name of an account alone is longer than this for each of them.
  const taken = after.heapUsed + after.external - before.heapUsed - before.external;
  expect(taken).toBeLessThan(16 * addresses);
});
