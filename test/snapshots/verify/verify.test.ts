import { beforeAll, describe, expect, test } from "vitest";
import { publishedSite } from "../../../proxy/site/files.ts";
import type { ScoreDimensions, ScoreHistory } from "../../../schemas/envelopes.ts";
import type { HistoricalMarket } from "../../../schemas/records.ts";
import type { Manifest } from "../../../schemas/store/stored-objects.ts";
import { openSections } from "../../../snapshots/index/sections.ts";
import { readSections } from "../../../snapshots/index/segment.ts";
import { layout, sha256 } from "../../../snapshots/store/layout.ts";
import { scoreText } from "../../../snapshots/store/manifest.ts";
import { referTo } from "../../../snapshots/store/objects.ts";
import { StoreCheck } from "../../../snapshots/verify/store-check.ts";
import { type VerifyReport, verify } from "../../../snapshots/verify/verify.ts";
import { publishRecords, recordsOf } from "../../helpers/publish/records.ts";
import { testKey } from "../../helpers/store/signing.ts";
import { memoryStorage } from "../../helpers/store/storages.ts";
import {
  agreeing,
  type Changes,
  type CommitChanges,
  goodStore,
  newestManifest,
  newestSegment,
  type Objects,
  putPublic,
  rebuild,
  replaceCommit,
  replaceManifest,
  replaceSegment,
} from "../../helpers/store/tamper.ts";

let good: Objects;

beforeAll(async () => {
  good = await goodStore();
});

/** Objects of each kind, by what stands before their names: three show what all do. */
const some = () => [
  ...Map.groupBy(good, ([key]) => key.replace(/[^/]*$/, ""))
    .values()
    .flatMap((kind) => kind.slice(0, 3)),
];

const check = (objects: Objects): Promise<VerifyReport> =>
  verify(memoryStorage(objects), () => {}, { site: publishedSite });

/** The keys of the faults in a good store that was tampered with, and what the tampering returned. */
async function faultsOf<T>(tamper: (objects: Objects) => T): Promise<[keys: string[], of: Awaited<T>]> {
  const objects = new Map(good);
  const of = await tamper(objects);
  return [(await check(objects)).faults.map(({ key }) => key), of];
}

/** The keys of the faults found in the good store with one object changed; undefined removes it. */
const faultsWith = async (key: string, bytes: Buffer | undefined) =>
  (await faultsOf((objects) => (bytes ? objects.set(key, bytes) : objects.delete(key))))[0];

const bytesIn = (objects: Objects) => [...objects.values()].reduce((sum, object) => sum + object.length, 0);

test("finds no fault in a good store, and looks at every byte", async () => {
  const report = await check(good);
  expect(report.faults).toEqual([]);
  expect(report).toEqual({
    commits: 3,
    collected: 0,
    markets: 120,
    objects: good.size,
    bytes: bytesIn(good),
    unreferenced: 0,
    passedOver: 0,
    unchecked: [],
    faults: [],
  });
});

test("counts the bytes of a signed commit, whose note is not of ASCII alone", async () => {
  const objects: Objects = new Map();
  await publishRecords(memoryStorage(objects), recordsOf(0, 3), 700, { signing: { key: testKey() } });
  expect((await verify(memoryStorage(objects), () => {})).bytes).toBe(bytesIn(objects));
});

test("tells once of each object, of however many, without comparing each with all", async () => {
  const count = 1000;
  let looked = 0;
  const remarks = Array.from({ length: count }, (_, n) => ({
    reason: "it is missing",
    get key() {
      looked += 1;
      return `objects/${n}`;
    },
  }));
  const check = new StoreCheck(memoryStorage(new Map()));
  await check.each([remarks, remarks], async (found, part) => void part.faults.push(...found));
  expect(looked).toBeLessThan(10 * count);
  expect(check.faults).toHaveLength(count);
});

