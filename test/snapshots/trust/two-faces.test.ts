import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { Client, ForkedLogError } from "../../../proxy/site/client/client.ts";
import { tilesOf } from "../../../snapshots/format/log-tiles.ts";
import { GrowingTree, type TreeHead, tileEncoder } from "../../../snapshots/format/log-tree.ts";
import { policyOf } from "../../../snapshots/format/policy.ts";
import { leafHash } from "../../../snapshots/format/tree.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { readCommit, readLog } from "../../../snapshots/store/log/commits.ts";
import { entryOf, tileKey } from "../../../snapshots/store/log/tiles.ts";
import { CheckpointFile } from "../../../snapshots/trust/log/checkpoints.ts";
import { readSignedLog } from "../../../snapshots/trust/log/log-reader.ts";
import { verifierText } from "../../../snapshots/trust/notes/note-keys.ts";
import { openNote, signatureLine } from "../../../snapshots/trust/notes/signed-note.ts";
import { Trust } from "../../../snapshots/trust/trust.ts";
import { judgeNote, parsePolicy } from "../../../snapshots/trust/witnesses/policy.ts";
import { type CheckedCommit, checkPublicLog } from "../../../snapshots/verify/log-check.ts";
import { StoreCheck } from "../../../snapshots/verify/store-check.ts";
import { append } from "../../helpers/store/appended-commits.ts";
import { policyOfTwo, testKey } from "../../helpers/store/signing.ts";
import { memoryStorage } from "../../helpers/store/storages.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";

// A thief has the bucket, and a publisher with the key shows two faces. Witnesses that are honest cosign one face
// alone; one of three here cosigns both. For every commit of a log of 36 every attack is refused by readers with a
// quorum, or by readers that remember. Which checkpoints count, the client and a verifier that others wrote say as we
// do (foreign-verifier.test.ts); how the client follows a log is in test/conformance/log-proofs.test.ts.

const size = 36;
const log = testKey();
const witnesses = [0, 1, 2].map((n) => testKey(`witness.example/w${n}`, "", "cosignature-ed25519"));
const liar = witnesses[2]!;
const vkeys = witnesses.map((key) => ({ vkey: verifierText(key) }));
const policy = parsePolicy(Buffer.from(policyOfTwo(log, vkeys)), "policy");
const keysAlone = policyOf([log]);
const numbers = Array.from({ length: size - 1 }, (_, n) => n + 1);
type Objects = Map<string, Buffer>;
const honest: Objects = new Map();
/** The stores of the second faces, by the last commit that both have. */
const forks = new Map<number, Objects>();
const folder = testFolder();

/** A checkpoint, signed and cosigned by some. */
function noteOf(text: string, signers = [log, ...witnesses]): string {
  const lines = signers.map((signer) => `${signatureLine(signer, text, 1_700_000_000)}\n`);
  return `${text}\n${lines.join("")}`;
}
const textOf = ({ size: entries, head }: TreeHead) => `${log.name}\n${entries}\n${head.toString("base64")}\n`;
const noteAt = (objects: Objects, count: number) => String(objects.get(layout.logCheckpointOf(count)));

/**
 * Puts tiles and checkpoints of the sizes from the first on into a store of commits, and shows the last as the newest.
 */
async function addLog(objects: Objects, first: number, signers?: typeof witnesses): Promise<void> {
  const entries = (await readLog(memoryStorage(objects))).map(entryOf);
  const encode = tileEncoder(entries);
  const tree = new GrowingTree();
  for (const [place, entry] of entries.entries()) {
    tree.append(leafHash(entry));
    if (place + 1 < first) continue;
    for (const tile of tilesOf(place + 1)) objects.set(tileKey(tile), encode(tile)!);
    const note = Buffer.from(noteOf(textOf({ size: place + 1, head: tree.head() }), signers));
    objects.set(layout.logCheckpointOf(place + 1), note);
    objects.set(layout.logCheckpoint, note);
  }
}

/** The store when it had so many commits. */
function honestAt(count: number): Objects {
  const objects = new Map(honest);
  for (let n = count + 1; n <= size; n += 1)
    for (const key of [layout.commit(n), layout.logCheckpointOf(n), ...tilesOf(n).map(tileKey)])
      if (!tilesOf(count).map(tileKey).includes(key)) objects.delete(key);
  objects.set(layout.logCheckpoint, honest.get(layout.logCheckpointOf(count))!);
  objects.delete(layout.checked);
  return objects;
}

/**
 * A store whose log has another end after `count` commits, signed by the log, and cosigned by the witness that lies
 * unless it says otherwise.
 */
async function forkedAt(count: number, more = 2, signers = [log, liar]): Promise<Objects> {
  const objects = honestAt(count);
  const storage = memoryStorage(objects);
  for (let n = 0; n < more; n += 1) await append(storage, { seed: "other" });
  await addLog(objects, count + 1, signers);
  return objects;
}

