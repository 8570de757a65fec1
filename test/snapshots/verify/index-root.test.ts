import { beforeEach, describe, expect, test } from "vitest";
import type { SegmentRef } from "../../../schemas/store/stored-objects.ts";
import { columnsOf } from "../../../snapshots/index/index-header.ts";
import { encodeSegment, readIndexHeader, readPages } from "../../../snapshots/index/segment.ts";
import { rollback } from "../../../snapshots/maintain/rollback.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { Trust } from "../../../snapshots/trust/trust.ts";
import { verify } from "../../../snapshots/verify/verify.ts";
import { decodeRows } from "../../helpers/archive/index-rows.ts";
import { publishRecords, recordsOf } from "../../helpers/publish/records.ts";
import { testKey } from "../../helpers/store/signing.ts";
import { memoryStorage } from "../../helpers/store/storages.ts";
import {
  flipInIndex,
  newestEntry,
  newestManifest,
  type Objects,
  replaceManifest,
  replaceSegment,
  wordsRefOf,
} from "../../helpers/store/tamper.ts";

const key = testKey();
const objects: Objects = new Map();
/** One of them has a label that is rare. */
const records = recordsOf(0, 50).map((one, n) => (n === 7 ? { ...one, category: "Odd" } : one));
const storage = memoryStorage(objects);
let segment: SegmentRef;
let stored: Buffer;

beforeEach(async () => {
  objects.clear();
  await publishRecords(storage, records);
  segment = newestManifest(objects).segments[0]!;
  stored = objects.get(layout.segment(segment.hash))!;
});

/** Signs what the newest commit names, as the owner of the key: a newer commit is rolled back to it. */
async function faultsWhenSigned() {
  await publishRecords(storage, recordsOf(0, 51), undefined, { signing: { key, over: 1 } });
  await rollback(storage, "1", () => new Date("2026-03-02T00:00:00.000Z"), { signing: { key } });
  const { faults } = await verify(storage, () => {}, { trust: new Trust([key]) });
  return faults;
}

describe("An index that lies, of which all hashes, roots and signatures are right, is named:", () => {
  test.each(["composite", "tier", "times", "category.postings"])(
    "a bit of its section %s",
    async (section) => {
      const before = newestEntry(objects).indexRoot;
      const name = flipInIndex(objects, 0, section);
      expect(newestEntry(objects).indexRoot).not.toBe(before);
      const reason = `its index does not match its pages: section ${section}`;
      expect(await faultsWhenSigned()).toContainEqual({ key: name, reason: expect.stringContaining(reason) });
    },
  );

  test.each([
    ["ids", "it does not match the ids of the markets of"],
    ["words", "it does not match the questions of the markets of"],
  ])("a bit of its %s", async (section, told) => {
    const name = flipInIndex(objects, 0, section);
    const { hash } = newestManifest(objects).segments[0]!;
    expect(await faultsWhenSigned()).toEqual([{ key: name, reason: `${told} ${layout.segment(hash)}` }]);
  });

  test("a column with another value", async () => {
    const rows = decodeRows("segment", stored);
    const [first] = rows;
    rows[0] = { ...first!, values: { ...first!.values, composite: first!.values.composite ^ 1 } };
    const lying = encodeSegment(readPages("segment", stored), columnsOf(rows), wordsRefOf(objects, segment));
    const name = replaceSegment(objects, 0, lying);
    const reason = "its index does not match its pages: section composite";
    expect(await faultsWhenSigned()).toEqual([{ key: name, reason }]);
  });

  test("a header that tells of other sections than the segment has", async () => {
    const rows = decodeRows("segment", stored);
    rows.forEach((row, ordinal) => {
      rows[ordinal] = { ...row, values: { ...row.values, tier: 7 } };
    });
    const other = encodeSegment(readPages("segment", stored), columnsOf(rows), wordsRefOf(objects, segment));
    const [own, told] = [stored, other].map((bytes) => readIndexHeader("segment", bytes));
    expect(own!.length).toBe(told!.length);
    const lying = Buffer.from(stored);
    told!.copy(lying, stored.indexOf(own!));
    const name = replaceSegment(objects, 0, lying);
    const reason = "its index does not match its pages: section tier";
    expect(await faultsWhenSigned()).toEqual([{ key: name, reason }]);
  });

  test("a manifest that names another header", async () => {
    const name = replaceManifest(objects, {
      segments: [{ ...segment, index: { ...segment.index, hash: "ab".repeat(32) } }],
    });
    const reason = `it names another index header than ${layout.segment(segment.hash)} has`;
    expect(await faultsWhenSigned()).toEqual([{ key: name, reason }]);
  });

  test("a manifest that names another root of ids", async () => {
    const name = replaceManifest(objects, {
      segments: [{ ...segment, ids: { ...segment.ids, root: "ab".repeat(32) } }],
    });
    const reason = `it names another root of the ids than ${layout.segment(segment.hash)} has`;
    expect(await faultsWhenSigned()).toEqual([{ key: name, reason }]);
  });
});

test("A sound index has no fault when it is signed", async () => {
  expect(await faultsWhenSigned()).toEqual([]);
});