describe("names the object", () => {
  test("when a member that it does not know is nested deeper than JSON.stringify can go", async () => {
    const { digest: _, ...run } = JSON.parse(String(good.get(layout.checked)));
    const nested = `${"[".repeat(20_000)}${"]".repeat(20_000)}`;
    for (const [key, content] of [
      [layout.checked, run],
      [layout.collecting("aa"), { keys: [] }],
    ] as const) {
      const text = JSON.stringify({ ...content, more: 0 }).replace('"more":0', `"more":${nested}`);
      const sealed = `${text.slice(0, -1)},"digest":"${sha256(text)}"}`;
      expect(await faultsWith(key, Buffer.from(sealed))).toEqual([key]);
    }
  });

  // A flipped bit of any byte is tried in test/conformance/store.test.ts.
  test("when any object is empty, or longer than it was", async () => {
    for (const [n, [key, bytes]] of some().entries()) {
      const other = n % 2 ? Buffer.alloc(0) : Buffer.concat([bytes, Buffer.from(" ")]);
      expect(await faultsWith(key, other), key).toEqual([key]);
    }
  });

  test("when any object is missing that something else tells of", async () => {
    const commit = JSON.parse(good.get(layout.commit(3))!.toString());
    const newestManifest = layout.manifest(commit.manifest.hash);
    const isEarlierTile = (key: string) => key.startsWith(layout.logTile.prefix) && !key.endsWith(".p/3");
    for (const [key] of some()) {
      // No other record tells of a key or the probe. Earlier snapshots are collected manifest first.
      const collected = key.startsWith(layout.manifest.prefix) && key !== newestManifest;
      const untold =
        key.startsWith(layout.key.prefix) || key === layout.probe || collected || isEarlierTile(key);
      expect(await faultsWith(key, undefined), key).toEqual(untold ? [] : [key]);
    }
  });
});

describe("names the segment", () => {
  test("when a bit of any section is flipped, and all above was hashed again", async () => {
    const { index, bytes: original } = newestSegment(good);
    const { sections } = openSections("segment", original, original.toString("latin1", 0, 8));
    const filled = Object.entries(sections).filter(([, [, length]]) => length > 0);
    expect(filled.length).toBeGreaterThan(18);
    for (const [name, [, length]] of filled) {
      for (const offset of new Set([0, length >> 1, length - 1])) {
        const objects = new Map(good);
        const bytes = Buffer.from(original);
        readSections("segment", bytes)(name)[offset]! ^= 1 << (offset % 7);
        const key = replaceSegment(objects, index, bytes);
        const { faults, unchecked } = await check(objects);
        // A wrong name of a page is told where that page is missed, an unknown encoding as what could not be checked.
        const told = [...faults, ...unchecked].map((fault) =>
          name === "pageHashes" ? fault.reason : fault.key,
        );
        expect(told, `${name}, byte ${offset}`).toEqual([expect.stringContaining(key)]);
      }
    }
  });

  test("of an encoding that this version does not know, among what is not checked", async () => {
    const objects = new Map(good);
    const { index, bytes } = newestSegment(objects);
    const other = Buffer.from(bytes);
    other.writeUInt32LE(2, 12);
    const key = replaceSegment(objects, index, other);
    const reason = "it has encoding 2, which this version does not know: use a newer version of this program";
    expect(await check(objects)).toMatchObject({ faults: [], unchecked: [{ key, reason }] });
  });
});

describe("objects that nothing reaches", () => {
  const stray = Buffer.from("left by a publisher that was stopped");

  test.for([layout.page, layout.segment, layout.manifest, layout.publicObject, layout.privateObject])(
    "are counted, and compared with their names (%#)",
    async (keyOf) => {
      const objects = new Map(good).set(keyOf(sha256(stray)), stray);
      expect(await check(objects)).toMatchObject({ unreferenced: 1, faults: [], objects: good.size + 1 });
      const wrong = keyOf(sha256("something else"));
      expect(await faultsWith(wrong, stray)).toEqual([wrong]);
    },
  );
});

/** Changes a store in which all hashes then agree, and returns the key of the object that is wrong. */
type Tamper = (objects: Objects) => string | Promise<string>;

const market =
  (change: (market: HistoricalMarket) => object): Tamper =>
  async (objects) => {
    const { pages } = await rebuild(objects, ([page]) => {
      page![3] = { ...page![3]!, ...change(page![3]!) };
    });
    return pages[0]!;
  };
const pages =
  (change: (pages: HistoricalMarket[][]) => void): Tamper =>
  async (objects) =>
    (await rebuild(objects, change)).segment;
/** Other bytes in the place of the newest segment's. */
const segment =
  (change: (bytes: Buffer) => Buffer): Tamper =>
  (objects) => {
    const { index, bytes } = newestSegment(objects);
    return replaceSegment(objects, index, change(Buffer.from(bytes)));
  };
const manifest =
  (changes: (objects: Objects) => Changes): Tamper =>
  (objects) =>
    replaceManifest(objects, changes(objects));
const commit =
  (changes: CommitChanges): Tamper =>
  (objects) =>
    replaceCommit(objects, changes);