beforeAll(async () => {
  const storage = memoryStorage(honest);
  for (let n = 0; n < size; n += 1) await append(storage);
  await addLog(honest, 1);
  for (const count of numbers) forks.set(count, await forkedAt(count));
});

/** What a reader takes up: the number of a commit, or the error's name. */
async function take(objects: Objects, by = policy, before?: number, file?: CheckpointFile) {
  const shown = before === undefined ? objects : honestAt(before);
  const own = new Map(shown);
  const told: string[] = [];
  const reader = readSignedLog(memoryStorage(own), new Trust(by), {
    file,
    refused: (error) => told.push(error.message),
  });
  if (before !== undefined) {
    expect((await reader.newest(undefined))?.entry.commit).toBe(before);
    await reader.remember();
    own.clear();
    for (const [key, bytes] of objects) own.set(key, bytes);
  }
  const taken = await reader.newest(undefined).then(
    (commit) => commit?.entry.commit,
    (error: Error & { code?: string }) => error.code,
  );
  return { taken, told, refusal: reader.refusal() };
}

/** The text of a checkpoint, without its signatures. */
const textIn = (note: string) => note.slice(0, note.indexOf("\n\n") + 1);

/** A client of a service, or static server, that shows these objects. */
const clientOf = (objects: Objects) =>
  new Client({
    url: "http://log.test",
    retries: 0,
    fetch: async (url) => {
      const found = objects.get(`${layout.log}${String(url).split("/log/")[1]}`);
      return new Response(found && new Uint8Array(found), { status: found ? 200 : 404 });
    },
  });

