import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { Client, ForkedLogError, verifyCheckpoint } from "../../proxy/site/client/client.ts";
import type { Commit } from "../../schemas/store/stored-objects.ts";
import { tilesOf } from "../../snapshots/format/log-tiles.ts";
import { tileEncoder } from "../../snapshots/format/log-tree.ts";
import { leafHash, treeHead } from "../../snapshots/format/tree.ts";
import { layout } from "../../snapshots/store/layout.ts";
import { readLog } from "../../snapshots/store/log/commits.ts";
import { entryOf, tileKey } from "../../snapshots/store/log/public-log.ts";
import { verifierText } from "../../snapshots/trust/notes/note-keys.ts";
import { signatureLine } from "../../snapshots/trust/notes/signed-note.ts";
import { Trust } from "../../snapshots/trust/trust.ts";
import { parsePolicy } from "../../snapshots/trust/witnesses/policy.ts";
import { type CheckedCommit, checkPublicLog } from "../../snapshots/verify/log-check.ts";
import { StoreCheck } from "../../snapshots/verify/store-check.ts";
import { findWitness } from "../helpers/servers/witness.ts";
import { append } from "../helpers/store/appended-commits.ts";
import { testKey } from "../helpers/store/signing.ts";
import { memoryStorage } from "../helpers/store/storages.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

// What test/snapshots/trust/two-faces.test.ts does to the proxy's reader of the log, done to the client, of which
// `sync` and `ask` are made, to `verify`, and to a policy's verifier that others wrote: for every commit of a log of
// 70.

const size = 70;
const key = testKey();
const thief = testKey(key.name, "thief");
const witnesses = [0, 1, 2].map((n) => testKey(`witness.example/w${n}`, "", "cosignature-ed25519"));
const [liar] = witnesses as [(typeof witnesses)[0]];
const policyText = [
  `log ${verifierText(key)}`,
  ...witnesses.map((witness, n) => `witness w${n} ${verifierText(witness)}`),
  "group two 2 w0 w1 w2",
  "quorum two\n",
].join("\n");
const trust = new Trust(parsePolicy(Buffer.from(policyText), "policy"));
const numbers = Array.from({ length: size - 1 }, (_, n) => n + 1);

type Objects = ReadonlyMap<string, Buffer>;
let commits: ReadonlyMap<number, Commit>;
let newest: CheckedCommit;
let entries: readonly Buffer[];
/** The honest log: its commits, tiles and newest checkpoint. */
const honest = new Map<string, Buffer>();

beforeAll(async () => {
  const storage = memoryStorage(honest);
  for (let n = 0; n < size; n += 1) await append(storage);
  const log = await readLog(storage);
  commits = new Map(log.map((commit) => [commit.entry.commit, commit]));
  newest = { commit: log.at(-1)! } as CheckedCommit;
  entries = log.map(entryOf);
  addLog(honest, entries, noteOf(entries));
});

/** A log's checkpoint, by default signed and cosigned by all. */
function noteOf(of: readonly Buffer[], signers = [key, ...witnesses]): string {
  const head = treeHead(of.map((entry) => leafHash(entry)));
  const text = `${key.name}\n${of.length}\n${head.toString("base64")}\n`;
  return `${text}\n${signers.map((signer) => `${signatureLine(signer, text, 1_700_000_000)}\n`).join("")}`;
}

function addLog(objects: Map<string, Buffer>, of: readonly Buffer[], note: string): void {
  const encode = tileEncoder(of);
  for (const tile of tilesOf(of.length)) objects.set(tileKey(tile), encode(tile)!);
  objects.set(layout.logCheckpoint, Buffer.from(note));
}

/** Another history from commit `count` on, up to a length. */
const forked = (count: number, length: number) =>
  Array.from({ length }, (_, n) =>
    n < count ? entries[n]! : Buffer.from(`{"commit":${n + 1},"fork":${count}}`),
  );

/** A client of a service, or static server, that shows these objects. */
const clientOf = (objects: Objects) =>
  new Client({
    url: "http://log.test",
    retries: 0,
    fetch: async (url) => {
      const found = objects.get(`public/log/${String(url).split("/log/")[1]}`);
      return new Response(found && new Uint8Array(found), { status: found ? 200 : 404 });
    },
  });

