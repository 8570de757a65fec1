import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { parseNote } from "../../../snapshots/format/note.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { readCommit } from "../../../snapshots/store/log/commits.ts";
import { seal } from "../../../snapshots/store/objects.ts";
import { CheckpointFile, storedCheckpoint } from "../../../snapshots/trust/log/checkpoints.ts";
import { readSignedLog } from "../../../snapshots/trust/log/log-reader.ts";
import { verifierText } from "../../../snapshots/trust/notes/note-keys.ts";
import { signatureLine, signNote } from "../../../snapshots/trust/notes/signed-note.ts";
import { signerOf } from "../../../snapshots/trust/signing.ts";
import { newestTrustedFrom, Trust } from "../../../snapshots/trust/trust.ts";
import { parsePolicy } from "../../../snapshots/trust/witnesses/policy.ts";
import { market, publishRecords } from "../../helpers/publish/records.ts";
import { testKey } from "../../helpers/store/signing.ts";
import { changedStorage, countingStorage, memoryStorage } from "../../helpers/store/storages.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";
import { faultsOf } from "../../helpers/store/verified.ts";

// A reader remembers a log. Whatever is newer must continue it: who can take commits away can make a publisher sign a
// second history. two-faces.test.ts does all that to a log; here is what readers say of it.

const folder = testFolder();
const ours = testKey();
const records = [market(1), market(2), market(3)];
type Objects = Map<string, Buffer>;
/** The store at each of seven commits; and the same where those from the fifth on are others. */
const main: Objects[] = [new Map()];
const fork: Objects[] = [];

const publishOn = (objects: Objects, bri: number) =>
  publishRecords(memoryStorage(objects), records, bri, { signing: { key: ours } });

/** What the next publish makes of a store. */
async function after(objects: Objects, bri: number): Promise<Objects> {
  const next = new Map(objects);
  await publishOn(next, bri);
  return next;
}

beforeAll(async () => {
  for (const bri of [601, 602, 603, 604, 605, 606, 607]) main.push(await after(main.at(-1)!, bri));
  fork.push(...main.slice(0, 5));
  for (const bri of [615, 616, 617]) fork.push(await after(fork.at(-1)!, bri));
});

const witness = testKey("witness.example/w", "", "cosignature-ed25519");
const lines = [`log ${verifierText(ours)}`, `witness w ${verifierText(witness)}`, "quorum w", ""];
/** One that believes no checkpoint which the witness has not cosigned. */
const witnessed = new Trust(parsePolicy(Buffer.from(lines.join("\n")), "policy"));

/** A reader of a store whose objects can be exchanged. */
function readerOf(objects: Objects, file?: CheckpointFile, trust = new Trust([ours])) {
  const own = new Map(objects);
  const storage = countingStorage(memoryStorage(own));
  const reader = readSignedLog(storage, trust, { file, refused: () => {} });
  const show = (next: Objects) => {
    own.clear();
    for (const [key, bytes] of next) own.set(key, bytes);
  };
  return { newest: async () => (await reader.newest(undefined))?.entry.commit, reader, storage, show, own };
}

/** A reader of a store, which has read what it was at a commit, unless that is 0. */
async function readerAt(commit: number, objects: Objects, trust?: Trust) {
  const reader = readerOf(main[commit]!, undefined, trust);
  if (commit > 0) await reader.newest();
  reader.show(objects);
  reader.storage.calls.length = 0;
  return reader;
}

