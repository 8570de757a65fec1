import { beforeAll, describe, expect, test } from "vitest";
import type { ScoreDimensions, ScoreHistory } from "../../../schemas/envelopes.ts";
import type { HistoricalMarket } from "../../../schemas/records.ts";
import type { Manifest, ObjectRef } from "../../../schemas/store/stored-objects.ts";
import { layout, sha256 } from "../../../snapshots/store/layout.ts";
import { scoreText } from "../../../snapshots/store/manifest.ts";
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
    ["another index root than its manifest", { entry: { indexRoot: sha256("another") } }],
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

/** What verify says when the history or the dimensions of a protocol are others, and all hashes agree. */
async function faultsWith(kind: "histories" | "dimensions", change: (text: string) => string) {
  const objects = new Map(good);
  const { scores } = newestManifest(objects);
  const text = String(objects.get(layout.privateObject(scores[kind].aave!.hash)));
  const bytes = Buffer.from(change(text));
  const ref: ObjectRef = { hash: sha256(bytes), bytes: bytes.length };
  const key = layout.privateObject(ref.hash);
  objects.set(key, bytes);
  replaceManifest(objects, { scores: { ...scores, [kind]: { ...scores[kind], aave: ref } } });
  return { keys: await faultyKeys(objects), key };
}

test("finds no fault in the same objects put again", async () => {
  for (const kind of ["histories", "dimensions"] as const) {
    expect((await faultsWith(kind, (text) => text)).keys).toEqual([]);
  }
});

/** A history with other points. */
const points = (change: (points: ScoreHistory["points"]) => ScoreHistory["points"]) => (text: string) => {
  const all: ScoreHistory = JSON.parse(text);
  const changed = change(all.points);
  return JSON.stringify({ ...all, points: changed, count: changed.length });
};

describe("names a history", () => {
  const others = (members: object) => (text: string) => JSON.stringify({ ...JSON.parse(text), ...members });

  test.for<[string, (text: string) => string]>([
    ["is another protocol's", others({ slug: "curve.fi" })],
    ["tells of other days", others({ days: 8 })],
    ["has another count", others({ count: 3 })],
    ["has no points", points(() => [])],
    ["has its newest point first", points((all) => all.toReversed())],
    ["has a point twice", points(([first, last]) => [first!, first!, last!])],
    ["does not end with the record", points(([first, last]) => [first!, { ...last!, confidence: 89 }])],
    ["ends before the record", points(([first]) => [first!])],
    [
      "goes back a millisecond too far",
      points(([first, last]) => [{ ...first!, updatedAt: "2026-01-26T08:21:59.228Z" }, last!]),
    ],
    [
      "has a tier that is not its number's",
      points(([first, last]) => [{ ...first!, forgeScaleNum: 5 }, last!]),
    ],
    ["has a member more", points(([first, last]) => [Object.assign({}, first, { tvl: "$1" }), last!])],
  ])("that %s", async ([, change]) => {
    const { keys, key } = await faultsWith("histories", change);
    expect(keys).toEqual([key]);
  });

  test("unless it goes back seven days to the millisecond", async () => {
    const change = points(([first, last]) => [{ ...first!, updatedAt: "2026-01-26T08:21:59.229Z" }, last!]);
    expect((await faultsWith("histories", change)).keys).toEqual([]);
  });
});

describe("names dimensions", () => {
  type Part = ScoreDimensions["dimensions"][number];
  const third = (change: (part: Part) => Partial<Part>) => (all: ScoreDimensions) => ({
    ...all,
    dimensions: all.dimensions.map((part, place) => (place === 3 ? { ...part, ...change(part) } : part)),
  });

  test.for<[string, (dimensions: ScoreDimensions) => object]>([
    ["are another protocol's", (all) => ({ ...all, slug: "curve.fi" })],
    ["are of another time", (all) => ({ ...all, updatedAt: "2026-02-02T08:21:59.228Z" })],
    ["have another evidence", (all) => ({ ...all, evidenceHash: "sha256:other" })],
    ["have another score", third(({ score }) => ({ score: score - 1 }))],
    ["have another percentile", third(() => ({ percentile: 33 }))],
    ["have a percentile that is no integer", third(() => ({ percentile: 0.5 }))],
    ["gained more than they have", third(({ score }) => ({ change7d: score + 1 }))],
    ["lost more than there is", third(({ score }) => ({ change7d: score - 101 }))],
    ["lack one", (all) => ({ ...all, dimensions: all.dimensions.slice(1) })],
    ["are in another order", (all) => ({ ...all, dimensions: all.dimensions.toReversed() })],
  ])("that %s", async ([, change]) => {
    const { keys, key } = await faultsWith("dimensions", (text) => JSON.stringify(change(JSON.parse(text))));
    expect(keys).toEqual([key]);
  });

  test("that changed within a history of one point", async () => {
    const { aave } = newestManifest(good).scores.dimensions;
    const { keys } = await faultsWith(
      "histories",
      points((all) => all.slice(1)),
    );
    expect(keys).toEqual([layout.privateObject(aave!.hash)]);
  });
});

test.for(["histories", "dimensions"] as const)(
  "names lines of scores that lack a protocol's %s",
  async (kind) => {
    const objects = new Map(good);
    const { scores } = newestManifest(objects);
    const { aave: _, ...others } = scores[kind];
    const lines = { ...scores, [kind]: others };
    replaceManifest(objects, { scores: lines });
    expect(await faultyKeys(objects)).toEqual([layout.scoreLines(sha256(scoreText(lines)))]);
  },
);

test("names a commit whose snapshot id leaves histories or dimensions out", async () => {
  for (const kind of ["histories", "dimensions"] as const) {
    const objects = new Map(good);
    const { scores } = newestManifest(objects);
    const { aave, "curve.fi": curve, ...others } = scores[kind];
    const changed = { ...scores, [kind]: { ...others, aave: curve, "curve.fi": aave } };
    replaceManifest(objects, { scores: changed as Manifest["scores"] }, {});
    expect(await faultyKeys(objects)).toContain(layout.commit(3));
  }
});
