import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { presentedKey } from "../../../proxy/access/identity.ts";
import { isFault } from "../../../schemas/errors.ts";
import { keyProtocolPrefix } from "../../../schemas/headers.ts";
import { generateKey, readKeys, revokeKey } from "../../../snapshots/keys/keys.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { startTestProxy, type TestProxy } from "../../helpers/http/proxy.ts";
import { bearer, problemOf, until } from "../../helpers/http/proxy-client.ts";

const archive = "/api/v1/markets/historical";

let proxy: TestProxy;
let aegis: string;
let developer: string;
beforeAll(async () => {
  proxy = await startTestProxy({ contact: "mailto:keys@example.org" });
  aegis = await proxy.issue();
  developer = await proxy.issue({ plan: "developer", owner: "dev" });
});
afterAll(() => proxy.stop());

test("a refusal for want of a key or a plan says where a key comes from, and no other does", async () => {
  const asOf = "/api/v1/scores?asOf=2026-01-01";
  for (const [path, headers, names] of [
    [archive, {}, true],
    [archive, bearer(developer), true],
    [asOf, {}, true],
    [asOf, bearer(developer), true],
    [archive, { "x-api-key": "nonsense" }, false],
    [`${archive}?x=1`, bearer(aegis), false],
  ] as const) {
    const { detail } = (await proxy.get(path, { headers })).json();
    expect(/ Ask for a key: keys@example\.org$/.test(detail), detail).toBe(names);
  }
});

describe("credentials", () => {
  test("a revocation that is deleted keeps its key out, is logged once and counted", async () => {
    const own = await startTestProxy({ empty: true });
    const key = await own.issue();
    const { records } = await readKeys(own.storage);
    const id = records[0]!.id;
    await revokeKey(own.storage, id, new Date(own.clock.now));
    await own.refuses(key);
    await own.storage.delete(layout.keyRevocation(id));
    const counted = async () =>
      (await own.metrics.getSingleMetric("prs_revocations_lost_total")!.get()).values;
    await until("it to be missed", async () => (await counted())[0]?.value === 1);
    await own.issue();
    expect((await own.get("/api/v1/usage", { headers: bearer(key) })).status).toBe(401);
    expect((await counted())[0]?.value).toBe(1);
    const told = own.logged.filter((line) => line.includes(layout.keyRevocation(id)));
    expect(told).toEqual([expect.stringContaining('"level":50')]);
    await own.stop();
  });

  test("the detail says which: malformed, mistyped, unknown, expired, revoked", async () => {
    const detail = async (key: string) =>
      problemOf(await proxy.get("/api/v1/scores", { headers: bearer(key) })).detail;
    const expiring = await proxy.issue({ owner: "e", expiresAt: new Date(proxy.clock.now + 60_000) });
    proxy.clock.now += 60_000;
    expect(await detail("prs_live_x")).toMatch(/malformed/);
    const key = generateKey();
    expect(await detail(key.replace(/.$/, key.endsWith("0") ? "1" : "0"))).toMatch(/mistyped.*checksum/);
    expect(await detail(generateKey())).toMatch(/unknown/);
    expect(await detail(expiring)).toMatch(/expired/);
  });

  test("a revocation counts within a poll, one ahead when its time comes", async () => {
    const [now, later] = [await proxy.issue({ owner: "r1" }), await proxy.issue({ owner: "r2" })];
    const { records } = await readKeys(proxy.storage);
    const idOf = (owner: string) => records.find((record) => record.owner === owner)!.id;
    const status = async (key: string) => (await proxy.get("/api/v1/usage", { headers: bearer(key) })).status;
    await revokeKey(proxy.storage, idOf("r2"), new Date(proxy.clock.now + 3_600_000));
    await revokeKey(proxy.storage, idOf("r1"), new Date(proxy.clock.now));
    await until("the expired key to be refused", async () => (await status(now)) === 401);
    expect(await status(later)).toBe(200);
    proxy.clock.now += 3_600_000;
    expect(await status(later)).toBe(401);
    const answer = await proxy.get("/api/v1/scores", { headers: bearer(now) });
    expect(problemOf(answer).detail).toMatch(/revoked/);
  });
});

describe("presentedKey(rawHeaders)", () => {
  const value = fc.oneof(
    fc.constantFrom("", "Bearer", "Bearer ", "bearer K", "BEARER K", "Basic K", "K", "L", "Bearer L"),
    fc.string(),
  );
  const header = fc.tuple(
    fc.constantFrom("Authorization", "authorization", "X-API-Key", "x-api-key", "Cookie"),
    value,
  );

  test.each([
    [["Authorization", ""], "the Authorization header is empty"],
    [["Authorization", "Basic K"], "the Authorization header is not of the scheme Bearer"],
    [["Authorization", "Bearer "], "the Authorization header holds no key"],
    [["X-API-Key", ""], "the x-api-key header is empty"],
    [["X-API-Key", "K", "x-api-key", "K"], "a key is sent more than once"],
    [["Sec-WebSocket-Protocol", `${keyProtocolPrefix}K`, "x-api-key", "L"], "two different API keys"],
  ])("refuses %j: %s", (rawHeaders, reason) => {
    expect(() => presentedKey(rawHeaders, true)).toThrow(reason);
  });

  test("takes a key from the subprotocols of a WebSocket, and of nothing else", () => {
    const offered = ["Sec-WebSocket-Protocol", `chat, ${keyProtocolPrefix}K`];
    expect(presentedKey(offered, true)).toBe("K");
    expect(presentedKey(offered, false)).toBeUndefined();
    expect(presentedKey([...offered, "Authorization", "Bearer K"], true)).toBe("K");
    expect(() => presentedKey([...offered, ...offered], true)).toThrow("more than once");
    expect(presentedKey(["X-Other-Key", "K"], true)).toBeUndefined();
  });

  test("gives one key that was sent, nothing when no key header was, and else a refusal", () => {
    fc.assert(
      fc.property(fc.array(header, { maxLength: 4 }), (headers) => {
        const sent = headers.filter(([name]) => name !== "Cookie").map(([, sentValue]) => sentValue);
        try {
          const key = presentedKey(headers.flat(), false);
          if (key === undefined) expect(sent).toEqual([]);
          else for (const one of sent) expect([one, one.replace(/^bearer +/i, "")]).toContain(key);
        } catch (error) {
          expect(isFault(error, "INVALID_API_KEY", "CONFLICTING_CREDENTIALS")).toBe(true);
          expect(sent).not.toEqual([]);
        }
      }),
      { numRuns: 5000 },
    );
  });
});

test("the log holds patterns and names of known parameters, no target, no value, no key", async () => {
  const secret = "SECRETCANARY";
  const line = async (path: string, headers: Record<string, string> = {}) => {
    const { "x-request-id": id } = (await proxy.get(path, { headers })).headers;
    return proxy.logs(String(id));
  };
  const page = JSON.parse(
    await line(`/api/v1/markets/historical?outcome=${secret}&min_composite=300`, bearer(aegis)),
  );
  expect(page.req).toMatchObject({
    route: "/api/v1/markets/historical",
    parameters: ["outcome", "min_composite"],
  });
  await line(`/api/v1/scores/${secret}?${secret}=1`, {
    "x-api-key": secret,
    cookie: secret,
    "user-agent": secret,
  });
  await line(`/${secret}`, { authorization: `Bearer ${secret}` });
  expect(proxy.logged.join("")).not.toContain(secret);
  expect(proxy.logged.join("")).not.toContain(aegis);
});