test("the client takes up no second face, and notices each that differs from what it saw", async () => {
  for (const count of numbers) {
    const fork = forked(count, Math.min(count + 2, size));
    const second = noteOf(fork, [key, liar]);
    const objects = new Map<string, Buffer>();
    addLog(objects, fork, second);
    const client = clientOf(objects);
    // The publisher has the key, and one witness that lies. The thief has none.
    await expect(verifyCheckpoint(second, policyText)).rejects.toThrow("Too few witnesses");
    for (const keys of [policyText, verifierText(key)])
      await expect(verifyCheckpoint(noteOf(fork, [thief, liar]), keys)).rejects.toThrow("None of the keys");
    await verifyCheckpoint(second, verifierText(key));
    for (const seen of new Set([count + 1, fork.length, size]))
      await expect(
        client.requireSameLog(noteOf(entries.slice(0, seen)), second),
        `fork at ${count}, ${seen} seen`,
      ).rejects.toThrow(ForkedLogError);
    // Nobody can tell who saw no more than both have.
    await client.requireSameLog(noteOf(entries.slice(0, count)), second);
  }
});

test("the client notices every checkpoint that is older than the one it saw", async () => {
  const client = clientOf(honest);
  for (const count of numbers) {
    const old = noteOf(entries.slice(0, count));
    for (const seen of new Set([count + 1, size]))
      await expect(client.requireSameLog(noteOf(entries.slice(0, seen)), old)).rejects.toThrow(
        ForkedLogError,
      );
  }
});

test("the client goes on to no log with a swapped or missing hash, and accuses nobody of it", async () => {
  const tile = layout.logTile(`0/000.p/${size}`);
  const now = noteOf(entries);
  const before = noteOf(entries.slice(0, size - 1));
  for (const count of numbers) {
    const bytes = Buffer.from(honest.get(tile)!);
    const [one, next] = [32 * (count - 1), 32 * count];
    const swapped = Buffer.concat([
      bytes.subarray(0, one),
      bytes.subarray(next, next + 32),
      bytes.subarray(one, next),
      bytes.subarray(next + 32),
    ]);
    const flipped = Buffer.from(bytes);
    flipped[one + (count % 32)]! ^= 1 << (count % 8);
    const gap = Buffer.concat([bytes.subarray(0, one), bytes.subarray(next)]);
    for (const altered of [swapped, flipped, gap]) {
      const verdict = clientOf(new Map(honest).set(tile, altered)).requireSameLog(before, now);
      const error = await verdict.catch((thrown: unknown) => thrown);
      expect(error, `tile at ${count}`).toBeInstanceOf(Error);
      expect(error).not.toBeInstanceOf(ForkedLogError);
    }
  }
});

/** The keys of the log's objects that `verify` finds fault with. */
async function faultsOf(objects: Map<string, Buffer>): Promise<Record<string, string>> {
  const check = new StoreCheck(memoryStorage(objects));
  await checkPublicLog(check, commits, newest, trust);
  return Object.fromEntries(check.faults.map(({ key: at, reason }) => [at, reason]));
}

test("verify names every second face, and every altered entry and hash", async () => {
  expect(await faultsOf(honest)).toEqual({});
  const [bundle, tile] = ["entries", "0"].map((level) => layout.logTile(`${level}/000.p/${size}`));
  for (const count of numbers) {
    const objects = new Map(honest);
    if (count % 2 === 0) {
      // The bucket shows its commits as they were, and another log. By turns all witnesses lie.
      const signers = count % 4 === 0 ? [key, liar] : [key, ...witnesses];
      const fork = forked(count, size);
      addLog(objects, fork, noteOf(fork, signers));
      expect(await faultsOf(objects), String(count)).toEqual({
        [layout.logCheckpoint]: expect.stringMatching(
          count % 4 === 0 ? /^the quorum two is not reached/ : /^it is of another log/,
        ),
        [bundle!]: expect.stringContaining("it is not what the commits give"),
        [tile!]: expect.stringContaining("it is not what the commits give"),
      });
    } else {
      const at = count % 4 === 1 ? bundle! : tile!;
      const bytes = Buffer.from(honest.get(at)!);
      bytes[Math.floor((bytes.length * count) / size)]! ^= 1 << (count % 8);
      objects.set(at, bytes);
      expect(Object.keys(await faultsOf(objects)), String(count)).toEqual([at]);
    }
  }
});

const folder = testFolder();
const programs = findWitness();
test.skipIf(!programs)("torchwood's verifier of policies believes none of the second faces", () => {
  const file = join(folder, "policy");
  writeFileSync(file, policyText);
  const faces = numbers.flatMap((count) => {
    const fork = forked(count, Math.min(count + 2, size));
    return [noteOf(fork, [key, liar]), noteOf(fork, [thief, ...witnesses]), noteOf(fork, [key])];
  });
  const notes = [noteOf(entries), ...faces, noteOf(entries.slice(0, 1))];
  const input = notes.map((note) => `${JSON.stringify(note)}\n`).join("");
  const said = execFileSync(programs!.monitor, ["-policy", file], { input, encoding: "utf8" });
  expect(said.trim().split("\n")).toEqual(["true", ...faces.map(() => "false"), "true"]);
});
