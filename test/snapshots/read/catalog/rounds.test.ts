import { expect, test } from "vitest";
import { Catalog } from "../../../../snapshots/read/catalog/catalog.ts";
import { layout, manifestPrefixes, privateTree, sha256 } from "../../../../snapshots/store/layout.ts";
import { publishRecords, recordsOf } from "../../../helpers/publish/records.ts";
import { aroundCalls, memoryStorage, type StorageCall } from "../../../helpers/store/storages.ts";
import { goodStore } from "../../../helpers/store/tamper.ts";

/** The same store, which answers calls of one group only once so many of them have been asked. */
function answeredTogether(
  objects: Map<string, Buffer>,
  groups: readonly { of: (call: StorageCall) => boolean; together: number }[],
) {
  const gates = groups.map((group) => ({ ...group, asked: 0, open: Promise.withResolvers<void>() }));
  return aroundCalls(memoryStorage(objects), async (work, call) => {
    const gate = gates.find(({ of }) => of(call));
    if (gate) {
      gate.asked += 1;
      if (gate.asked === gate.together) gate.open.resolve();
      await gate.open.promise;
    }
    return work();
  });
}

const isUnder =
  (...prefixes: string[]) =>
  ({ key }: StorageCall) =>
    prefixes.some((prefix) => key.startsWith(prefix));

test("a start reads side by side what does not follow from each other", async () => {
  let commitsAsked = 0;
  const storage = answeredTogether(await goodStore(), [
    // The commit that checked.json names and the one after it, which there may be.
    { of: (call) => isUnder(layout.commit.prefix)(call) && ++commitsAsked > 0, together: 2 },
    // checked.json was read before the commits, to find them.
    {
      of: (call) => isUnder(layout.manifest.prefix, layout.checked)(call) && commitsAsked > 0,
      together: 2,
    },
    { of: isUnder(layout.segmentList.prefix, layout.scoreLines.prefix), together: 2 },
    { of: isUnder(layout.segment.prefix), together: 2 },
  ]);
  const catalog = new Catalog(storage, { cacheBytes: 2 ** 20 });
  await catalog.refresh();
  expect((await catalog.snapshot()).archive.segments.map(({ markets }) => markets)).toHaveLength(2);
  expect(catalog.requireCurrent().commit.commit).toBe(3);
  expect(catalog.checkedAt()).toBeDefined();
});

test("a publish lists side by side what the store has of the snapshot before", async () => {
  const folders = manifestPrefixes.filter((prefix) => prefix.startsWith(privateTree));
  const isListing = ({ operation, key }: StorageCall) => operation === "list" && folders.includes(key);
  const objects = await goodStore();
  // One answer does not list so many, and each folder is then listed by itself.
  for (let n = 0; n <= 1000; n += 1)
    objects.set(`${layout.page.prefix}${sha256(`${n}`)}.json.gz`, Buffer.from("x"));
  const storage = answeredTogether(objects, [
    { of: isListing, together: folders.length },
    { of: isUnder(layout.segment.prefix), together: 2 },
  ]);
  await publishRecords(storage, recordsOf(0, 118));
  const catalog = new Catalog(storage, { cacheBytes: 2 ** 20 });
  await catalog.refresh();
  expect(catalog.requireCurrent().commit.commit).toBe(4);
});
