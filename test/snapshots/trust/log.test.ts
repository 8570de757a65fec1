import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { parseNote, policyOf } from "../../../snapshots/format/note.ts";
import { rollback } from "../../../snapshots/maintain/rollback.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { newestCommit, readCommit } from "../../../snapshots/store/log/commits.ts";
import { seal } from "../../../snapshots/store/objects.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import { signerOf } from "../../../snapshots/trust/log/believe.ts";
import {
  type CheckpointFile,
  openCheckpointFile,
  storedCheckpoint,
} from "../../../snapshots/trust/log/checkpoints.ts";
import { readSignedLog } from "../../../snapshots/trust/log/log-reader.ts";
import { parsePolicy, verifierText } from "../../../snapshots/trust/notes/note-keys.ts";
import { openNote, signatureLine, signNote } from "../../../snapshots/trust/notes/signed-note.ts";
import { judgeNote, newestTrustedFrom, Trust } from "../../../snapshots/trust/trust.ts";
import { market, publishRecords } from "../../helpers/publish/records.ts";
import { testKey } from "../../helpers/store/signing.ts";
import { aroundCalls, countingStorage, memoryStorage } from "../../helpers/store/storages.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";

// What readers and publishers remember of a log, what that costs, and what becomes of a log that others change while a
// run writes. Of a store that somebody altered before, this is in attacks.test.ts.

const folder = testFolder();
const ours = testKey();
const records = [market(1), market(2), market(3)];
type Objects = Map<string, Buffer>;
/** The store at each of seven commits; and the same where those from the fifth on are others. */
const main: Objects[] = [new Map()];
const fork: Objects[] = [];

const signing = { key: ours };
const publishOn = (storage: Storage, bri: number) => publishRecords(storage, records, bri, { signing });

beforeAll(async () => {
  const grow = async (stores: Objects[], from: number) => {
    while (stores.length < 8) {
      const next = new Map(stores.at(-1));
      await publishOn(memoryStorage(next), from + stores.length);
      stores.push(next);
    }
  };
  await grow(main, 600);
  fork.push(...main.slice(0, 5));
  await grow(fork, 610);
});

const witness = testKey("witness.example/w", "", "cosignature-ed25519");
const lines = [`log ${verifierText(ours)}`, `witness w ${verifierText(witness)}`, "quorum w", ""];
/** One that believes no checkpoint which the witness has not cosigned. */
const witnessed = new Trust(parsePolicy(Buffer.from(lines.join("\n")), "policy"));

function readerOf(
  objects: Objects,
  { file, trust = new Trust([ours]) }: { file?: CheckpointFile; trust?: Trust } = {},
) {
  const storage = countingStorage(memoryStorage(objects));
  const reader = readSignedLog(storage, trust, { file, refused: () => {} });
  return { newest: async () => (await reader.newest(undefined))?.entry.commit, storage };
}

test("a look while nothing is new costs three reads", async () => {
  const { newest, storage } = readerOf(main[6]!);
  await newest();
  storage.calls.length = 0;
  await newest();
  const keys = [layout.logCheckpoint, layout.commit(7), layout.commit(6)];
  expect(storage.calls.map(({ key }) => key)).toEqual(keys);
});

test("a look past checkpoints that too few witnesses cosigned lists no names", async () => {
  const objects = new Map(main[7]!);
  const note = String(objects.get(layout.logCheckpointOf(6)));
  const line = signatureLine(witness, parseNote(note).text, 1_700_000_000);
  objects.set(layout.logCheckpointOf(6), Buffer.from(`${note}${line}\n`));
  const { newest, storage } = readerOf(objects, { trust: witnessed });
  for (let poll = 1; poll <= 3; poll += 1) {
    expect(await newest()).toBe(6);
    expect(storage.calls.filter(({ operation }) => operation === "list")).toEqual([]);
    expect(storage.calls.length).toBeLessThan(12);
    storage.calls.length = 0;
  }
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
});

