import { expect, test, vi } from "vitest";
import { readKeys, revokeKey } from "../../snapshots/keys/keys.ts";
import { CommitLog } from "../../snapshots/read/catalog/commit-log.ts";
import { layout } from "../../snapshots/store/layout.ts";
import { readCommit } from "../../snapshots/store/log/commits.ts";
import { readManifest } from "../../snapshots/store/manifest.ts";
import { type FaultyOrigin, startFaultyOrigin } from "../helpers/http/faulty-origin.ts";
import { startTestProxy } from "../helpers/http/proxy.ts";
import { outcome, problemOf, remaining, until } from "../helpers/http/proxy-client.ts";
import { anotherOverS3 } from "../helpers/http/proxy-served.ts";

const list = "/api/v1/scores";

test("a damaged score is 502 however often it is asked for, and takes no other score with it", async () => {
  await using proxy = await startTestProxy();
  const { storage } = proxy;
  const { scores } = await readManifest(storage, (await readCommit(storage, 1))!);
  const [gone, rotten, sound] = Object.keys(scores.records) as [string, string, string];
  const keyOf = (slug: string) => layout.publicObject(scores.records[slug]!.hash);
  await storage.delete(keyOf(gone));
  await storage.put(keyOf(rotten), Buffer.from("{}"));
  const ask = async (slug: string) => outcome(await proxy.get(`${list}/${slug}`));
  for (let time = 0; time < 6; time += 1)
    for (const slug of [gone, rotten]) expect(await ask(slug)).toBe("502 UPSTREAM_ERROR");
  expect(await ask(sound)).toBe("200");
});

test("INTERNAL tells nothing and returns the unit", async () => {
  await using proxy = await startTestProxy();
  const key = await proxy.issue();
  const find = vi.spyOn(CommitLog.prototype, "find").mockImplementation(() => {
    throw new Error("SECRET of the inside");
  });
  const answer = await proxy.as(key)(`${list}?asOf=${"0".repeat(64)}`);
  find.mockRestore();
  expect(outcome(answer)).toBe("500 INTERNAL");
  expect(problemOf(answer).detail).toMatch(/^Something went wrong on our side/);
  expect(answer.text).not.toMatch(/SECRET|\.ts|Error:/);
  expect([answer.headers["x-ratelimit-remaining"], await proxy.left(key)]).toEqual(["100000", 100_000]);
});

test("keys not read yet are 503, not unknown", async () => {
  await using first = await startTestProxy();
  const key = await first.issue();
  const denied = { status: 403, code: "AccessDenied" };
  const proxy = await anotherOverS3(first, (_method, name) =>
    name.startsWith(layout.key.prefix) ? denied : undefined,
  );
  expect(outcome(await proxy.as(key)(list))).toBe("503 SNAPSHOT_UNAVAILABLE");
  expect(outcome(await proxy.get("/readyz"))).toBe("503 SNAPSHOT_UNAVAILABLE");
  expect(outcome(await proxy.get(list))).toBe("200");
});

test("a revocation that is deleted keeps its key out, is logged once and counted", async () => {
  await using proxy = await startTestProxy();
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

test.each(["missing from", "damaged in"])(
  "an object %s the store is 503 and costs nothing, until it is back; the origin is not asked",
  async (how) => {
    await using proxy = await startTestProxy();
    const { storage } = proxy;
    const key = await proxy.issue();
    const origin: FaultyOrigin = await startFaultyOrigin(() => expect.fail("not for the origin to give"));
    // It has nothing in memory yet.
    await using other = await proxy.another({ publicOrigin: origin.url });
    await other.accepts(key);
    const get = (slug: string, kind: string) => other.as(key)(`${list}/${slug}/${kind}`);
    const left = await other.left(key);
    const kept = new Map<string, Buffer>();
    for await (const object of storage.list(layout.privateObject.prefix))
      kept.set(object.key, (await storage.get(object.key))!);
    const inMemory = await get("aave", "history");
    for (const object of kept.keys())
      await (how === "missing from" ? storage.delete(object) : storage.put(object, Buffer.from("{}")));
    expect((await get("aave", "history")).text).toBe(inMemory.text);
    // A batch goes on, since its records are no private objects.
    const [headers, body] = [{ "content-type": "application/json" }, '{"slugs":["aave","../../secret"]}'];
    expect((await other.as(key)(`${list}/batch`, headers, { method: "POST", body })).json().count).toBe(1);
    for (const kind of ["history", "dimensions"]) {
      const answer = await get("curve.fi", kind);
      expect([outcome(answer), remaining(answer)]).toEqual(["503 SNAPSHOT_UNAVAILABLE", left - 3]);
      expect(problemOf(answer).detail).toMatch(/^The archive cannot be read/);
      expect(answer.text).not.toMatch(/private|[0-9a-f]{64}/);
    }
    for (const [object, bytes] of kept) await storage.put(object, bytes);
    expect(outcome(await get("curve.fi", "history"))).toBe("200");
    expect(origin.connections).toBe(0);
    await origin.stop();
  },
);
