import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { compressPage } from "../../../snapshots/format/page.ts";
import { diff } from "../../../snapshots/maintain/diff.ts";
import { type PublishOptions, publish } from "../../../snapshots/publish/publish.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import { verify } from "../../../snapshots/verify/verify.ts";
import { addMarkets } from "../../helpers/archive/odd-markets.ts";
import { publishInParts } from "../../helpers/publish/publish-freely.ts";
import { publishRecords, recordsOf, sourcesOf } from "../../helpers/publish/records.ts";
import { publishSources, writePlainSources } from "../../helpers/publish/sample-sources.ts";
import { contentOf, memoryStorage } from "../../helpers/store/storages.ts";
import {
  goodStore,
  newestManifest,
  putPublic,
  rebuild,
  replaceCommit,
  replaceManifest,
} from "../../helpers/store/tamper.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";
import { faultsOf } from "../../helpers/store/verified.ts";

const folder = testFolder();
const runOptions = { temporaryDirectory: folder, now: () => new Date("2026-03-01T00:00:00.000Z") };
const markets = recordsOf(0, 60);
/** One market is corrected, one is gone, one is new. */
const corrected = [
  ...markets.slice(1, 59).map((each, place) => (place === 30 ? { ...each, composite: 555 } : each)),
  ...recordsOf(60, 61),
];

/** A store with the first markets. */
async function published() {
  const objects = new Map<string, Buffer>();
  const storage = memoryStorage(objects);
  await publishRecords(storage, markets);
  return { objects, storage };
}

/** A run, with what it warned of. */
async function warned<Run extends object>(work: (choices: Pick<PublishOptions, "warn">) => Promise<Run>) {
  const warnings: string[] = [];
  return { ...(await work({ warn: (line) => void warnings.push(line) })), warnings };
}

const first = new Map<string, Buffer>();
let sources: string;
/** A store that has the later snapshot alone, and digests of its objects. */
const later = new Map<string, Buffer>();
let expected: Record<string, string>;
beforeAll(async () => {
  sources = await writePlainSources(join(folder, "sources"), 200);
  await publishSources(sources, memoryStorage(first), folder);
  await addMarkets(sources, 3);
  await publishSources(sources, memoryStorage(later), folder);
  expected = await contentOf(memoryStorage(later));
});

/** Objects of a snapshot, in groups of which none hides damage of another. */
const prefixes = [
  [layout.page.prefix, layout.publicObject.prefix],
  [layout.rows.prefix, layout.privateObject.prefix],
  [layout.ids.prefix, layout.origins.prefix],
  [layout.words.prefix],
  [layout.segment.prefix],
  [layout.sourceFiles.prefix],
  [layout.manifest.prefix],
  [layout.segmentList.prefix],
  [layout.scoreLines.prefix],
].map((group) => ({ group }));

async function flip(storage: Storage, key: string): Promise<void> {
  const bytes = (await storage.get(key))!;
  bytes[bytes.length >> 1]! ^= 1;
  await storage.put(key, bytes);
}