describe("a newer log", () => {
  test.each([5, 6, 7])(
    "is refused when it continues another one of %i commits, and both are named",
    async (known) => {
      const { newest, show } = readerOf(main[known]!);
      await newest();
      show(fork[7]!);
      const root = "root [0-9a-f]{64}";
      const other = new RegExp(
        `public/log/checkpoint: it is of 7 entries with ${root}, which does not continue the log of ${known} ` +
          `entries with ${root} that was taken up before`,
      );
      const told = { code: "FORKED_LOG", message: expect.stringMatching(other) };
      for (let count = 0; count < 2; count += 1) await expect(newest()).rejects.toMatchObject(told);
      show(main[7]!);
      expect(await newest()).toBe(7);
    },
  );

  test("is not taken up by its commits where these do not give it either", async () => {
    const { newest, own } = readerOf(main[7]!);
    for (const key of [...own.keys()]) if (key.startsWith(layout.logTile.prefix)) own.delete(key);
    own.delete(layout.commit(3));
    await expect(newest()).rejects.toThrow("is not the last one of the signed log of 7 entries");
  });

  test("that lacks a tile is a fork by its commits, and where these are gone too, is damaged and accuses nobody", async () => {
    const { newest, show, own } = readerOf(main[6]!);
    await newest();
    show(fork[7]!);
    for (const key of [...own.keys()]) if (key.startsWith(layout.logTile.prefix)) own.delete(key);
    const reason = "which does not continue the log of 6";
    for (const code of ["FORKED_LOG", "CORRUPT_OBJECT"]) {
      await expect(newest()).rejects.toMatchObject({ code, message: expect.stringContaining(reason) });
      own.delete(layout.commit(3));
    }
  });

  test("costs three reads while nothing is new", async () => {
    const { newest, storage } = readerOf(main[6]!);
    await newest();
    storage.calls.length = 0;
    await newest();
    expect(storage.calls.map(({ key }) => key)).toEqual([
      layout.logCheckpoint,
      layout.commit(7),
      layout.commit(6),
    ]);
  });
});

describe("the newest checkpoint of a store that a witness must have cosigned", () => {
  const noteOf = (size: number, cosigned: boolean) => {
    const text = `${ours.name}\n${size}\n${"A".repeat(43)}=\n`;
    return Buffer.from(signNote(text, ours) + (cosigned ? `${signatureLine(witness, text, 1)}\n` : ""));
  };

  /** Its size, where the one that is shown is not cosigned, and those of these sizes are. */
  async function found(shown: number, cosigned: readonly number[], least?: number) {
    const objects: Objects = new Map([[layout.logCheckpoint, noteOf(shown, false)]]);
    for (let size = 1; size <= shown; size += 1)
      objects.set(layout.logCheckpointOf(size), noteOf(size, false));
    for (const size of cosigned) objects.set(layout.logCheckpointOf(size), noteOf(size, true));
    const { checkpoint, refused } = await storedCheckpoint(memoryStorage(objects), witnessed, least);
    // What stands for the newest is refused where it is not the newest that counts.
    if (checkpoint && checkpoint.size >= shown) expect(refused).toBeUndefined();
    else expect(refused?.message).toMatch(/^public\/log\/checkpoint: the quorum w is not reached/);
    return checkpoint?.size;
  }

  test.each<[string, ...Parameters<typeof found>, number | undefined]>([
    ["the largest below the one that is shown", 5, [1, 2, 4], 0, 4],
    ["that of its size, where a cosignature was taken out of the one that is shown", 5, [1, 4, 5], 0, 5],
    ["the first of all", 5, [1], 0, 1],
    ["none above it, where nobody remembers one", 5, [6], 0, undefined],
    ["none below what is remembered", 3, [2], 3, undefined],
    ["what is remembered", 5, [5], 5, 5],
    ["what is remembered and larger than the one shown", 5, [7, 9], 7, 9],
    ["the largest of all, where nothing else tells what there was", 5, [4, 9], Number.POSITIVE_INFINITY, 9],
    ["one of the 256 largest", 256, [1], 0, 1],
    ["none below the 256 largest", 257, [1], 0, undefined],
  ])("is %s", async (_, shown, cosigned, least, size) => {
    expect(await found(shown, cosigned, least)).toBe(size);
  });

  test.each([
    [255, 1],
    [256, undefined],
  ])("is looked for above %i that anybody put: %s", async (count, size) => {
    const objects: Objects = new Map([[layout.logCheckpointOf(1), noteOf(1, true)]]);
    for (let n = 0; n < count; n += 1) objects.set(layout.logCheckpointOf(9 + n), Buffer.from("x"));
    expect((await storedCheckpoint(memoryStorage(objects), witnessed)).checkpoint?.size).toBe(size);
  });
});

