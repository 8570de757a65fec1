import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { IntegrityError, verifyCheckpoint } from "../../../proxy/site/client/client.ts";
import { NoteError } from "../../../snapshots/format/note.ts";
import { leafHash, treeHead } from "../../../snapshots/format/tree.ts";
import { parsePolicy, type SigningKey, verifierText } from "../../../snapshots/trust/notes/note-keys.ts";
import { signatureLine } from "../../../snapshots/trust/notes/signed-note.ts";
import { judgeNote } from "../../../snapshots/trust/trust.ts";
import { findWitness } from "../../helpers/servers/witness.ts";
import { testKey } from "../../helpers/store/signing.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";

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
    altered: fc.option(fc.record({ place: fc.nat(), by: fc.constantFrom(1, 2, 4) }), { freq: 2 }),
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
    if (!altered) return note;
    const place = altered.place % note.length;
    const changed = String.fromCharCode(note.charCodeAt(place) ^ altered.by);
    // Go's base64 passes over bits that a last digit has too many, and ours does not.
    return /=*\n/.test(note.slice(place + 1, place + 2)) || note[place + 1] === "="
      ? note
      : note.slice(0, place) + changed + note.slice(place + 1);
  });

const folder = testFolder();
const programs = findWitness();
const sample = fc.sample(notes, { numRuns: 1000, seed: 26 });
const policy = parsePolicy(Buffer.from(policyText), "policy");

/** Whether our readers believe each of the sample. */
const ours = sample.map((note) => {
  try {
    return judgeNote(policy, note).lacking === undefined;
  } catch (error) {
    if (!(error instanceof NoteError)) throw error;
    return false;
  }
});
const differing = (theirs: readonly boolean[]) => sample.filter((_, place) => ours[place] !== theirs[place]);

test.skipIf(!programs)(
  "another implementation believes the same of 1,000 checkpoints, altered ones among them",
  () => {
    const file = join(folder, "policy");
    writeFileSync(file, policyText);
    const input = sample.map((note) => `${JSON.stringify(note)}\n`).join("");
    const { stdout, stderr } = spawnSync(programs!.monitor, ["-policy", file], { input, encoding: "utf8" });
    expect(stderr).toBe("");
    const theirs = stdout
      .trim()
      .split("\n")
      .map((line) => line === "true");
    expect(differing(theirs)).toEqual([]);
    expect(ours.filter((believed) => believed).length).toBeGreaterThan(100);
  },
);

test("the client of browsers believes the same of them", async () => {
  const believed = sample.map((note) =>
    verifyCheckpoint(note, policyText).then(
      () => true,
      (error) => {
        if (!(error instanceof IntegrityError)) throw error;
        return false;
      },
    ),
  );
  expect(differing(await Promise.all(believed))).toEqual([]);
});

test("the client reads a policy as the commands do, and names the line that is wrong", async () => {
  const note = sample[ours.indexOf(true)]!;
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

test("both refuse a checkpoint with a wrong signature of a witness that nobody requires", async () => {
  const text = `${log.name}\n1\n${treeHead([]).toString("base64")}\n`;
  const wrong = signatureLine(witnesses[0]!, text.replace("1", "2"), 1_700_000_000);
  const note = `${text}\n${signatureLine(log, text)}\n${wrong}\n`;
  const known = `log ${verifierText(log)}\nwitness w ${verifierText(witnesses[0]!)}\nquorum none`;
  expect(() => judgeNote(parsePolicy(Buffer.from(known), "policy"), note)).toThrow(/is wrong/);
  await expect(verifyCheckpoint(note, known)).rejects.toThrow("The signature of the checkpoint is wrong.");
  await expect(verifyCheckpoint(note, verifierText(log))).resolves.toMatchObject({ size: 1, cosigners: 0 });
});
