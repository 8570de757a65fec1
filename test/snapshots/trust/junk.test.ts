import { beforeAll, describe, expect, test } from "vitest";
import { parseNote } from "../../../snapshots/format/note.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { readSignedLog } from "../../../snapshots/trust/log/log-reader.ts";
import { verifierText } from "../../../snapshots/trust/notes/note-keys.ts";
import { signatureLine } from "../../../snapshots/trust/notes/signed-note.ts";
import { Trust } from "../../../snapshots/trust/trust.ts";
import { parsePolicy } from "../../../snapshots/trust/witnesses/policy.ts";
import { market, publishRecords } from "../../helpers/publish/records.ts";
import { testKey } from "../../helpers/store/signing.ts";
import { countingStorage, memoryStorage } from "../../helpers/store/storages.ts";
import { faultsOf } from "../../helpers/store/verified.ts";

// What lies in public/log/ is lost, damaged, or anybody's. Readers take up nothing foreign, stay where they are, and
// read no more than they would otherwise by a bound.

const ours = testKey();
const witness = testKey("witness.example/w", "", "cosignature-ed25519");
type Objects = Map<string, Buffer>;
/** The store at each of six commits. */
const at: Objects[] = [new Map()];

const publishOn = (objects: Objects, bri: number) =>
  publishRecords(memoryStorage(objects), [market(1)], bri, { signing: { key: ours } });

beforeAll(async () => {
  for (const bri of [601, 602, 603, 604, 605, 606]) {
    const next = new Map(at.at(-1)!);
    await publishOn(next, bri);
    at.push(next);
  }
});

/** A reader of a store, which begins as it was at a commit, or empty. */
async function readerAt(commit: number, objects: Objects, trust = new Trust([ours])) {
  const shown = new Map(at[commit]!);
  const storage = countingStorage(memoryStorage(shown));
  const reader = readSignedLog(storage, trust, { refused: () => {} });
  if (commit > 0) await reader.newest(undefined);
  shown.clear();
  for (const [key, bytes] of objects) shown.set(key, bytes);
  storage.calls.length = 0;
  return { newest: async () => (await reader.newest(undefined))?.entry.commit, storage };
}

const huge = Buffer.alloc(1024 * 1024, "x");
const { logCheckpoint, logCheckpointOf } = layout;
const all = (keys: Iterable<string>) => [...keys].filter((key) => key.startsWith(layout.log));
const junkNames = (count: number) =>
  Array.from({ length: count }, (_, n) => logCheckpointOf(9_999_999_999 - n));
const oneTile = (key: string) => key.startsWith(layout.logTile.prefix);
const set = (
  objects: Objects,
  keys: Iterable<string>,
  bytes: Buffer = Buffer.from("anybody's\n\n— x eHh4eHg=\n"),
) => {
  for (const key of keys) objects.set(key, bytes);
};
const remove = (objects: Objects, keys: Iterable<string>) => {
  for (const key of keys) objects.delete(key);
};

const replaceByJunk = (objects: Objects, keys: Iterable<string>) => {
  remove(objects, [logCheckpoint]);
  set(objects, keys);
};

/** What becomes of the newest store, and the commit that a reader has then that knew commit 4, or knew none. */
const damages: [
  name: string,
  damage: (objects: Objects) => void,
  knew4: number | string,
  knewNone: number | string,
][] = [
  ["checkpoints/ lost", (o) => remove(o, [1, 2, 3, 4, 5, 6].map(logCheckpointOf)), 6, 6],
  ["checkpoint lost", (o) => remove(o, [logCheckpoint]), 6, 6],
  [
    "both lost",
    (o) =>
      remove(
        o,
        all(o.keys()).filter((key) => !oneTile(key)),
      ),
    "it is gone",
    0,
  ],
  ["all of public/log/ lost", (o) => remove(o, all(o.keys())), "it is gone", 0],
  // The commits tell the same.
  ["all tiles lost", (o) => remove(o, all(o.keys()).filter(oneTile)), 6, 6],
  ["all of it huge", (o) => set(o, all(o.keys()), huge), "it is gone", 0],
  ["all tiles huge", (o) => set(o, all(o.keys()).filter(oneTile), huge), 6, 6],
  ["checkpoint huge", (o) => set(o, [logCheckpoint], huge), 6, 6],
  ["checkpoint an older one", (o) => set(o, [logCheckpoint], at[3]!.get(logCheckpoint)), 6, 3],
  [
    "the newest commit huge",
    (o) => set(o, [layout.commit(6)], huge),
    "commits/0000000006",
    "commits/0000000006",
  ],
  [
    "a signed size whose commit is not there",
    (o) => remove(o, [layout.commit(6)]),
    "it is gone",
    "it is gone",
  ],
  ["10,000 junk checkpoints/ above", (o) => set(o, junkNames(10_000)), 6, 6],
  ["the same, and checkpoint lost", (o) => replaceByJunk(o, junkNames(10_000)), 4, 0],
  ["200 junk checkpoints/ above, and checkpoint lost", (o) => replaceByJunk(o, junkNames(200)), 6, 6],
  [
    "checkpoints/ of names that are no sizes",
    (o) =>
      set(
        o,
        ["07", "7x", "x/7"].map((n) => layout.logCheckpointOf.prefix + n),
      ),
    6,
    6,
  ],
];

describe("a reader of a store with", () => {
  test.for(damages)("%s stays where it is, or finds what is good", async ([, damage, ...outcomes]) => {
    for (const [place, known] of [4, 0].entries()) {
      const objects = new Map(at[6]!);
      damage(objects);
      const { newest, storage } = await readerAt(known, objects);
      const found = await newest().catch((error) => String(error));
      const outcome = outcomes[place]!;
      if (typeof outcome === "number") expect(found ?? 0).toBe(outcome);
      else expect(found).toContain(outcome);
      expect(storage.calls.length).toBeLessThan(300);
    }
  });

  test("a log of one commit, and checkpoint lost, finds it by its size", async () => {
    const objects = new Map(at[1]!);
    remove(objects, [logCheckpoint]);
    expect(await (await readerAt(0, objects)).newest()).toBe(1);
  });

  test("a log that was lost reads on after the next publish", async () => {
    const objects = new Map(at[6]!);
    remove(objects, all(objects.keys()));
    await publishOn(objects, 607);
    expect(await faultsOf(memoryStorage(objects))).toEqual([]);
    const { newest } = await readerAt(4, objects);
    expect(await newest()).toBe(7);
  });

  test("checkpoints that too few witnesses cosigned takes the newest one below, and lists no names", async () => {
    const policy = `log ${verifierText(ours)}\nwitness w ${verifierText(witness)}\nquorum w\n`;
    const trust = new Trust(parsePolicy(Buffer.from(policy), "policy"));
    const objects = new Map(at[6]!);
    const note = String(objects.get(logCheckpointOf(5)));
    const line = signatureLine(witness, parseNote(note).text, 1_700_000_000);
    objects.set(logCheckpointOf(5), Buffer.from(`${note}${line}\n`));
    const { newest, storage } = await readerAt(0, objects, trust);
    expect(await newest()).toBe(5);
    for (const count of [1, 2]) {
      expect(
        storage.calls.filter(({ operation }) => operation === "list"),
        `poll ${count}`,
      ).toEqual([]);
      expect(storage.calls.length).toBeLessThan(12);
      storage.calls.length = 0;
      expect(await newest()).toBe(5);
    }
  });
});
