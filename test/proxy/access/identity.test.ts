import { Agent } from "node:http";
import { expect, test } from "vitest";
import { readKeys, revokeKey } from "../../../snapshots/keys/keys.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import type { TestProxy } from "../../helpers/http/proxy.ts";
import { call, remaining, until } from "../../helpers/http/proxy-client.ts";
import { serveTestProxy } from "../../helpers/http/proxy-served.ts";

const proxy = serveTestProxy();

test("a client is told by his connection, and behind one hop by the last claim of all fields", async () => {
  const claim = (...values: string[]) => values.flatMap((value) => ["X-Forwarded-For", value]);
  // Over one quota file. This one listens for both kinds of addresses.
  await using hop = await proxy.another({ trustProxy: { hops: 1 }, host: "::" });
  /** Units left after a request from a loopback address, with these headers. */
  async function left({ port }: TestProxy, from: string, headers: string[] = []): Promise<number> {
    const agent = new Agent({ localAddress: from });
    const answer = await call(port, "/api/v1/scores", { agent, headers });
    agent.destroy();
    return remaining(answer);
  }
  expect(await left(proxy, "127.0.1.1")).toBe(999);
  expect(await left(proxy, "127.0.1.1", claim("192.0.2.1", ",".repeat(2000), "127.0.1.2"))).toBe(998);
  expect(await left(hop, "127.0.1.1")).toBe(997);
  const spoofs = [[], ["198.51.100.7"], ["198.51.100.7, 198.51.100.8"], ["::1", "garbage,,"], [", ,"]];
  for (const [place, spoof] of spoofs.entries())
    expect(await left(hop, "127.0.2.1", claim(...spoof, "203.0.113.1"))).toBe(999 - place);
  expect(await left(hop, "127.0.2.2", claim("198.51.100.7"))).toBe(999);
});

test("a revocation that is deleted keeps its key out, is logged once and counted", async () => {
  const key = await proxy.issue();
  const { records } = await readKeys(proxy.storage);
  const id = records[0]!.id;
  await revokeKey(proxy.storage, id, new Date(proxy.clock.now));
  await proxy.refuses(key);
  await proxy.storage.delete(layout.keyRevocation(id));
  const counted = () => proxy.measured("prs_revocations_lost_total");
  await until("it to be missed", async () => (await counted()) === 1);
  await proxy.issue();
  expect((await proxy.as(key)("/api/v1/usage")).status).toBe(401);
  expect(await counted()).toBe(1);
  const told = proxy.logged.filter((line) => line.includes(layout.keyRevocation(id)));
  expect(told).toEqual([expect.stringContaining('"level":50')]);
});
