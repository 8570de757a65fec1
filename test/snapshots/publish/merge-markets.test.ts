import { createHash } from "node:crypto";
import { tmpdir } from "node:os";
import { crc32 } from "node:zlib";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { filterValuesOf } from "../../../schemas/filters.ts";
import type { Manifest } from "../../../schemas/snapshot.ts";
import { cuts } from "../../../snapshots/format/cuts.ts";
import type { MarketKey } from "../../../snapshots/format/market-line.ts";
import type { Sources } from "../../../snapshots/sources/sources.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { newestCommit } from "../../../snapshots/store/log/commits.ts";
import { readManifest } from "../../../snapshots/store/manifest.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import { publishFreely } from "../../helpers/publish/publish-freely.ts";
import { market, sourceFileOf, sourcesOf } from "../../helpers/publish/records.ts";
import { changedStorage, listed, memoryStorage } from "../../helpers/store/storages.ts";

/** A market as these tests need it: its place, and what tells one content from another. */
interface Row extends MarketKey {
  content: number;
}

const values = filterValuesOf(market(1));

/** Sources of these rows; those that are known are found by their digests. */
function sourcesOfRows(rows: readonly Row[]): Sources {
  return {
    ...sourcesOf([], 700),
    files: [sourceFileOf(rows)],
    marketCount: rows.length,
    async *markets(known) {
      const ordinals = new Map<bigint, number>();
      for await (const { start, digests } of known?.digests ?? [])
        for (const [place, digest] of digests.entries()) ordinals.set(digest, start + place);
      yield rows.flatMap(({ id, resolvedAt, content }) => {
        const question = `Is "${content}" said of ${id.slice(-2)}?`;
        const time = new Date(resolvedAt).toISOString();
        const told = {
          category: "x",
          composite: 500,
          tier: "CAST",
          content,
          resolvedAt: time,
          formulaVersion: "f",
        };
        const json = Buffer.from(JSON.stringify({ id, question, ...told }));
        const digest = createHash("sha256").update(json).digest().readBigUInt64LE();
        const ordinal = ordinals.get(digest);
        if (ordinal === undefined) return [{ id, resolvedAt, digest, json, values, file: 1 }];
        known!.kept[ordinal] = 1;
        return [];
      });
    },
  };
}

async function publishRows(storage: Storage, rows: readonly Row[]): Promise<Manifest> {
  const now = () => new Date("2026-03-01T00:00:00.000Z");
  await publishFreely({
    storage,
    temporaryDirectory: tmpdir(),
    now,
    sources: async () => sourcesOfRows(rows),
  });
  return readManifest(storage, (await newestCommit(storage))!.manifest);
}

/** What the second content gives on top of the first must be what it gives alone. */
async function expectSameAsAlone(first: readonly Row[], second: readonly Row[]) {
  const storage = memoryStorage(new Map());
  await publishRows(storage, first);
  const pages = new Set((await listed(storage, layout.pages)).map(({ key }) => key));
  const read = new Set<string>();
  const get: Storage["get"] = (key, options) => {
    read.add(key);
    return storage.get(key, options);
  };
  const manifest = await publishRows(changedStorage(storage, { get }), second);
  expect(manifest).toEqual(await publishRows(memoryStorage(new Map()), second));
  return { manifest, pagesRead: pages.intersection(read).size };
}

const endsPage = (id: string) => crc32(id) % cuts.pageModulus === 0;
const endsSegment = (id: string) =>
  endsPage(id) && Math.floor(crc32(id) / cuts.pageModulus) % cuts.segmentModulus === 0;

/** Ids of one kind, each once; `from` keeps kinds apart. */
function idsOf(count: number, from: number, wanted: (id: string) => boolean): string[] {
  const ids: string[] = [];
  for (let number = from; ids.length < count; number += 1) {
    const id = String(number).padStart(36, "0"); // as long as a UUID, which pages rely on
    if (wanted(id)) ids.push(id);
  }
  return ids;
}

const pool = [
  ...idsOf(900, 0, (id) => !endsPage(id)),
  ...idsOf(60, 1_000_000, (id) => endsPage(id) && !endsSegment(id)),
  ...idsOf(12, 2_000_000, endsSegment),
];

/** Rows of the pool before and after some edits. Many are of few moments, so that ids decide the order. */
function drawn({ seed, moments, share }: { seed: number; moments: number; share: number }) {
  const draw = (what: string, id: string, range: number) => crc32(`${seed} ${what} ${id}`) % range;
  const at = (what: string, id: string) => Date.UTC(2025, 0, 1, draw(what, id, moments));
  const taken = (id: string) => draw("taken", id, 100) < share;
  const first = pool.filter(taken).map((id) => ({ id, resolvedAt: at("first", id), content: 0 }));
  const second = pool.flatMap((id) => {
    const edit = draw("edit", id, 600);
    const resolvedAt = at(edit === 0 ? "second" : "first", id);
    if (edit === 1) return taken(id) ? [] : [{ id, resolvedAt, content: 0 }];
    return taken(id) ? [{ id, resolvedAt, content: edit === 2 ? 1 : 0 }] : [];
  });
  return { first, second };
}

describe("an increment gives what its sources give alone", () => {
  test("whatever comes, goes, changes and moves, and wherever pages and segments end", async () => {
    const draws = fc.record({
      seed: fc.nat(),
      moments: fc.integer({ min: 1, max: 2000 }),
      share: fc.integer({ min: 20, max: 99 }),
    });
    await fc.assert(
      fc.asyncProperty(draws, async (draw) => {
        const { first, second } = drawn(draw);
        await expectSameAsAlone(first, second);
      }),
      { numRuns: 15 },
    );
  });

  test("where segments end for their size, and an early market moves these ends", async () => {
    const at = (place: number) => Date.UTC(2025, 0, 1) + place * 1000;
    const ids = idsOf(70_000, 3_000_000, (id) => !endsSegment(id));
    const first = ids.map((id, place) => ({ id, resolvedAt: at(place), content: 0 }));
    const early = { id: idsOf(1, 2_000_000, endsSegment)[0]!, resolvedAt: at(999.5), content: 0 };
    const { manifest, pagesRead } = await expectSameAsAlone(first, [early, ...first]);
    expect(manifest.segments.map(({ markets }) => markets > 60_000)).toEqual([false, true, false]);
    // Around that market, and where segments end.
    expect(pagesRead).toBeLessThan(10);
  });
});