/** Another text in the place of the histories or the dimensions of a protocol. */
const detail =
  (kind: "histories" | "dimensions", change: (text: string) => string): Tamper =>
  (objects) => {
    const { scores } = newestManifest(objects);
    const key = layout.privateObject(scores[kind].aave!.hash);
    const bytes = Buffer.from(change(String(objects.get(key))));
    const ref = referTo(bytes);
    objects.set(layout.privateObject(ref.hash), bytes);
    replaceManifest(objects, { scores: { ...scores, [kind]: { ...scores[kind], aave: ref } } });
    return layout.privateObject(ref.hash);
  };

const history = (members: object) =>
  detail("histories", (text) => JSON.stringify({ ...JSON.parse(text), ...members }));
type Points = ScoreHistory["points"];
/** A history with other points. */
const points = (change: (...points: [first: Points[number], last: Points[number]]) => Points) =>
  detail("histories", (text) => {
    const all = JSON.parse(text);
    const changed = change(...(all.points as [Points[number], Points[number]]));
    return JSON.stringify({ ...all, points: changed, count: changed.length });
  });

const dimensions = (change: (dimensions: ScoreDimensions) => object) =>
  detail("dimensions", (text) => JSON.stringify(change(JSON.parse(text))));
type Part = ScoreDimensions["dimensions"][number];
const third = (change: (part: Part) => Partial<Part>) =>
  dimensions((all) => ({
    ...all,
    dimensions: all.dimensions.map((part, place) => (place === 3 ? { ...part, ...change(part) } : part)),
  }));

/** Lines of scores that lack a protocol's histories or dimensions. */
const lacking =
  (kind: "histories" | "dimensions"): Tamper =>
  (objects) => {
    const { scores } = newestManifest(objects);
    const { aave: _, ...others } = scores[kind];
    const lines = { ...scores, [kind]: others };
    replaceManifest(objects, { scores: lines });
    return layout.scoreLines(sha256(scoreText(lines)));
  };