test("a checkpoint file outlives a fork, and is shared by processes that saw the same", async () => {
  const path = join(folder, "checkpoint");
  const file = await CheckpointFile.open(path);
  const other = await CheckpointFile.open(path);
  const noteOf = (objects: Objects) => objects.get(layout.logCheckpoint)!.toString();
  await file.keep(noteOf(main[1]!));
  expect((await CheckpointFile.open(path)).newest?.size).toBe(1);
  await file.keep(noteOf(main[4]!));
  await file.keep(noteOf(main[6]!));
  await file.keep(noteOf(main[5]!));
  expect(file.newest?.size).toBe(6);
  const kept = await readFile(path, "utf8");
  const restarted = await CheckpointFile.open(path);
  await expect(readerOf(fork[7]!, restarted).newest()).rejects.toThrow(
    /does not continue the log of 6 entries/,
  );
  await expect(other.keep(noteOf(fork[6]!))).rejects.toThrow(/holds another checkpoint of 6 entries/);
  expect(await readFile(path, "utf8")).toBe(kept);
  expect(await readerOf(main[7]!, restarted).newest()).toBe(7);
});

describe("a run that is killed between its commit and the checkpoint", () => {
  /** A store after such a run, which wrote some objects of the log. */
  async function killed(survives: (key: string) => boolean): Promise<Objects> {
    const objects = new Map(main[4]!);
    const storage = memoryStorage(objects);
    const live = (key: string) => {
      if (objects.has(layout.commit(5)) && !survives(key)) throw new Error("killed");
      return storage;
    };
    const dying = changedStorage(storage, {
      put: async (key, body) => live(key).put(key, body),
      putIfAbsent: async (key, body) => live(key).putIfAbsent(key, body),
      replace: async (key, body, tag) => live(key).replace(key, body, tag),
    });
    await expect(publishRecords(dying, records, 605, { signing: { key: ours } })).rejects.toThrow("killed");
    return objects;
  }

  test.each([
    ["before its tiles", () => false],
    ["after its tiles", (key: string) => key.startsWith(layout.logTile.prefix)],
  ])(
    "%s leaves readers where they were, and the next run signs, also with nothing new",
    async (_, survives) => {
      for (const bri of [605, 606]) {
        const objects = await killed(survives);
        const { newest, show } = readerOf(main[4]!);
        await newest();
        show(objects);
        expect(await newest()).toBe(4);
        await publishOn(objects, bri);
        show(objects);
        expect(await newest()).toBe(bri === 605 ? 5 : 6);
        expect(await faultsOf(memoryStorage(objects))).toEqual([]);
      }
    },
  );
});

test("a first commit that nobody signed is not taken up, and that is told once", async () => {
  const objects: Objects = new Map();
  await publishRecords(memoryStorage(objects), records, 601);
  const told: string[] = [];
  const refused = ({ message }: Error) => told.push(message);
  const reader = readSignedLog(memoryStorage(objects), new Trust([ours]), { refused });
  for (let count = 0; count < 2; count += 1) expect(await reader.newest(undefined)).toBeUndefined();
  expect(told).toEqual([`${layout.commit(1)}: nobody signed it`]);
});

test("the newest signed commit is found above 99 that nobody did, and not above more", async () => {
  const objects = new Map(main[4]!);
  const storage = memoryStorage(objects);
  const { digest: _, note: __, ...fourth } = (await readCommit(storage, 4))!;
  const sign = signerOf({ key: ours });
  const put = (commit: number, signed: boolean) => {
    const record = { ...fourth, entry: { ...fourth.entry, commit } };
    const stored = signed ? seal(record, (digest) => sign({ ...record, digest })) : Buffer.from("junk");
    objects.set(layout.commit(commit), stored);
  };
  for (let number = 5; number <= 305; number += 1) put(number, number === 104 || number === 204);
  const known = (await readCommit(storage, 4))!;
  const newest = async () => (await newestTrustedFrom(storage, known, new Trust([ours]))).entry.commit;
  expect(await newest()).toBe(204);
  put(305, true);
  expect(await newest()).toBe(204);
  put(304, true);
  expect(await newest()).toBe(305);
});

