import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import type { Commit } from "../../../schemas/snapshot.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { appendCommit, readCommit } from "../../../snapshots/store/log/commits.ts";
import { believeSigned } from "../../../snapshots/trust/belief.ts";
import { CheckpointFile } from "../../../snapshots/trust/checkpoint-file.ts";
import { Lineage } from "../../../snapshots/trust/lineage.ts";
import { Trust } from "../../../snapshots/trust/trust.ts";
import { market, publishRecords } from "../../helpers/publish/records.ts";
import { testKey } from "../../helpers/store/signing.ts";
import { countingStorage, memoryStorage } from "../../helpers/store/storages.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";

// A reader remembers a commit. Whatever is newer must lead back to it: who can take commits away can make a publisher
// sign a second history.

const folder = testFolder();
const ours = testKey();
const records = [market(1), market(2), market(3)];
type Objects = Map<string, Buffer>;
/** Seven commits; and as many of which those from the fifth on are others. */
const main: Objects = new Map();
const fork: Objects = new Map();

const publishOn = (objects: Objects, bri: number) =>
  publishRecords(memoryStorage(objects), records, bri, { signing: { key: ours } });
const commitOf = async (objects: Objects, number: number) =>
  (await readCommit(memoryStorage(objects), number))!;

beforeAll(async () => {
  for (const bri of [601, 602, 603, 604]) await publishOn(main, bri);
  for (const [key, bytes] of main) fork.set(key, bytes);
  for (const bri of [605, 606, 607]) await publishOn(main, bri);
  for (const bri of [615, 616, 617]) await publishOn(fork, bri);
});

/** Looks for the newest commit of a store, and counts the commits that were read for it. */
async function look(objects: Objects, known: number | undefined, file?: CheckpointFile) {
  const storage = countingStorage(memoryStorage(objects));
  const belief = believeSigned(storage, new Trust([ours]), { file, refused: () => {} });
  const remembered = known === undefined ? undefined : await commitOf(main, known);
  const newest = () => belief.newest(remembered);
  const reads = () => storage.calls.filter(({ key }) => key.startsWith(layout.commits)).length;
  return { newest, reads };
}

describe("a newer commit", () => {
  test.each([1, 3, 4, 6])("is taken up when it leads back to remembered commit %i", async (known) => {
    expect((await (await look(main, known)).newest())?.commit).toBe(7);
  });

  test.each([5, 6])("is refused when it leads back to another one of number %i", async (known) => {
    const { newest } = await look(fork, known);
    for (let count = 0; count < 2; count += 1)
      await expect(newest()).rejects.toThrow(
        `commits/0000000007.json: it does not lead back to commit ${known}, which was taken up before`,
      );
  });

  test("is refused while a commit in between is missing or replaced, and taken up when that is back", async () => {
    const objects = new Map(main);
    const { newest } = await look(objects, 3);
    for (const broken of [undefined, fork.get(layout.commit(5))!]) {
      objects.delete(layout.commit(5));
      if (broken) objects.set(layout.commit(5), broken);
      await expect(newest()).rejects.toThrow(/does not lead back to commit 3, .*: commits\/0000000005\.json/);
    }
    objects.set(layout.commit(5), main.get(layout.commit(5))!);
    expect((await newest())?.commit).toBe(7);
  });

  test("costs no further read when it is the next one", async () => {
    const { newest, reads } = await look(main, 6);
    await newest();
    // The newest, and that there is none after it.
    expect(reads()).toBe(2);
  });
});

test("a checkpoint file outlives a fork, and is shared by processes that saw the same", async () => {
  const path = join(folder, "checkpoint");
  const file = await CheckpointFile.open(path);
  const other = await CheckpointFile.open(path);
  const noteOf = async (objects: Objects, number: number) => (await commitOf(objects, number)).checkpoint!;
  await file.keep(await noteOf(main, 4));
  await file.keep(await noteOf(main, 6));
  const kept = await readFile(path, "utf8");
  const restarted = await CheckpointFile.open(path);
  await expect((await look(fork, undefined, restarted)).newest()).rejects.toThrow(
    /does not lead back to commit 6/,
  );
  await expect(other.keep(await noteOf(fork, 6))).rejects.toThrow(/holds another commit 6/);
  expect(await readFile(path, "utf8")).toBe(kept);
  expect((await (await look(main, undefined, restarted)).newest())?.commit).toBe(7);
});

describe("a long fork", () => {
  /** Commits up to a number, all but the first of another history than the one that is known. */
  async function forkOf(count: number) {
    const storage = countingStorage(memoryStorage(new Map()));
    const made: Commit[] = [];
    const { checkpoint: _, digest: __, note: ___, ...first } = await commitOf(main, 1);
    const append = async () => {
      const content = { ...first, commit: made.length + 1, previous: made.at(-1)?.digest ?? null };
      made.push(await appendCommit(storage, content));
      return made.at(-1)!;
    };
    for (let number = 1; number <= count; number += 1) await append();
    return { storage, made, append };
  }

  test("is followed once, and then as far as it has grown", async () => {
    const { storage, made, append } = await forkOf(100);
    const lineage = new Lineage(storage);
    const known = { commit: 2, digest: "0".repeat(64) };
    const reads: number[] = [];
    for (const newest of [made.at(-1)!, await append(), await append()]) {
      storage.calls.length = 0;
      await expect(lineage.require(newest, known)).rejects.toThrow("does not lead back to commit 2");
      reads.push(storage.calls.length);
    }
    expect(reads).toEqual([98, 32, 32]);
    await lineage.require(made.at(-1)!, made[1]!);
  });

  test("is not followed without end", async () => {
    const { storage, made } = await forkOf(1);
    storage.calls.length = 0;
    const far = { ...made[0]!, commit: 200_000 };
    await expect(new Lineage(storage).require(far, made[0]!)).rejects.toThrow(
      "commits/0000200000.json: it does not lead back to commit 1, which was taken up before: " +
        "more than 100000 commits lie between",
    );
    expect(storage.calls).toEqual([]);
  });
});