test("a checkpoint file outlives a fork, and is shared by processes that saw the same", async () => {
  const path = join(folder, "checkpoint");
  const file = await openCheckpointFile(path);
  const other = await openCheckpointFile(path);
  const noteOf = (objects: Objects) => objects.get(layout.logCheckpoint)!.toString();
  await file.keep(noteOf(main[1]!));
  expect((await openCheckpointFile(path)).newest?.size).toBe(1);
  await file.keep(noteOf(main[4]!));
  await file.keep(noteOf(main[6]!));
  await file.keep(noteOf(main[5]!));
  expect(file.newest?.size).toBe(6);
  const kept = await readFile(path, "utf8");
  const restarted = await openCheckpointFile(path);
  await expect(readerOf(fork[7]!, { file: restarted }).newest()).rejects.toMatchObject({
    code: "FORKED_LOG",
    message: expect.stringMatching(
      /: it is of 7 entries .* does not continue the log of 6 .* \(FORKED_LOG\)$/,
    ),
  });
  await expect(other.keep(noteOf(fork[6]!))).rejects.toThrow(/holds another checkpoint of 6 entries/);
  expect(await readFile(path, "utf8")).toBe(kept);
  expect(await readerOf(main[7]!, { file: restarted }).newest()).toBe(7);

  // Both faces are kept, as two notes that anybody can check, and the first of them stay.
  const faces = () => readFile(`${path}.forked.json`, "utf8");
  const { remembered, found } = JSON.parse(await faces());
  const checked = (note: string) => judgeNote(policyOf([ours]), note).note;
  expect([remembered, found]).toEqual([checked(noteOf(main[6]!)), checked(noteOf(fork[7]!))]);
  for (const note of [remembered, found]) expect(openNote(note, [ours]).signers).toEqual([ours]);
  await expect(readerOf(fork[6]!, { file: restarted }).newest()).rejects.toMatchObject({
    code: "FORKED_LOG",
  });
  expect(JSON.parse(await faces())).toEqual({ remembered, found });
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

/** A store in which a thief puts a commit of snapshot 1 right above each commit that is made. */
function followed(storage: Storage): Storage {
  return aroundCalls(storage, async (work, { key }, body) => {
    const created = await work();
    if (!body || !key.startsWith(layout.commit.prefix)) return created;
    const { entry, digest } = JSON.parse(String(body));
    const commit = entry.commit + 1;
    const { digest: _, note: __, ...first } = (await readCommit(storage, 1))!;
    const forged = seal({ ...first, entry: { ...first.entry, commit }, previous: digest });
    await storage.putIfAbsent(layout.commit(commit), forged);
    return created;
  });
}

const shown = async (storage: Storage) => String(await storage.get(layout.stableScoreList));
const sizeOf = async (storage: Storage) => String(await storage.get(layout.logCheckpoint)).split("\n")[1];

test("a run that signs shows under the public names what it made, and not what stands above it", async () => {
  const storage = memoryStorage(new Map());
  await publishOn(storage, 601);
  const first = await shown(storage);
  await publishOn(followed(storage), 602);
  expect((await newestCommit(storage))?.entry.commit).toBe(3);
  expect(await shown(storage)).not.toBe(first);
  expect(await shown(storage)).toContain('"bri":602');
  expect(await sizeOf(storage)).toBe("2");

  await storage.delete(layout.commit(3));
  await publishOn(storage, 603);
  await rollback(followed(storage), "2", () => new Date("2026-03-02T00:00:00.000Z"), { signing });
  expect(await shown(storage)).toContain('"bri":602');
  expect(await sizeOf(storage)).toBe("4");
});

test("a checkpoint that another publisher stores or changes meanwhile is merged with one's own", async () => {
  const objects: Objects = new Map();
  const storage = memoryStorage(objects);
  const line = (body: Uint8Array) =>
    `${signatureLine(testKey("other.example"), parseNote(String(Buffer.from(body))).text)}\n`;
  const met = new Set<string>();
  const slow = aroundCalls(storage, (work, { key }, body) => {
    if (body && key.startsWith(layout.logCheckpoint) && !met.has(key)) {
      met.add(key);
      objects.set(key, Buffer.concat([body, Buffer.from(line(body))]));
    }
    return work();
  });
  for (const [bri, size] of [
    [601, 1],
    [602, 2],
  ] as const) {
    met.clear();
    await publishOn(slow, bri);
    const [bySize, newest] = [layout.logCheckpointOf(size), layout.logCheckpoint];
    expect([...met]).toEqual([bySize, newest]);
    for (const at of met) expect(String(objects.get(at)), at).toContain(line(objects.get(at)!));
    expect(objects.get(newest)).toEqual(objects.get(bySize));
  }
});

test("a run signs nothing of a size of which another tree was signed while it waited", async () => {
  const path = join(folder, "waited");
  const other: Objects = new Map();
  await publishOn(memoryStorage(other), 602);
  const bySize = layout.logCheckpointOf(1);
  const storage = memoryStorage(new Map());
  let asked = false;
  const slow = aroundCalls(storage, async (work, { operation, key: name }) => {
    // Read last before the run signs: all that remember a checkpoint have been asked.
    if (operation === "get" && name === bySize && !asked) {
      asked = true;
      await storage.put(bySize, other.get(bySize)!);
    }
    return work();
  });
  const memory = await openCheckpointFile(path);
  await expect(publishRecords(slow, records, 601, { signing: { key: ours, memory } })).rejects.toMatchObject({
    code: "UNTRUSTED_PREDECESSOR",
    message: expect.stringContaining(`${bySize} is signed and names commit 1, root `),
  });
  expect(asked).toBe(true);
  expect(memory.newest).toBeUndefined();
  expect(await storage.get(bySize)).toEqual(other.get(bySize));
});