describe("where all hashes agree", () => {
  test.for<[what: string, tamper: Tamper]>([
    ["a market with a status", market(() => ({ status: "open" }))],
    ["a market with a field more", market(() => ({ more: 1 }))],
    [
      "a market with a time without milliseconds",
      market(({ resolvedAt }) => ({ resolvedAt: resolvedAt.replace(".000Z", "Z") })),
    ],
    [
      "a market with a weight above 1",
      market(({ dimensions }) => ({ dimensions: dimensions.map((one) => ({ ...one, weight: 2 })) })),
    ],
    ["two markets that change places", pages(([page]) => page!.splice(3, 2, page![4]!, page![3]!))],
    ["a market that comes twice", pages(([page]) => page!.splice(3, 0, page![3]!))],
    ["pages that change places", pages((all) => all.reverse())],
    ["two pages as one", pages((all) => all.splice(0, 2, [...all[1]!, ...all[0]!]))],
    ["a page as two", pages((all) => all.splice(0, 1, all[0]!.slice(20), all[0]!.slice(0, 20)))],
    // The last one is the last byte of the header.
    ...[0, 7, 8, 16, 40, 90, -1].map((at): [string, Tamper] => [
      `a flipped bit in byte ${at} of a segment's header`,
      segment((bytes) => {
        bytes[at < 0 ? 16 + bytes.readUInt32LE(8) + at : at]! ^= 2;
        return bytes;
      }),
    ]),
    ["a segment whose padding is used", segment((bytes) => Buffer.concat([bytes, Buffer.alloc(8, 1)]))],
    ["another newest market", manifest(() => ({ newestResolvedAt: "2025-01-01T00:00:00.000Z" }))],
    ["another newest score", manifest(() => ({ newestUpdatedAt: "2025-01-01T00:00:00.000Z" }))],
    [
      "segments the other way round",
      manifest((objects) => agreeing(newestManifest(objects).segments.reverse())),
    ],
    ...["snapshotId", "archiveRoot", "indexRoot", "scoresRoot"].map((name): [string, Tamper] => [
      `another ${name} than the manifest's`,
      commit({ entry: { [name]: sha256("another") } }),
    ]),
    ["other counts than the manifest's", commit({ entry: { counts: { markets: 120, protocols: 1 } } })],
    ["another predecessor", commit({ previous: sha256("another") })],
    ["a time before the predecessor's", commit({ entry: { publishedAt: "2020-01-01T00:00:00.000Z" } })],
    [
      "a score list that its records do not give",
      (objects) => {
        const { scores } = newestManifest(objects);
        const list = JSON.parse(String(objects.get(layout.publicObject(scores.list.hash))));
        const ref = putPublic(objects, JSON.stringify({ ...list, scores: list.scores.reverse() }));
        objects.set(layout.stableScoreList, objects.get(layout.publicObject(ref.hash))!);
        replaceManifest(objects, { scores: { ...scores, list: ref } });
        replaceManifest(objects, agreeing(newestManifest(objects).segments));
        return layout.publicObject(ref.hash);
      },
    ],
    [
      "a key record under another key's name",
      (objects) => {
        const keys = [...objects.keys()].filter((key) => /^keys\/[0-9a-f]+\.json$/.test(key));
        objects.set(keys[0]!, objects.get(keys[1]!)!);
        return keys[0]!;
      },
    ],
    ["scores that lack a protocol's histories", lacking("histories")],
    ["scores that lack a protocol's dimensions", lacking("dimensions")],
    ["another protocol's history", history({ slug: "curve.fi" })],
    ["a history of other days", history({ days: 8 })],
    ["a history of another count", history({ count: 3 })],
    ["a history without points", points(() => [])],
    ["a history with its newest point first", points((first, last) => [last, first])],
    ["a history with a point twice", points((first, last) => [first, first, last])],
    ["a history that ends otherwise", points((first, last) => [first, { ...last, confidence: 89 }])],
    ["a history that ends before the record", points((first) => [first])],
    [
      "a history that goes back a millisecond too far",
      points((first, last) => [{ ...first, updatedAt: "2026-01-26T08:21:59.228Z" }, last]),
    ],
    ["a tier that is not its number's", points((first, last) => [{ ...first, forgeScaleNum: 5 }, last])],
    ["a point with a member more", points((first, last) => [Object.assign({}, first, { tvl: "$1" }), last])],
    ["another protocol's dimensions", dimensions((all) => ({ ...all, slug: "curve.fi" }))],
    ["dimensions of another time", dimensions((all) => ({ ...all, updatedAt: "2026-02-02T08:21:59.228Z" }))],
    ["dimensions of other evidence", dimensions((all) => ({ ...all, evidenceHash: "sha256:other" }))],
    ["a dimension of another score", third(({ score }) => ({ score: score - 1 }))],
    ["a dimension of another percentile", third(() => ({ percentile: 33 }))],
    ["a percentile that is no integer", third(() => ({ percentile: 0.5 }))],
    ["a dimension that gained more than it has", third(({ score }) => ({ change7d: score + 1 }))],
    ["a dimension that lost more than there is", third(({ score }) => ({ change7d: score - 101 }))],
    ["a dimension less", dimensions((all) => ({ ...all, dimensions: all.dimensions.slice(1) }))],
    [
      "dimensions in another order",
      dimensions((all) => ({ ...all, dimensions: all.dimensions.toReversed() })),
    ],
    [
      "dimensions that changed within a history of one point",
      async (objects) => {
        await points((_, last) => [last])(objects);
        return layout.privateObject(newestManifest(objects).scores.dimensions.aave!.hash);
      },
    ],
  ])("the object with %s is named", async ([, tamper]) => {
    const [keys, key] = await faultsOf(tamper);
    expect(keys).toEqual([key]);
  });

  test.each<[what: string, tamper: Tamper]>([
    ["the same markets", pages(() => {})],
    ["the same history", history({})],
    ["the same dimensions", dimensions((all) => all)],
    [
      "a history that goes back seven days to the millisecond",
      points((first, last) => [{ ...first, updatedAt: "2026-01-26T08:21:59.229Z" }, last]),
    ],
  ])("no object is named for %s", async (_, tamper) => {
    expect((await faultsOf(tamper))[0]).toEqual([]);
  });

  test("what the commit leaves out or counts beyond the manifest is named", async () => {
    const [faults, key] = await faultsOf((objects) =>
      replaceManifest(objects, { segments: newestManifest(objects).segments.slice(1) }, {}),
    );
    expect(faults).toContain(key);
    for (const kind of ["histories", "dimensions"] as const) {
      const [keys] = await faultsOf((objects) => {
        const { scores } = newestManifest(objects);
        const { aave, "curve.fi": curve, ...others } = scores[kind];
        const changed = { ...scores, [kind]: { ...others, aave: curve, "curve.fi": aave } };
        replaceManifest(objects, { scores: changed as Manifest["scores"] }, {});
      });
      expect(keys).toContain(layout.commit(3));
    }
  });

  test("a manifest of a version to come is refused, naming both", async () => {
    const objects = new Map(good);
    const bytes = Buffer.from(JSON.stringify({ ...newestManifest(objects), formatVersion: 7 }));
    const ref = referTo(bytes);
    objects.set(layout.manifest(ref.hash), bytes);
    replaceCommit(objects, { manifest: ref });
    await expect(verify(memoryStorage(objects), () => {})).rejects.toThrow(/version 7.*version 4/);
  });
});
