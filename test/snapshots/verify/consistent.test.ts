import { beforeAll, describe, expect, test } from "vitest";
import type { HistoricalMarket } from "../../../schemas/records.ts";
import { layout, sha256 } from "../../../snapshots/store/layout.ts";
import { verify } from "../../../snapshots/verify/verify.ts";
import { memoryStorage } from "../../helpers/store/storages.ts";
import {
  agreeing,
  type Changes,
  type CommitChanges,
  faultyKeys,
  goodStore,
  newestManifest,
  type Objects,
  putPublic,
  rebuild,
  replaceCommit,
  replaceManifest,
} from "../../helpers/store/tamper.ts";

let good: Objects;

beforeAll(async () => {
  good = await goodStore();
});

/** The keys of the faults in a good store that was tampered with. */
async function faultsOf(tamper: (objects: Objects) => unknown): Promise<string[]> {
  const objects = new Map(good);
  await tamper(objects);
  return faultyKeys(objects);
}

describe("names what is wrong where all hashes agree", () => {
  test("rebuilding alone is no fault", async () => {
    expect(await faultsOf((objects) => rebuild(objects, () => {}))).toEqual([]);
  });

  test.for<[string, (market: HistoricalMarket) => object]>([
    ["a status", () => ({ status: "open" })],
    ["a field more", () => ({ more: 1 })],
    ["a time without milliseconds", ({ resolvedAt }) => ({ resolvedAt: resolvedAt.replace(".000Z", "Z") })],
    [
      "a weight above 1",
      ({ dimensions }) => ({ dimensions: dimensions.map((one) => ({ ...one, weight: 2 })) }),
    ],
  ])("the page, when a market in it is not as the interface has it: %s", async ([, change]) => {
    const objects = new Map(good);
    const { pages } = await rebuild(objects, ([page]) => {
      page![3] = { ...page![3]!, ...change(page![3]!) };
    });
    expect(await faultyKeys(objects)).toEqual([pages[0]]);
  });

  test.for<[string, (pages: HistoricalMarket[][]) => void]>([
    ["two markets change places", ([page]) => page!.splice(3, 2, page![4]!, page![3]!)],
    ["a market comes twice", ([page]) => page!.splice(3, 0, page![3]!)],
    ["pages change places", (pages) => pages.reverse()],
    ["two pages are one", (pages) => pages.splice(0, 2, [...pages[1]!, ...pages[0]!])],
    ["a page is two", (pages) => pages.splice(0, 1, pages[0]!.slice(20), pages[0]!.slice(0, 20))],
  ])("the segment, when %s", async ([, change]) => {
    const objects = new Map(good);
    const { segment } = await rebuild(objects, change);
    expect(await faultyKeys(objects)).toEqual([segment]);
  });

  test.for<[string, (objects: Objects) => Changes]>([
    ["another newest market", () => ({ newestResolvedAt: "2025-01-01T00:00:00.000Z" })],
    ["another newest score", () => ({ newestUpdatedAt: "2025-01-01T00:00:00.000Z" })],
    ["its segments the other way round", (objects) => agreeing(newestManifest(objects).segments.reverse())],
  ])("the manifest, when it has %s", async ([, changes]) => {
    const objects = new Map(good);
    const key = replaceManifest(objects, changes(objects));
    expect(await faultyKeys(objects)).toEqual([key]);
  });

  test("the manifest, when its segments lack markets that the commit counts", async () => {
    const objects = new Map(good);
    const key = replaceManifest(objects, { segments: newestManifest(objects).segments.slice(1) }, {});
    expect(await faultyKeys(objects)).toContain(key);
  });

  test("refuses a manifest of a version to come, naming both", async () => {
    const objects = new Map(good);
    const bytes = Buffer.from(JSON.stringify({ ...newestManifest(objects), formatVersion: 7 }));
    const manifest = { hash: sha256(bytes), bytes: bytes.length };
    objects.set(layout.manifest(manifest.hash), bytes);
    replaceCommit(objects, { manifest });
    await expect(verify(memoryStorage(objects), () => {})).rejects.toThrow(/version 7.*version 4/);
  });

  test.for<[string, CommitChanges]>([
    ["another snapshot than its manifest", { entry: { snapshotId: sha256("another") } }],
    ["another archive root than its manifest", { entry: { archiveRoot: sha256("another") } }],
    ["another scores root than its manifest", { entry: { scoresRoot: sha256("another") } }],
    ["other counts than its manifest", { entry: { counts: { markets: 120, protocols: 1 } } }],
    ["another predecessor", { previous: sha256("another") }],
    ["a time before its predecessor's", { entry: { publishedAt: "2020-01-01T00:00:00.000Z" } }],
  ])("the commit, when it names %s", async ([, changes]) => {
    expect(await faultsOf((objects) => replaceCommit(objects, changes))).toEqual([layout.commit(3)]);
  });

  test("the score list, when it is not the one its records give", async () => {
    const objects = new Map(good);
    const { scores } = newestManifest(objects);
    const list = JSON.parse(String(objects.get(layout.publicObject(scores.list.hash))));
    const ref = putPublic(objects, JSON.stringify({ ...list, scores: list.scores.reverse() }));
    objects.set(layout.stableScoreList, objects.get(layout.publicObject(ref.hash))!);
    const changed = { ...scores, list: ref };
    replaceManifest(objects, { scores: changed });
    replaceManifest(objects, agreeing(newestManifest(objects).segments));
    expect(await faultyKeys(objects)).toEqual([layout.publicObject(ref.hash)]);
  });

  test("a key record under another key's name", async () => {
    const keys = [...good.keys()].filter((key) => /^keys\/[0-9a-f]+\.json$/.test(key));
    expect(keys).toHaveLength(2);
    const faults = await faultsOf((objects) => objects.set(keys[0]!, good.get(keys[1]!)!));
    expect(faults).toEqual([keys[0]]);
  });
});
