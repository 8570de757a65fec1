import { describe, expect, test } from "vitest";
import { hashIn, layout, sha256 } from "../../../snapshots/store/layout.ts";
import { publishRecords, recordsOf } from "../../helpers/publish/records.ts";
import { testKey } from "../../helpers/store/signing.ts";
import { contentOf, countingStorage, memoryStorage, type StorageCall } from "../../helpers/store/storages.ts";

/** Whether a cache on disk may have an object. */
const isKept = (key: string) => hashIn(key) !== "" && !key.startsWith(layout.manifest.prefix);

/** The calls, without those that a cache on disk may spare, as `operation key`. */
const asked = (calls: readonly StorageCall[]) =>
  calls
    .filter(({ operation, key }) => operation !== "get" || !isKept(key))
    .map(({ operation, key }) => `${operation} ${key}`)
    .sort();

const always = [
  `get ${layout.checked}`,
  `get ${layout.commit(3)}`,
  // There is none when the run begins, and none when it ends.
  ...[1, 2].map(() => `get ${layout.commit(4)}`),
  `get ${layout.logTile("entries/000.p/3")}`,
  "list private/",
  "list public/",
  `put ${layout.checked}`,
];
const signing = { key: testKey() };
const signed = [`get ${layout.logCheckpoint}`];
const told = { names: { site: "https://scores.example/", license: "https://example.org/license" } };

/** More than one answer of S3 lists. */
const many = 1001;

/** Adds objects that nothing refers to, so that each folder is listed by itself. */
function crowd(objects: Map<string, Buffer>): void {
  for (const key of [layout.publicObject, layout.page])
    for (let n = 0; n < many; n += 1) objects.set(key(sha256(`${n}`)), Buffer.from("x"));
}

describe("a run that finds nothing new", () => {
  const choices = { signing, ...told };
  /** What each run brings up to date. */
  const mutable = [
    layout.siteIndex,
    layout.siteFile("app.js"),
    layout.siteFile("api.json"),
    layout.stableScoreList,
    layout.stableScore("aave"),
    layout.badge("aave"),
    layout.protocolPage("aave"),
    layout.listEmbed,
    layout.feed,
    layout.apiCatalog,
    layout.logTile("entries/000.p/2"),
    layout.logTile("0/000.p/2"),
    layout.logCheckpointOf(2),
  ];

  test.for([
    ["gone", "few", () => {}],
    ["of another length", "few", () => {}],
    ["of other bytes", "many", crowd],
  ] as const)("mends what is %s over %s objects", async ([how, , fill]) => {
    const objects = new Map<string, Buffer>();
    const storage = memoryStorage(objects);
    for (const bri of [701, 702]) await publishRecords(storage, recordsOf(0, 60), bri, choices);
    fill(objects);
    const whole = await contentOf(storage);
    for (const key of mutable) {
      const bytes = objects.get(key)!;
      if (how === "gone") objects.delete(key);
      else if (how === "of another length") objects.set(key, Buffer.concat([bytes, bytes]));
      else objects.set(key, Buffer.from(bytes.map((byte) => byte ^ 1)));
    }
    // What api.json no longer says is told again.
    const again = await publishRecords(storage, recordsOf(0, 60), 702, choices);
    expect(again).toMatchObject({ outcome: "unchanged", commit: 2 });
    expect(await contentOf(storage)).toEqual(whole);
  });
});

test.for([
  ["without a key", {}, [], 9],
  ["with a key", { signing }, signed, 11],
  ["with a key and artefacts", { signing, ...told }, [...signed, `get ${layout.tiers}`], 12],
] as const)("a run %s that finds nothing new reads everything once", async ([, choices, more, most]) => {
  const storage = memoryStorage(new Map());
  const publish = (store = storage, bri = 703) => publishRecords(store, recordsOf(0, 60), bri, choices);
  for (const bri of [701, 702, 703]) await publish(storage, bri);
  const counting = countingStorage(storage);
  expect(await publish(counting)).toMatchObject({ outcome: "unchanged", commit: 3 });
  const { calls } = counting;
  const manifest = calls.find(({ key }) => key.startsWith(layout.manifest.prefix))!.key;
  expect(asked(calls)).toEqual([...always, ...more, `get ${manifest}`].sort());
  expect(asked(calls).length).toBeLessThanOrEqual(most);
  const kept = calls.filter(({ operation, key }) => operation === "get" && isKept(key)).map(({ key }) => key);
  expect(kept).toEqual([...new Set(kept)]);
});
