import { describe, expect, test } from "vitest";
import type { Manifest, SegmentRef } from "../../../schemas/store/stored-objects.ts";
import { feedVersion, formatVersion } from "../../../schemas/versions.ts";
import { layout, sha256 } from "../../../snapshots/store/layout.ts";
import { divideManifest, readManifest, readScoreText, scoreText } from "../../../snapshots/store/manifest.ts";
import { partsOf, referTo } from "../../../snapshots/store/objects.ts";
import { countingStorage, memoryStorage } from "../../helpers/store/storages.ts";
import type { Objects } from "../../helpers/store/tamper.ts";

const ref = (name: string) => ({ hash: sha256(name), bytes: 100 });

/** The n-th segment of a made-up archive. */
const segment = (n: number): SegmentRef => ({
  ...{ ...ref(`segment ${n}`), markets: 15_000, root: sha256(`root ${n}`) },
  ...{ index: ref(`index ${n}`), rows: ref(`rows ${n}`), words: ref(`words ${n}`) },
  ...{ ids: { ...ref(`ids ${n}`), root: sha256(`ids root ${n}`) }, origins: ref(`origins ${n}`) },
});

/** A manifest of these segments, as a publisher divides it. */
function divide(segments: SegmentRef[]) {
  return divideManifest({
    ...{ formatVersion, rowDigests: "1", sources: ref("sources") },
    ...{ newestResolvedAt: "2026-01-01T00:00:00.000Z", newestUpdatedAt: "2026-01-01T00:00:00.000Z" },
    segments,
    scores: { list: { hash: sha256("list") }, records: {}, histories: {}, dimensions: {} },
  });
}

async function store(objects: Objects, { manifest, stored, parts }: ReturnType<typeof divide>) {
  for (const [key, bytes] of parts) objects.set(key, bytes);
  const own = { hash: sha256(stored), bytes: stored.length };
  objects.set(layout.manifest(own.hash), stored);
  const counts = { markets: manifest.segments.length * 15_000, protocols: 0 };
  return { manifest: own, entry: { feedVersion, counts } };
}

describe("the manifest of 100,000,000 markets", () => {
  const segments = Array.from({ length: 6_700 }, (_, n) => segment(n));
  const before = divide(segments);
  const newIn = (after: ReturnType<typeof divide>) =>
    [...after.parts.keys()].filter((key) => !before.parts.has(key));

  test("is small, and its lists are too", () => {
    expect(before.stored.length).toBeLessThan(48 * 1024);
    const lists = before.manifest.lists.map((list) => list.length);
    expect(Math.max(...lists)).toBeLessThanOrEqual(128);
    expect(lists.length).toBeGreaterThan(6_700 / 48);
    expect(lists.length).toBeLessThan(6_700 / 24);
  });

  test("keeps every list but one when a segment changes, comes or goes", () => {
    const end = 3_000;
    for (const [what, replacement] of [
      ["changes", [segment(7_000)]],
      ["comes", [segments[end]!, segment(7_000)]],
      ["goes", []],
    ] as const) {
      const after = divide([...segments.slice(0, end), ...replacement, ...segments.slice(end + 1)]);
      // Where the end of a list is at stake, the list beside it changes too.
      expect(newIn(after).length, what).toBeLessThanOrEqual(2);
    }
    expect(newIn(divide([...segments, segment(7_000)]))).toHaveLength(1);
    expect(newIn(divide(segments))).toEqual([]);
  });

  test("is read as it was, and beside the one before it only as far as it differs", async () => {
    const objects: Objects = new Map();
    const changed = segments.with(3_000, segment(7_000));
    const [first, second] = [await store(objects, before), await store(objects, divide(changed))];
    const storage = countingStorage(memoryStorage(objects));
    const older = await readManifest(storage, first);
    expect(older).toEqual(before.manifest);
    expect(storage.calls).toHaveLength(1 + partsOf(older).size);
    storage.calls.length = 0;
    const newer = await readManifest(storage, second, older);
    expect(newer.segments).toEqual(changed);
    expect(newer.segments[0]).toBe(older.segments[0]);
    // The manifest and the list; the scores are the same.
    expect(storage.calls).toHaveLength(2);
  });
});

