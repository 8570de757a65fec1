import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { leafHash, treeHead } from "../../../snapshots/format/tree.ts";
import { judgeNote } from "../../../snapshots/trust/judge.ts";
import { type SigningKey, verifierText } from "../../../snapshots/trust/note-keys.ts";
import { parsePolicy } from "../../../snapshots/trust/policy.ts";
import { NoteError, signatureLine } from "../../../snapshots/trust/signed-note.ts";
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
    size: fc.nat(3),
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
test.skipIf(!programs)(
  "another implementation believes the same of 1,000 checkpoints, altered ones among them",
  () => {
    const sample = fc.sample(notes, { numRuns: 1000, seed: 26 });
    const file = join(folder, "policy");
    writeFileSync(file, policyText);
    const input = sample.map((note) => `${JSON.stringify(note)}\n`).join("");
    const { stdout, stderr } = spawnSync(programs!.monitor, ["-policy", file], { input, encoding: "utf8" });
    expect(stderr).toBe("");
    const policy = parsePolicy(Buffer.from(policyText), "policy");
    const ours = sample.map((note) => {
      try {
        return judgeNote(policy, note).lacking === undefined;
      } catch (error) {
        if (!(error instanceof NoteError)) throw error;
        return false;
      }
    });
    const theirs = stdout
      .trim()
      .split("\n")
      .map((line) => line === "true");
    const differing = sample.filter((_, place) => ours[place] !== theirs[place]);
    expect(differing).toEqual([]);
    expect(ours.filter((believed) => believed).length).toBeGreaterThan(100);
  },
);