test("of two publishers at once one commits, and the log has one history", async () => {
  const objects = new Map(main[4]!);
  const runs = await Promise.allSettled([publishOn(objects, 620), publishOn(objects, 621)]);
  expect(runs.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
  const { newest, show } = readerOf(main[4]!);
  await newest();
  show(objects);
  expect(await newest()).toBe(5);
  expect(await faultsOf(memoryStorage(objects))).toEqual([]);
});

// What lies in public/log/ is lost, damaged, or anybody's. Readers take up nothing foreign, stay where they are, and
// read no more than they would otherwise by a bound.

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
  ["checkpoints/ lost", (o) => remove(o, [1, 2, 3, 4, 5, 6, 7].map(logCheckpointOf)), 7, 7],
  ["checkpoint lost", (o) => remove(o, [logCheckpoint]), 7, 7],
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
  ["all tiles lost", (o) => remove(o, all(o.keys()).filter(oneTile)), 7, 7],
  ["all of it huge", (o) => set(o, all(o.keys()), huge), "it is gone", 0],
  ["all tiles huge", (o) => set(o, all(o.keys()).filter(oneTile), huge), 7, 7],
  ["checkpoint huge", (o) => set(o, [logCheckpoint], huge), 7, 7],
  ["checkpoint an older one", (o) => set(o, [logCheckpoint], main[3]!.get(logCheckpoint)), 7, 3],
  [
    "the newest commit huge",
    (o) => set(o, [layout.commit(7)], huge),
    "commits/0000000007",
    "commits/0000000007",
  ],
  [
    "a signed size whose commit is not there",
    (o) => remove(o, [layout.commit(7)]),
    "it is gone",
    "it is gone",
  ],
  ["10,000 junk checkpoints/ above", (o) => set(o, junkNames(10_000)), 7, 7],
  ["the same, and checkpoint lost", (o) => replaceByJunk(o, junkNames(10_000)), 4, 0],
  ["200 junk checkpoints/ above, and checkpoint lost", (o) => replaceByJunk(o, junkNames(200)), 7, 7],
  [
    "checkpoints/ of names that are no sizes",
    (o) =>
      set(
        o,
        ["08", "8x", "x/8"].map((n) => layout.logCheckpointOf.prefix + n),
      ),
    7,
    7,
  ],
];

describe("a reader of a store with", () => {
  test.for(damages)("%s stays where it is, or finds what is good", async ([, damage, ...outcomes]) => {
    for (const [place, known] of [4, 0].entries()) {
      const objects = new Map(main[7]!);
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
    const objects = new Map(main[1]!);
    remove(objects, [logCheckpoint]);
    expect(await (await readerAt(0, objects)).newest()).toBe(1);
  });

  test("a log that was lost reads on after the next publish", async () => {
    const objects = new Map(main[7]!);
    remove(objects, all(objects.keys()));
    await publishOn(objects, 608);
    expect(await faultsOf(memoryStorage(objects))).toEqual([]);
    const { newest } = await readerAt(4, objects);
    expect(await newest()).toBe(8);
  });

  test("checkpoints that too few witnesses cosigned takes the newest one below, and lists no names", async () => {
    const objects = new Map(main[7]!);
    const note = String(objects.get(logCheckpointOf(6)));
    const line = signatureLine(witness, parseNote(note).text, 1_700_000_000);
    objects.set(logCheckpointOf(6), Buffer.from(`${note}${line}\n`));
    const { newest, storage } = await readerAt(0, objects, witnessed);
    expect(await newest()).toBe(6);
    for (const count of [1, 2]) {
      expect(
        storage.calls.filter(({ operation }) => operation === "list"),
        `poll ${count}`,
      ).toEqual([]);
      expect(storage.calls.length).toBeLessThan(12);
      storage.calls.length = 0;
      expect(await newest()).toBe(6);
    }
  });
});
