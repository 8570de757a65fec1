import { expect, test } from "vitest";
import { publishedSite } from "../../../proxy/site/files.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { Trust } from "../../../snapshots/trust/trust.ts";
import { verify } from "../../../snapshots/verify/verify.ts";
import { exportNewest } from "../../helpers/archive/exports.ts";
import { publishArchive } from "../../helpers/publish/records.ts";
import { testKey } from "../../helpers/store/signing.ts";
import { aroundCalls, memoryStorage } from "../../helpers/store/storages.ts";
import type { Objects } from "../../helpers/store/tamper.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";

const folder = testFolder();
const signing = { key: testKey() };
const named = { api: "https://api.example.org/api/v1", siteUrl: "https://cdn.example.org/", signing };

/** The store before a publish that also exports, and after it. */
async function twoStates(): Promise<[before: Objects, after: Objects]> {
  const objects: Objects = new Map();
  const storage = memoryStorage(objects);
  await publishArchive(storage, { markets: 30, bri: 700, ...named });
  await publishArchive(storage, { markets: 40, bri: 650, ...named });
  const before = new Map(objects);
  await publishArchive(storage, { markets: 50, bri: 300, ...named });
  await exportNewest(storage, folder, { signing, changes: true });
  return [before, objects];
}

/** Checks a store that changes right before a call, and says how many calls there were. */
async function checkedWhile(before: Objects, after: Objects, change: number) {
  const objects = new Map(before);
  let calls = 0;
  const storage = aroundCalls(memoryStorage(objects), (work) => {
    calls += 1;
    if (calls === change) {
      objects.clear();
      for (const [key, bytes] of after) objects.set(key, bytes);
    }
    return work();
  });
  const options = { site: publishedSite, signing, trust: new Trust([signing.key]) };
  const { faults } = await verify(storage, () => {}, options);
  return { calls, faults: faults.map(({ key }) => key) };
}

test("a publish during the check is no fault, and whatever it left behind is one", async () => {
  const [before, after] = await twoStates();
  const { calls } = await checkedWhile(before, after, 0);
  // The log is read first.
  for (let change = 1; change <= calls; change += change < 8 ? 1 : 9)
    expect(await checkedWhile(before, after, change), `before call ${change}`).toMatchObject({ faults: [] });

  // Signed records name a commit that somebody took away, and the page of another was altered meanwhile.
  const lost = new Map(after);
  lost.delete(layout.commit(3));
  const [page] = [...before.keys()].filter(layout.page.has);
  const damaged = new Map(after).set(page!, Buffer.from("x"));
  expect((await checkedWhile(before, lost, 3)).faults).toContain(layout.commit(3));
  expect((await checkedWhile(before, damaged, 3)).faults).toContain(page);
});