describe("one flipped bit in", () => {
  test.each(prefixes)("$group stops no publish run, which makes anew what it meets", async ({ group }) => {
    const storage = memoryStorage(new Map(first));
    for (const prefix of group) {
      const damaged = [...first.keys()].filter((key) => key.startsWith(prefix));
      expect(damaged).not.toEqual([]);
      for (const key of damaged) await flip(storage, key);
    }
    const { warnings, ...report } = await warned((choices) =>
      publishSources(sources, storage, folder, choices),
    );
    expect(report).toMatchObject({ outcome: "published" });
    const brokenOf = async () => {
      const content = await contentOf(storage);
      const own = Object.keys(expected).filter((key) => /^(manifests|public\/objects|private)\//.test(key));
      return own.filter((key) => content[key] !== expected[key]);
    };
    const told = warnings
      .filter((line) => line.endsWith("does not match its name; it is made again from the sources"))
      .map((line) => line.split(":")[0]!);
    // What only saves reading is made anew without a word.
    const silent: string[] = [layout.origins.prefix, layout.sourceFiles.prefix];
    const prefixesTold = group.filter((prefix) => told.some((key) => key.startsWith(prefix)));
    expect(prefixesTold).toEqual(group.filter((prefix) => !silent.includes(prefix)));
    expect((await brokenOf()).filter((key) => told.includes(key))).toEqual([]);
    // What the run did not meet is found by `verify`, and made anew as `verify --repair` does.
    const { faults } = await verify(storage, () => {});
    await publishSources(sources, storage, folder, { faulty: new Set(faults.map(({ key }) => key)) });
    expect(await brokenOf()).toEqual([]);
  });

  test("a score is told and mended by a run that finds nothing new, whatever a cache has of it", async () => {
    const objects = new Map<string, Buffer>();
    const storage = memoryStorage(objects);
    await publishSources(sources, storage, folder);
    const whole = memoryStorage(new Map(objects));
    const cached: Storage = {
      ...storage,
      get: (key, options) => (options?.fresh ? storage : whole).get(key, options),
    };
    const altered = [...objects.keys()].filter((key) => /^(public|private)\/objects\//.test(key));
    for (const key of altered) await flip(storage, key);
    const { warnings, ...report } = await warned((choices) =>
      publishSources(sources, cached, folder, choices),
    );
    expect(report).toMatchObject({ outcome: "unchanged", uploaded: { objects: altered.length } });
    expect(warnings.map((line) => line.split(":")[0]).sort()).toEqual(altered.sort());
    expect(await faultsOf(storage)).toEqual([]);
  });

  test("no manifest that says more markets than its segments have makes a run take memory for them", async () => {
    const { objects, storage } = await published();
    replaceCommit(objects, { entry: { counts: { markets: 2 ** 40, protocols: 1 } } });
    const { warnings } = await warned((choices) => publishRecords(storage, markets, 700, choices));
    const told = "its lists do not have as many markets as the commit says; it is made again";
    expect(warnings.join()).toContain(told);
  });
});

test.each(prefixes)(
  "$group that is gone or cut short is as it was after a run that finds nothing new",
  async ({ group }) => {
    const keys = group.flatMap((prefix) => [...later.keys()].filter((key) => key.startsWith(prefix)));
    expect(keys).not.toEqual([]);
    const objects = new Map(later);
    for (const [place, key] of keys.entries())
      if (place % 2 === 0) objects.delete(key);
      else objects.set(key, later.get(key)!.subarray(0, 100));
    const report = await publishSources(sources, memoryStorage(objects), folder);
    expect(report).toMatchObject({ outcome: "unchanged", commit: 1 });
    expect(await contentOf(memoryStorage(objects))).toEqual(expected);
  },
);

test("a page with fewer markets than its segment says is made again", async () => {
  const { objects, storage } = await published();
  const fewer = async (lines: readonly Buffer[]) => {
    const { page, stored } = await compressPage(lines.slice(0, -1));
    return { page: { ...page, markets: lines.length }, stored };
  };
  const { pages } = await rebuild(objects, () => {}, fewer);
  const { warnings, ...report } = await warned((choices) => publishRecords(storage, corrected, 700, choices));
  expect(report).toMatchObject({ outcome: "published", commit: 2 });
  expect(warnings.join()).toContain(`${pages[0]}: run 3 does not have as many markets as its table says; `);
});

test("a page that is no JSON, under its own name, is named by a comparison, and made anew by a run", async () => {
  const objects = await goodStore();
  const { pages } = await rebuild(
    objects,
    () => {},
    (lines) => compressPage(lines.map(() => Buffer.from("no market"))),
  );
  const rule = "it has a line that is not a market";
  await expect(diff(memoryStorage(objects), "2", "3")).rejects.toThrow(`${pages[0]}: ${rule}`);
  for (const work of [publish, (options: PublishOptions) => publishInParts(options, 2)]) {
    const options = { ...runOptions, storage: memoryStorage(new Map(objects)) };
    const sources = async () => sourcesOf(recordsOf(0, 117), 720);
    const { warnings, ...report } = await warned((choices) => work({ ...options, sources, ...choices }));
    expect(report).toMatchObject({ outcome: "published", changes: null });
    const told = pages.map((key) => `${key}: ${rule}; it is made again from the sources`);
    expect([...new Set(warnings)]).toEqual(told);
  }
});

test.each(["null", `{"bri":${"[".repeat(20_000)}${"]".repeat(20_000)}}`])(
  "a record of a score that is none, under the right name, is not compared (%#)",
  async (text) => {
    const { objects, storage } = await published();
    const { scores } = newestManifest(objects);
    const damaged = putPublic(objects, text);
    replaceManifest(objects, { scores: { ...scores, records: { ...scores.records, aave: damaged } } });
    const faulty = async () => (await faultsOf(storage)).map(({ key }) => key);
    expect(await faulty()).toContain(layout.publicObject(damaged.hash));
    const { changes } = await publishRecords(storage, markets, 710);
    expect(changes?.protocols).toMatchObject({ changed: 4, fields: { bri: 3 } });
    expect((await diff(storage, "1", "2")).changes.protocols).toEqual(changes?.protocols);
    expect(await faulty()).not.toContain(layout.stableScore("aave"));
  },
);
