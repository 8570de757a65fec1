import { expect } from "vitest";
import { generateKey, readKeys, revokeKey } from "../../../snapshots/keys/keys.ts";
import { type FaultyOrigin, startOriginOf } from "../http/faulty-origin.ts";
import { startTestProxy, type TestProxy, type TestProxyOptions } from "../http/proxy.ts";
import { bearer, until } from "../http/proxy-client.ts";

export const archive = "/api/v1/markets/historical";

/** A key in each state; `unknown` is well-formed. */
export type Keys = Record<"aegis" | "developer" | "revoked" | "unknown", string>;

/** A proxy with the origin it asks, to be attacked. */
export interface Attacked {
  proxy: TestProxy;
  origin: FaultyOrigin;
  keys: Keys;
  stop(): Promise<void>;
}

/** Starts a proxy that keeps no public object, so that each answer with public data is a request to the origin. */
export async function startAttacked(options: TestProxyOptions = {}): Promise<Attacked> {
  const origin = await startOriginOf(() => proxy.storage);
  const proxy = await startTestProxy({
    publicOrigin: origin.url,
    cacheBytes: 8,
    pollSeconds: 0.1,
    ...options,
  });
  return {
    proxy,
    origin,
    keys: await issueKeys(proxy),
    async stop() {
      await proxy.stop();
      await origin.stop();
    },
  };
}

async function issueKeys(proxy: TestProxy): Promise<Keys> {
  const quota = 1_000_000;
  const revoked = await proxy.issue({ owner: "former", quota });
  const { id } = (await readKeys(proxy.storage)).records[0]!;
  await revokeKey(proxy.storage, id, new Date(proxy.clock.now));
  await until(
    "the proxy to refuse the revoked key",
    async () => (await proxy.get(archive, { headers: bearer(revoked) })).status === 401,
  );
  return {
    revoked,
    aegis: await proxy.issue({ quota }),
    developer: await proxy.issue({ plan: "developer", owner: "dev", quota }),
    unknown: generateKey(),
  };
}

/** Checks that a head the origin received asks for a public object and holds nothing a client said. */
export function expectOwnRequest({ url }: FaultyOrigin, head: string): void {
  const [line, ...fields] = head.toLowerCase().split("\r\n");
  expect(line).toMatch(/^get \/cdn\/public\/objects\/[0-9a-f]{64}\.json http\/1\.1$/);
  expect(fields.sort()).toEqual(["accept-encoding: identity", "connection: keep-alive", `host: ${url.host}`]);
}
