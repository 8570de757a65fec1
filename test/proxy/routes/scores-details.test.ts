import { expect, test } from "vitest";
import { requirePlan } from "../../../proxy/access/identity.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { type FaultyOrigin, startFaultyOrigin } from "../../helpers/http/faulty-origin.ts";
import { outcome, problemOf, remaining } from "../../helpers/http/proxy-client.ts";
import { serveTestProxy } from "../../helpers/http/proxy-served.ts";

// What histories and dimensions say is in test/snapshots/sources/score-details.test.ts.

const proxy = serveTestProxy();
const addressOf = (slug: string, kind: string) => `/api/v1/scores/${slug}/${kind}`;

test("a plan below Developer is refused as such, should there ever be keys of one", () => {
  const caller = { plan: "free", account: "a", owner: "o", limit: 1, keyed: true } as const;
  expect(() => requirePlan(caller, "developer")).toThrow(
    expect.objectContaining({ code: "DEVELOPER_REQUIRED" }),
  );
});

test.each(["missing from", "damaged in"])(
  "an object %s the store is 503 and costs nothing, until it is back; the origin is not asked",
  async (how) => {
    const { storage } = proxy;
    const key = await proxy.issue({ owner: how });
    const origin: FaultyOrigin = await startFaultyOrigin(() => expect.fail("not for the origin to give"));
    // It has nothing in memory yet.
    await using other = await proxy.another({ publicOrigin: origin.url });
    await other.accepts(key);
    const get = (slug: string, kind: string) => other.as(key)(addressOf(slug, kind));
    const left = await other.left(key);
    const kept = new Map<string, Buffer>();
    for await (const object of storage.list(layout.privateObject.prefix))
      kept.set(object.key, (await storage.get(object.key))!);
    const inMemory = await get("aave", "history");
    for (const object of kept.keys())
      await (how === "missing from" ? storage.delete(object) : storage.put(object, Buffer.from("{}")));
    expect((await get("aave", "history")).text).toBe(inMemory.text);
    for (const kind of ["history", "dimensions"]) {
      const answer = await get("curve.fi", kind);
      expect([outcome(answer), remaining(answer)]).toEqual(["503 SNAPSHOT_UNAVAILABLE", left - 2]);
      expect(problemOf(answer).detail).toMatch(/^The archive cannot be read/);
      expect(answer.text).not.toMatch(/private|[0-9a-f]{64}/);
    }
    for (const [object, bytes] of kept) await storage.put(object, bytes);
    expect(outcome(await get("curve.fi", "history"))).toBe("200");
    expect(origin.connections).toBe(0);
    await origin.stop();
  },
);