describe("for every commit of a log", () => {
  test("a second face is taken up by no reader with a quorum, and noticed by every reader that saw the first", async () => {
    for (const [count, fork] of forks) {
      // What both faces share has its witnesses.
      const fresh = await take(fork);
      expect([count, fresh.taken]).toEqual([count, count]);
      expect(fresh.told).toEqual([fresh.refusal]);
      // Without witnesses nobody can tell, who has not seen the other one.
      expect((await take(fork, keysAlone)).taken).toBe(count + 2);
      const last = Math.min(count + 2, size);
      for (const seen of [count + 1, last])
        expect([count, seen, (await take(fork, keysAlone, seen)).taken]).toEqual([count, seen, "FORKED_LOG"]);
      expect((await take(fork, policy, last)).taken).toBe("CORRUPT_OBJECT");
    }
  }, 120_000);

  test("what is cut off or replayed is noticed by every reader that saw more, and what goes on is taken up", async () => {
    for (const count of numbers) {
      expect([count, (await take(honest, keysAlone, count)).taken]).toEqual([count, size]);
      const cut = honestAt(count);
      for (const by of [policy, keysAlone]) {
        expect((await take(cut, by)).taken).toBe(count);
        expect([count, (await take(cut, by, count + 1)).taken]).toEqual([count, "CORRUPT_OBJECT"]);
      }
      // All objects but the signed ones.
      const replayed = new Map(honest);
      for (let n = count + 1; n <= size; n += 1) replayed.delete(layout.logCheckpointOf(n));
      replayed.set(layout.logCheckpoint, honest.get(layout.logCheckpointOf(count))!);
      expect([count, (await take(replayed, policy, size)).taken]).toEqual([count, "CORRUPT_OBJECT"]);
      replayed.delete(layout.logCheckpoint);
      expect([count, (await take(replayed, policy, size)).taken]).toEqual([count, "CORRUPT_OBJECT"]);
    }
  }, 120_000);

  test("a gap and a swapped commit are refused by every reader, and a swapped hash in a tile stops none", async () => {
    const tile = layout.logTile(`0/000.p/${size}`);
    const other = await forkedAt(1, size - 1);
    for (const count of numbers) {
      const objects = honestAt(count);
      objects.delete(layout.commit(count));
      expect([count, (await take(objects)).taken]).toEqual([count, "CORRUPT_OBJECT"]);
      if (count > 1) {
        objects.set(layout.commit(count), other.get(layout.commit(count))!);
        expect([count, (await take(objects)).taken]).toEqual([count, "CORRUPT_OBJECT"]);
      }
      const swapped = new Map(honest);
      const bytes = Buffer.from(swapped.get(tile)!);
      bytes[(count - 1) * 32]! ^= 1;
      swapped.set(tile, bytes);
      expect([count, (await take(swapped)).taken]).toEqual([count, size]);
      expect([count, (await take(swapped, keysAlone, size - 1)).taken]).toEqual([count, size]);
      // Where neither commits nor entries tell it, tiles that are damaged accuse nobody.
      swapped.delete(layout.commit(count));
      for (const key of honest.keys())
        if (key.startsWith(`${layout.logTile.prefix}entries/`)) swapped.delete(key);
      expect([count, (await take(swapped, keysAlone, size - 1)).taken]).toEqual([count, "CORRUPT_OBJECT"]);
    }
  }, 120_000);

  test("the client goes on to no log with a swapped or missing hash, and accuses nobody of it", async () => {
    const tile = layout.logTile(`0/000.p/${size}`);
    for (const count of numbers) {
      const bytes = Buffer.from(honest.get(tile)!);
      const [one, next] = [32 * (count - 1), 32 * count];
      const [before, hash, after] = [bytes.subarray(0, one), bytes.subarray(one, next), bytes.subarray(next)];
      const swapped = Buffer.concat([before, after.subarray(0, 32), hash, after.subarray(32)]);
      const flipped = Buffer.from(bytes);
      flipped[one + (count % 32)]! ^= 1 << (count % 8);
      const gap = Buffer.concat([before, after]);
      for (const altered of [swapped, flipped, gap]) {
        const client = clientOf(new Map(honest).set(tile, altered));
        const verdict = client.requireSameLog(noteAt(honest, size - 1), noteAt(honest, size));
        const error = await verdict.catch((thrown: unknown) => thrown);
        expect(error, `tile at ${count}`).toBeInstanceOf(Error);
        expect(error).not.toBeInstanceOf(ForkedLogError);
      }
    }
  });

  test("verify names the second face, and an altered entry and hash", async () => {
    const [bundle, tile] = ["entries", "0"].map((level) => layout.logTile(`${level}/000.p/${size}`));
    const shown = [layout.logCheckpoint, ...tilesOf(size).map(tileKey)];
    const commits = [...honest].filter(([key]) => key.startsWith(layout.commit.prefix));
    const showing = (objects: Objects) =>
      new Map([...commits, ...shown.map((key) => [key, objects.get(key)!] as const)]);
    const all = new Map(
      (await readLog(memoryStorage(honest))).map((commit) => [commit.entry.commit, commit]),
    );
    /** The keys of the log's objects that `verify` finds fault with. */
    const faultsOf = async (objects: Objects): Promise<Record<string, string>> => {
      const check = new StoreCheck(memoryStorage(objects));
      await checkPublicLog(check, all, { commit: all.get(size)! } as CheckedCommit, new Trust(policy));
      return Object.fromEntries(check.faults.map(({ key, reason }) => [key, reason]));
    };
    expect(await faultsOf(showing(honest))).toEqual({});
    for (const count of numbers) {
      if (count % 2 === 0) {
        // The bucket shows its commits as they were, and another log. By turns all witnesses lie.
        const few = count % 4 === 0;
        const fork = await forkedAt(count, size - count, few ? undefined : [log, ...witnesses]);
        expect(await faultsOf(showing(fork)), String(count)).toEqual({
          [layout.logCheckpoint]: expect.stringMatching(
            few ? /^the quorum two is not reached/ : /^it is of another log/,
          ),
          [bundle!]: expect.stringContaining("it is not what the commits give"),
          [tile!]: expect.stringContaining("it is not what the commits give"),
        });
      } else {
        const at = count % 4 === 1 ? bundle! : tile!;
        const bytes = Buffer.from(honest.get(at)!);
        bytes[Math.floor((bytes.length * count) / size)]! ^= 1 << (count % 8);
        expect(Object.keys(await faultsOf(showing(honest).set(at, bytes))), String(count)).toEqual([at]);
      }
    }
  });
});

test("two faces are kept, as two notes that anybody can check, and the first of them stay", async () => {
  const path = join(folder, "checkpoint");
  const fork = forks.get(3)!;
  for (const objects of [fork, await forkedAt(2, 3)]) {
    const file = await CheckpointFile.open(path);
    expect((await take(objects, keysAlone, 5, file)).taken).toBe("FORKED_LOG");
  }
  const { remembered, found } = JSON.parse(await readFile(`${path}.forked.json`, "utf8"));
  expect(remembered).toBe(judgeNote(keysAlone, noteAt(honest, 5)).note);
  expect(textIn(found)).toBe(textIn(noteAt(fork, 5)));
  for (const note of [remembered, found])
    expect(openNote(judgeNote(keysAlone, note).note, [log]).signers).toEqual([log]);
  const restarted = await CheckpointFile.open(path);
  const reader = readSignedLog(memoryStorage(fork), new Trust(keysAlone), {
    file: restarted,
    refused: () => {},
  });
  await expect(reader.newest(undefined)).rejects.toMatchObject({
    code: "FORKED_LOG",
    evidence: `${path}.forked.json`,
    message: expect.stringMatching(
      /: it is of 5 entries .* does not continue the log of 5 entries .* \(FORKED_LOG\)$/,
    ),
  });
  expect(await readCommit(memoryStorage(fork), 5)).toBeDefined();
});
