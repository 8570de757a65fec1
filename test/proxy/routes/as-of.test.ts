import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { rollback } from "../../../snapshots/maintain/rollback.ts";
import { CommitLog } from "../../../snapshots/read/catalog/commit-log.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { newestCommit, readCommit } from "../../../snapshots/store/log/commits.ts";
import { readManifest } from "../../../snapshots/store/manifest.ts";
import { type Ask, startTestProxy, type TestProxy } from "../../helpers/http/proxy.ts";
import { type Answer, problemOf, until } from "../../helpers/http/proxy-client.ts";
import { serveTestProxy } from "../../helpers/http/proxy-served.ts";
import { marketsOf, publishRecords } from "../../helpers/publish/records.ts";
import { startSmallS3 } from "../../helpers/store/small-s3.ts";
import { memoryStorage } from "../../helpers/store/storages.ts";

// Published at noon of these days; the fourth is withdrawn by the fifth, which has the content of the third again, and
// the second is collected.
const days = ["2026-02-10", "2026-02-20", "2026-02-27", "2026-02-28", "2026-03-01"] as const;
const noon = (day: string) => new Date(`${day}T12:00:00.000Z`);
const contents = [40, 45, 50, 55].map((count) => marketsOf(0, count));
const bris = [700, 710, 720, 730];

// The origin of the public objects does not answer.
const first = serveTestProxy({ empty: true, publicOrigin: new URL("http://127.0.0.1:9"), pollSeconds: 3600 });
let proxy: TestProxy;
const ids: string[] = [];
let aegis: string;
beforeAll(async () => {
  const { storage } = first;
  for (const [n, records] of contents.entries()) {
    const { snapshotId } = await publishRecords(storage, records, bris[n]!, { now: () => noon(days[n]!) });
    ids.push(snapshotId);
  }
  await rollback(storage, "3", () => noon(days[4]));
  ids.push((await newestCommit(storage))!.entry.snapshotId);
  await storage.delete(layout.manifest((await readCommit(storage, 2))!.manifest.hash));
  // This one has seen nothing of what was before.
  proxy = await first.another({ pollSeconds: 1 });
  aegis = await proxy.issue();
  proxy.clock.now = Date.parse("2026-03-01T18:00:00.000Z");
});
afterAll(() => proxy?.stop());

const askOf =
  ({ as }: TestProxy): Ask =>
  (path, ...how) =>
    as(aegis)(`/api/v1/${path}`, ...how);
const refusalOf = (answer: Answer) => {
  const { code, parameter } = problemOf(answer);
  return [answer.status, code, parameter];
};
const archive = "markets/historical";

// Which snapshot a time means, and what is answered of it, is in test/proxy/corpus.txt, and in test/world.
test("asOf names the snapshots beside one that is collected or withdrawn", async () => {
  const around = (place: number) => ({
    snapshotId: ids[place],
    publishedAt: noon(days[place]!).toISOString(),
  });
  for (const [place, before, after] of [
    [1, 0, 2],
    [3, 2, 4],
  ] as const)
    expect(problemOf(await askOf(proxy)(`${archive}?asOf=${ids[place]}`))).toMatchObject({
      ...{ status: 410, code: "SNAPSHOT_EXPIRED" },
      nearest: { before: around(before), after: around(after) },
    });
});

test("asOf on scores looks nothing up for who has no unit left, and for no unit", async () => {
  const key = await proxy.issue({ plan: "developer", owner: "spent", quota: 1 });
  const asked = async (query: string) => problemOf(await proxy.as(key)(`/api/v1/scores?${query}`)).code;
  const looks = [vi.spyOn(CommitLog.prototype, "find"), vi.spyOn(CommitLog.prototype, "newestWith")];
  const looked = () => looks.some(({ mock }) => mock.calls.length > 0);
  // For its plan, by the time alone.
  expect(await asked("asOf=2026-02-01")).toBe("AEGIS_REQUIRED");
  expect(looked()).toBe(false);
  // By an id, which has to be looked up: the unit is given back.
  expect(await asked(`asOf=${ids[0]}`)).toBe("AEGIS_REQUIRED");
  expect([looked(), await proxy.left(key)]).toEqual([true, 1]);
  await proxy.as(key)("/api/v1/scores?asOf=2026-02-28");
  for (const look of looks) look.mockClear();
  for (const id of [ids[0], "0".repeat(64)]) expect(await asked(`asOf=${id}`)).toBe("QUOTA_EXCEEDED");
  expect(looked()).toBe(false);
  for (const look of looks) look.mockRestore();
  // The origin is away, so that nothing was read from there for any time.
  expect((await proxy.get("/api/v1/scores")).status).toBe(502);
});

test("a proxy has read the log before somebody asks for the list", async () => {
  const storage = memoryStorage(new Map());
  for (const bri of bris) await publishRecords(storage, contents[0]!, bri);
  const s3 = await startSmallS3(storage);
  const read = new Set<string>();
  s3.fault = (_, key) => void read.add(key);
  const { environment } = s3;
  const place = { snapshotStore: "s3://bucket", environment };
  const other = await startTestProxy({ empty: true, pollSeconds: 3600, ...place });
  const known = bris.map((_, place) => layout.commit(place + 1));
  await until("all commits to be read", async () => known.every((key) => read.has(key)));
  read.clear();
  expect((await other.get("/api/v1/snapshots")).json().count).toBe(bris.length);
  expect([...read]).toEqual([]);
  await other.stop();
  await s3.stop();
});

test("what lies behind a damaged commit is 503 with the reason, and not said to be unknown", async () => {
  const { storage } = proxy;
  const key = layout.commit(2);
  const bytes = (await storage.get(key))!;
  const flipped = Buffer.from(bytes);
  flipped[100]! ^= 1;
  for (const damaged of [flipped, undefined]) {
    await (damaged ? storage.put(key, damaged) : storage.delete(key));
    await using other = await proxy.another();
    const get = askOf(other);
    for (const path of [
      `${archive}?asOf=${ids[0]}`,
      `${archive}?asOf=2026-02-10`,
      `markets/changes?since=${ids[0]}`,
      `markets/changes?since=${ids[2]}&until=${ids[0]}`,
      `markets/exports/${ids[0]}/markets-0001.parquet`,
      `scores?asOf=${ids[0]}`,
    ]) {
      const { status, code, detail } = problemOf(await get(path));
      const told = expect.stringContaining(`before ${noon(days[2]).toISOString()} is damaged`);
      expect([path, status, code, detail]).toEqual([path, 503, "SNAPSHOT_UNAVAILABLE", told]);
    }
    expect(other.logged.some((line) => line.includes(key))).toBe(true);
    for (const path of [archive, `${archive}?asOf=2026-02-27`, `markets/changes?since=${ids[2]}`])
      expect((await get(path)).status).toBe(200);
  }
  await storage.put(key, bytes);
});

test("what was deleted since it was loaded is 410, and never 500", async () => {
  const { storage } = proxy;
  const { scores } = await readManifest(storage, (await readCommit(storage, 1))!);
  const key = layout.publicObject(scores.records.aave!.hash);
  const bytes = (await storage.get(key))!;
  // A proxy that has the manifest in memory and nothing else.
  await using other = await proxy.another();
  const get = (path: string) => askOf(other)(`${path}?asOf=2026-02-10`);
  expect((await get("scores")).status).toBe(200);
  await storage.delete(key);
  expect(refusalOf(await get("scores/aave"))).toEqual([410, "SNAPSHOT_EXPIRED", "asOf"]);
  await storage.put(key, bytes);
});
