import { beforeAll, describe, expect, test } from "vitest";
import { publishedSite } from "../../../proxy/site/files.ts";
import { layout, sha256 } from "../../../snapshots/store/layout.ts";
import { StoreCheck } from "../../../snapshots/verify/store-check.ts";
import { type VerifyReport, verify } from "../../../snapshots/verify/verify.ts";
import { publishRecords, recordsOf } from "../../helpers/publish/records.ts";
import { testKey } from "../../helpers/store/signing.ts";
import { memoryStorage } from "../../helpers/store/storages.ts";
import {
  faultyKeys,
  goodStore,
  newestSegment,
  type Objects,
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

/** The keys of the faults found in the good store with one object changed; undefined removes it. */
function faultsWith(key: string, bytes: Buffer | undefined): Promise<string[]> {
  const objects = new Map(good);
  if (bytes) objects.set(key, bytes);
  else objects.delete(key);
  return faultyKeys(objects);
}

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

  test("when any one byte of any object is flipped, or it is cut, or longer than it was", async () => {
    const flip = (bytes: Buffer, n: number) => {
      const offset = Math.floor(((n % 8) * (bytes.length - 1)) / 7);
      const flipped = Buffer.from(bytes);
      flipped[offset]! ^= 1 << (offset % 8);
      return flipped;
    };
    // Objects of a kind take their turns with the changes.
    const changes = [
      flip,
      flip,
      flip,
      (bytes: Buffer) => bytes.subarray(0, -1),
      () => Buffer.alloc(0),
      (bytes: Buffer) => Buffer.concat([bytes, Buffer.from(" ")]),
    ];
    for (const [n, [key, original]] of some().entries()) {
      const bytes = changes[n % changes.length]!(original, Math.floor(n / 3));
      expect(await faultsWith(key, bytes), `${key}, change ${n % changes.length}`).toEqual([key]);
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
  /** The sections of a segment by name: where they begin in its bytes, and their length. */
  function sectionsOf(bytes: Buffer): [name: string, start: number, length: number][] {
    const headerEnd = 16 + bytes.readUInt32LE(8);
    const body = Math.ceil(headerEnd / 8) * 8;
    const header = JSON.parse(bytes.toString("utf8", 16, headerEnd));
    const sections: [string, [number, number]][] = Object.entries(header.sections);
    return sections.map(([name, [offset, length]]) => [name, body + offset, length]);
  }

  test("when a bit of any section is flipped, and all above was hashed again", async () => {
    const { index, bytes: original } = newestSegment(good);
    const sections = sectionsOf(original).filter(([, , length]) => length > 0);
    expect(sections.length).toBeGreaterThan(18);
    for (const [name, start, length] of sections) {
      for (const offset of new Set([0, length >> 1, length - 1])) {
        const objects = new Map(good);
        const bytes = Buffer.from(original);
        bytes[start + offset]! ^= 1 << (offset % 7);
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

  test("when bits of its header are flipped", async () => {
    const { index, bytes: original } = newestSegment(good);
    for (const offset of [0, 7, 8, 16, 40, 90, 15 + original.readUInt32LE(8)]) {
      const objects = new Map(good);
      const bytes = Buffer.from(original);
      bytes[offset]! ^= 2;
      const key = replaceSegment(objects, index, bytes);
      expect(await faultyKeys(objects), `byte ${offset}`).toEqual([key]);
    }
    const objects = new Map(good);
    const bytes = Buffer.from(original);
    bytes.writeUInt32LE(2, 12);
    const key = replaceSegment(objects, index, bytes);
    const reason = "it has encoding 2, which this version does not know: use a newer version of this program";
    expect(await check(objects)).toMatchObject({ faults: [], unchecked: [{ key, reason }] });
  });

  test("when its padding is used", async () => {
    const { index, bytes } = newestSegment(good);
    const objects = new Map(good);
    const key = replaceSegment(objects, index, Buffer.concat([bytes, Buffer.alloc(8, 1)]));
    expect(await faultyKeys(objects)).toEqual([key]);
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

  test.for(["notes.txt", "private/pages/readme.json.gz", "public/api/v1/scores/gone.json", "commits/4.json"])(
    "are faults where a store has no such name: %s",
    async (key) => {
      expect(await faultsWith(key, stray)).toEqual([key]);
    },
  );
});
