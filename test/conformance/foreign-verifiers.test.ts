import { writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { IntegrityError, verifyCheckpoint, verifyProof } from "../../proxy/site/client/client.ts";
import { NoteError, NoteKeyError } from "../../snapshots/format/note.ts";
import { headFrom, leafHash, treeHead } from "../../snapshots/format/tree.ts";
import {
  parsePolicy,
  parseVerifierKey,
  type SigningKey,
  verifierText,
} from "../../snapshots/trust/notes/note-keys.ts";
import { signatureLine } from "../../snapshots/trust/notes/signed-note.ts";
import { judgeNote, Trust } from "../../snapshots/trust/trust.ts";
import { type LogProof, randomProofs } from "../helpers/archive/random-proofs.ts";
import { findWitness } from "../helpers/servers/witness.ts";
import { alteredText } from "../helpers/store/altered.ts";
import { isConsistent } from "../helpers/store/consistency.ts";
import { drawing } from "../helpers/store/drawing.ts";
import { testKey } from "../helpers/store/signing.ts";
import { testFolder } from "../helpers/store/test-folder.ts";
import { python, pythonSays, ranProgram } from "./python.ts";

// Verifiers that others wrote, or that were written from the specification alone, say of each proof what ours say. What
// the client makes of logs by their tiles is in log-proofs.test.ts.

// SEED gives the proofs of a run again, and PROOFS so many of them.
const count = Number(process.env.PROOFS ?? 200);
const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 2 ** 31));
const proofs = await randomProofs(count, seed);
const programs = findWitness();

/** What a verifier finds: the signature right, the entry in the log, the log a continuation of the one before. */
interface Verdict {
  note: boolean;
  inclusion: boolean;
  consistency: boolean;
}

const nothing: Verdict = { note: false, inclusion: false, consistency: false };

function ours({ key, answer, inclusion, before, consistency }: LogProof): Verdict {
  const tree = keyed(key)?.checkpoint(answer.checkpoint);
  if (!tree || "reason" in tree) return nothing;
  const place = { index: answer.commit - 1, size: tree.size, path: hashes(inclusion) };
  const head = headFrom(leafHash(Buffer.from(answer.entry)), place);
  const earlier = { size: before.size, head: hashes([before.root])[0]! };
  return {
    note: true,
    inclusion: head?.equals(tree.head) ?? false,
    consistency: isConsistent(earlier, tree, hashes(consistency)),
  };
}

function keyed(key: string): Trust | undefined {
  try {
    return new Trust([parseVerifierKey(key)]);
  } catch (error) {
    if (!(error instanceof NoteKeyError)) throw error;
    return undefined;
  }
}

/** What is no hash is none of a tree. */
const hashes = (path: readonly string[]) =>
  path.map((hash) => Buffer.from(/^[0-9a-f]{64}$/i.test(hash) ? hash : "", "hex"));

/**
 * Go passes over bits that the last digit of base64 has too many, and takes capitals in the id of a key. Ours refuse
 * what can be spelled in two ways.
 */
function isSpelledOnce(note: string): boolean {
  const encoded = note
    .split(/[ \n]/)
    .filter((word) => /^[A-Za-z0-9+/]+={0,2}$/.test(word) && word.length % 4 === 0);
  return encoded.every((word) => Buffer.from(word, "base64").toString("base64") === word);
}

/** What the monitor answers to each of these. */
async function monitored(given: readonly unknown[], ...args: string[]) {
  const input = given.map((each) => `${JSON.stringify(each)}\n`).join("");
  const said = await ranProgram(programs!.monitor, args, input);
  return said
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
}

/** Fails with the proofs of which two verifiers say something else. */
function expectSame<Said>(them: readonly Said[], us: readonly Said[]): void {
  const differing = proofs.flatMap((proof, n) => {
    const [theirs, own] = [them, us].map((said) => JSON.stringify(said[n]));
    return theirs === own ? [] : [{ theirs, own, proof: JSON.stringify(proof) }];
  });
  expect(differing.slice(0, 5), `${differing.length} differ; SEED=${seed} gives them again`).toEqual([]);
  expect(them.length).toBe(us.length);
}

const verdicts = proofs.map(ours);
const whole = verdicts.map(({ inclusion }) => inclusion);

test("of random proofs those hold that were not altered where it matters", () => {
  const sound = proofs.flatMap(({ what }, n) => (what === "nothing" ? [verdicts[n]] : []));
  expect(new Set(sound.map((verdict) => JSON.stringify(verdict)))).toEqual(
    new Set([JSON.stringify({ note: true, inclusion: true, consistency: true })]),
  );
  for (const part of ["note", "inclusion", "consistency"] as const)
    expect(verdicts.filter((verdict) => !verdict[part]).length, part).toBeGreaterThan(proofs.length / 8);
});

test.skipIf(!programs)("Go's sumdb/note and sumdb/tlog say the same", async () => {
  const given = proofs.map(({ key, answer, inclusion, before, consistency }) => {
    const { checkpoint: note, entry, commit } = answer;
    return { key, note, entry, index: commit - 1, inclusion, before, consistency };
  });
  const said = await monitored(given);
  const readers = said.map((verdict, n) => {
    const { key, answer } = proofs[n]!;
    // Go believes a log without entries, too.
    const isOurs = /^[^+]*\+[^A-F+]*\+/.test(key) && !answer.checkpoint.includes("\n0\n");
    return isOurs && isSpelledOnce(answer.checkpoint) ? verdict : nothing;
  });
  expectSame(readers, verdicts);
});