type Parts = Manifest["parts"];
test.each<[string, (parts: Parts, objects: Objects) => Parts, RegExp]>([
  [
    "a list twice",
    ({ lists, scores }) => ({ lists: [...lists, ...lists], scores }),
    /^manifests.*its lists do not/,
  ],
  [
    "a list for its scores",
    ({ lists }) => ({ lists, scores: lists[0]! }),
    /^private\/scores\/.*: it is missing/,
  ],
  [
    "a list of another version",
    ({ lists: [list, ...lists], scores }, objects) => {
      const told = JSON.parse(String(objects.get(layout.segmentList(list!.hash))));
      const other = Buffer.from(JSON.stringify({ ...told, formatVersion: 9 }));
      objects.set(layout.segmentList(sha256(other)), other);
      return { lists: [{ ...list, ...referTo(other) }, ...lists], scores };
    },
    /^private\/lists\/.*version 9.*use a newer version/,
  ],
])("a manifest that names %s is refused", async (_, change, told) => {
  // One that ends a list, and one behind it.
  const some = Array.from({ length: 200 }, (_, n) => segment(n));
  const divided = divide([some.find(({ root }) => /^[02468ace]0/.test(root))!, segment(300)]);
  const objects: Objects = new Map(divided.parts);
  const { lists: _l, segments: _s, scores: _p, ...root } = divided.manifest;
  const stored = Buffer.from(JSON.stringify({ ...root, parts: change(root.parts, objects) }));
  const own = await store(objects, { ...divided, stored });
  await expect(readManifest(memoryStorage(objects), own)).rejects.toThrow(told);
});

describe("lines of scores are refused", () => {
  const hash = (name: string) => sha256(name);
  const lines = [
    `scores ${hash("list")}`,
    ...["score", "history", "dimensions"].flatMap((kind) =>
      ["aave", "constructor"].map((slug) => `${kind} ${slug} ${hash(kind + slug)}`),
    ),
  ];
  const spelled = (these: readonly string[]) => these.map((line) => `${line}\n`).join("");
  const read = (text: string) => readScoreText("private/scores/x", Buffer.from(text));

  test("unless they are as documented", () => {
    const scores = read(spelled(lines));
    expect(scores.histories.constructor).toEqual({ hash: hash("historyconstructor") });
    expect(scoreText(scores)).toBe(spelled(lines));
    expect(read(spelled(lines.slice(0, 1))).records).toEqual({});
  });

  test.each<[string, string]>([
    ["without the list", spelled(lines.slice(1))],
    ["in another order", spelled(lines.with(1, lines[2]!).with(2, lines[1]!))],
    [
      "kind by kind in another order",
      spelled([...lines.slice(0, 3), ...lines.slice(5), ...lines.slice(3, 5)]),
    ],
    ["that come twice", spelled([...lines.slice(0, 2), ...lines.slice(1)])],
    ["of a protocol that has no history", spelled(lines.toSpliced(3, 1))],
    ["of an unknown kind", spelled([...lines, `tier aave ${hash("tier")}`])],
    ["with a hash that is a path", spelled(lines.with(1, "score aave ../../keys/1"))],
    ["with a hash in capitals", spelled(lines.with(1, `score aave ${hash("a").toUpperCase()}`))],
    ["of a slug that is none", spelled(lines).replaceAll(" aave ", " AAVE ")],
    ["of __proto__", spelled(lines).replaceAll(" aave ", " __proto__ ")],
    ["whose last does not end", spelled(lines).slice(0, -1)],
    ["with returns", spelled(lines).replaceAll("\n", "\r\n")],
    ["behind a byte order mark", `\ufeff${spelled(lines)}`],
    ["that are none", ""],
  ])("%s", (_, text) => {
    expect(() => read(text)).toThrow(/^private\/scores\/x: /);
  });
});

// What becomes of a lost part is in test/snapshots/publish/damage.test.ts and test/scripts/sessions/damage.txt.
