import { expect, test, vi } from "vitest";
import { CommitLog } from "../../snapshots/read/catalog/commit-log.ts";
import { layout } from "../../snapshots/store/layout.ts";
import { readCommit } from "../../snapshots/store/log/commits.ts";
import { readManifest } from "../../snapshots/store/manifest.ts";
import { startTestProxy } from "../helpers/http/proxy.ts";
import { outcome, problemOf } from "../helpers/http/proxy-client.ts";
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