test.skipIf(!python)("the client in Python, which shares no code with ours, says the same", async () => {
  // Ed25519 takes long there.
  const some = proofs.slice(0, count * 0.4);
  const said = await pythonSays(some.map(({ key, answer }) => ({ text: JSON.stringify(answer), key })));
  expectSame(
    said.map((id, n) => id === some[n]!.answer.snapshotId),
    whole.slice(0, some.length),
  );
});

test("the client says the same", async () => {
  const said = proofs.map(({ key, answer }) =>
    // Written for a reader who asked for this snapshot.
    verifyProof(answer, { key, asOf: answer.snapshotId }).then(
      () => true,
      () => false,
    ),
  );
  expectSame(await Promise.all(said), whole);
});

const log = testKey();
const thief = testKey(log.name, "thief");
const witnesses = (["cosignature-ed25519", "ml-dsa-44", "cosignature-ed25519", "ml-dsa-44"] as const).map(
  (kind, index) => testKey(`witness.example/w${index}`, "", kind),
);
const policyText = [
  `log ${verifierText(log)} https://log.example`,
  ...witnesses.map((key, index) => `witness w${index} ${verifierText(key)}`),
  "group ours any w0 w1",
  "group all 2 ours w2 w3",
  "quorum all\n",
].join("\n");

/** A checkpoint of a small size, signed by some of those who may, and maybe altered at one place. */
const notes = fc
  .record({
    size: fc.integer({ min: 1, max: 4 }),
    other: fc.constantFrom("", "", "", "prs.example/other"),
    signers: fc.subarray([thief, log, log, ...witnesses]),
    // Signatures of another checkpoint in place of this one's.
    moved: fc.constantFrom(0, 0, 0, 1),
    altered: fc.option(fc.nat(), { freq: 2 }),
  })
  .map(({ size, other, signers, moved, altered }) => {
    const textOf = (entries: number) => {
      const leaves = Array.from({ length: entries }, (_, n) => leafHash(Buffer.from(String(n))));
      return `${other || log.name}\n${entries}\n${treeHead(leaves).toString("base64")}\n`;
    };
    const lines = signers.map((key: SigningKey) =>
      signatureLine(key, textOf(size + moved), 1_700_000_000 + size),
    );
    const note = `${textOf(size)}\n${lines.map((line) => `${line}\n`).join("")}`;
    return altered === null ? note : alteredText(note, drawing(altered));
  })
  .filter(isSpelledOnce);

const folder = testFolder();
const sample = fc.sample(notes, { numRuns: 400, seed: 26 });
const policy = parsePolicy(Buffer.from(policyText), "policy");

/** Whether our readers believe each of the sample. */
const believed = sample.map((note) => {
  try {
    return judgeNote(policy, note).lacking === undefined;
  } catch (error) {
    if (!(error instanceof NoteError)) throw error;
    return false;
  }
});
const differing = (theirs: readonly boolean[]) =>
  sample.filter((_, place) => believed[place] !== theirs[place]);

test.skipIf(!programs)(
  "the monitor believes the same of 400 checkpoints, altered ones among them",
  async () => {
    const file = join(folder, "policy");
    writeFileSync(file, policyText);
    expect(differing(await monitored(sample, "-policy", file))).toEqual([]);
    expect(believed.filter(Boolean).length).toBeGreaterThan(20);
  },
);

test("the client of browsers believes the same of them", async () => {
  const said = sample.map((note) =>
    verifyCheckpoint(note, policyText).then(
      () => true,
      (error) => {
        if (!(error instanceof IntegrityError)) throw error;
        return false;
      },
    ),
  );
  expect(differing(await Promise.all(said))).toEqual([]);
});

test("the client reads a policy as the commands do, and names the line that is wrong", async () => {
  const note = sample[believed.indexOf(true)]!;
  const known = witnesses.map((key, index) => `witness w${index} ${verifierText(key)}`).join("\n");
  const said = (text: string) =>
    verifyCheckpoint(note, text).then(
      () => "believed",
      (error) => error.message,
    );
  expect(await said(`log ${verifierText(log)}\nquorum none`)).toBe("believed");
  expect(
    await said(`# A comment.\n\n${known}\nlog ${verifierText(log)}\ngroup g any w0 w1 w2 w3\n quorum\tg \n`),
  ).toBe("believed");
  expect(await said(`log ${verifierText(thief)}\nquorum none`)).toMatch(/None of the keys signed/);
  const other = verifierText(testKey("witness.example/other", "", "cosignature-ed25519"));
  expect(await said(`log ${verifierText(log)}\nwitness w ${other}\nquorum w`)).toMatch(/Too few witnesses/);
  // What else is wrong is read by the same code as in policy.test.ts.
  expect(await said("# A comment.\n\nquorum w9")).toBe(
    'Line 3 of the policy is wrong: "w9" is no witness or group defined before this line.',
  );
  // What the caller gave is at fault then, and not the service.
  const mistyped = verifierText(log).replace(/.$/, (last) => (last === "A" ? "B" : "A"));
  for (const wrong of [mistyped, verifierText(log).slice(0, -4), "x", "", `log ${mistyped}\nquorum none`])
    await expect(verifyCheckpoint(note, wrong)).rejects.toMatchObject({
      name: "ApiError",
      code: "INVALID_PARAMETER",
      message: expect.stringContaining("copy it again, whole"),
    });
  expect(await said(`${known}\nquorum w0`)).toMatch(/no quorum line, or no log/);
  expect(await said(`log ${verifierText(log)}\n${known}`)).toMatch(/no quorum line, or no log/);
});
