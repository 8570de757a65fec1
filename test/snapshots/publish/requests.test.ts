import { expect, test } from "vitest";
import { hashIn, layout } from "../../../snapshots/store/layout.ts";
import { publishRecords, recordsOf } from "../../helpers/publish/records.ts";
import { testKey } from "../../helpers/store/signing.ts";
import { countingStorage, memoryStorage, type StorageCall } from "../../helpers/store/storages.ts";

/** Whether a cache on disk may have an object. */
const isKept = (key: string) => hashIn(key) !== "" && !key.startsWith(layout.manifests);

/** The calls, without those that a cache on disk may spare, as `operation key`. */
const asked = (calls: readonly StorageCall[]) =>
  calls
    .filter(({ operation, key }) => operation !== "get" || !isKept(key))
    .map(({ operation, key }) => `${operation} ${key}`)
    .sort();

const always = [
  `get ${layout.head}`,
  `get ${layout.commit(3)}`,
  // There is none when the run begins, and none when it ends.
  ...[1, 2].map(() => `get ${layout.commit(4)}`),
  `get ${layout.logTile("entries/000.p/3")}`,
  "list private/",
  "list public/",
  `put ${layout.checked}`,
];
const signed = [`get ${layout.checked}`, `get ${layout.logCheckpoint}`];
const told = { siteUrl: "https://scores.example/", license: "https://example.org/license" };

test.for([
  ["without a key", {}, [], 9],
  ["with a key", { signing: { key: testKey() } }, signed, 11],
  [
    "with a key and artefacts",
    { signing: { key: testKey() }, ...told },
    [...signed, `get ${layout.tiers}`],
    12,
  ],
] as const)("a run %s that finds nothing new reads everything once", async ([, choices, more, most]) => {
  const storage = memoryStorage(new Map());
  const publish = (store = storage, bri = 703) => publishRecords(store, recordsOf(0, 60), bri, choices);
  for (const bri of [701, 702, 703]) await publish(storage, bri);
  const counting = countingStorage(storage);
  expect(await publish(counting)).toMatchObject({ outcome: "unchanged", commit: 3 });
  const { calls } = counting;
  const manifest = calls.find(({ key }) => key.startsWith(layout.manifests))!.key;
  expect(asked(calls)).toEqual([...always, ...more, `get ${manifest}`].sort());
  expect(asked(calls).length).toBeLessThanOrEqual(most);
  const kept = calls.filter(({ operation, key }) => operation === "get" && isKept(key)).map(({ key }) => key);
  expect(kept).toEqual([...new Set(kept)]);
});
