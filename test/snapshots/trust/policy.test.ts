import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { type KeyKind, NoteError } from "../../../snapshots/format/note.ts";
import { treeHead } from "../../../snapshots/format/tree.ts";
import {
  parsePolicy,
  readPolicy,
  type SigningKey,
  verifierText,
} from "../../../snapshots/trust/notes/note-keys.ts";
import { openNote, signatureLine, signNote } from "../../../snapshots/trust/notes/signed-note.ts";
import { judgeNote } from "../../../snapshots/trust/trust.ts";
import { findNode, nodeOptions } from "../../helpers/servers/programs.ts";
import { cosignersIn, keyText, testKey } from "../../helpers/store/signing.ts";

const root = new URL("../../..", import.meta.url).pathname;
const log = testKey();
const logs = verifierText(log);
const witness = (name: string, kind: KeyKind = "cosignature-ed25519") =>
  testKey(`witness.example/${name}`, "", kind);
const vkey = (name: string, kind?: KeyKind) => verifierText(witness(name, kind));
const parse = (text: string) => parsePolicy(Buffer.from(text), "policy");

const text = `${log.name}\n7\n${treeHead([]).toString("base64")}\n`;
const note = (...signers: SigningKey[]) =>
  signNote(text, log) + signers.map((signer) => `${signatureLine(signer, text, 1_700_000_000)}\n`).join("");

/** The specification's example. */
const example = `
# Two organizations.
log ${logs}

witness X1 ${vkey("X1")}
witness X2 ${vkey("X2", "ml-dsa-44")} https://witness.example/x2/
\twitness  X3 ${vkey("X3")}
group X-witnesses 2 X1 X2 X3

witness Y1 ${vkey("Y1")}
witness Y2 ${vkey("Y2")}
group Y-witnesses any Y1 Y2

group X-and-Y all X-witnesses Y-witnesses
quorum X-and-Y
  # The last line may end without a line feed.`;
const keyOf = (name: string) => witness(name, name === "X2" ? "ml-dsa-44" : undefined);

// What it makes of altered notes is in test/conformance/foreign-verifiers.test.ts.
describe("a policy", () => {
  test("says who must have cosigned a checkpoint", () => {
    const policy = parse(example);
    expect(policy.logs.map(({ key }) => verifierText(key))).toEqual([logs]);
    expect(policy.witnesses.map(({ name, url }) => [name, url])).toEqual([
      ["X1", undefined],
      ["X2", "https://witness.example/x2/"],
      ["X3", undefined],
      ["Y1", undefined],
      ["Y2", undefined],
    ]);
    const names = policy.witnesses.map(({ name }) => name);
    for (let chosen = 0; chosen < 2 ** names.length; chosen += 1) {
      const cosigners = names.filter((_, place) => chosen & (1 << place));
      const signed = note(...cosigners.map(keyOf));
      const judged = judgeNote(policy, signed);
      const x = cosigners.filter((name) => name.startsWith("X")).length;
      expect(judged.lacking === undefined, cosigners.join()).toBe(x >= 2 && cosigners.length > x);
      expect(judged.note).toBe(signed);
      expect(cosignersIn(policy, judged.note)).toEqual(cosigners.map((name) => [name, 1_700_000_000]));
    }
    expect(judgeNote(policy, note(keyOf("X1"), keyOf("Y2"))).lacking).toBe(
      "the quorum X-and-Y is not reached: X1, Y2 cosigned; X2, X3, Y1 did not",
    );
    expect(judgeNote(policy, note()).lacking).toMatch(/: no witness cosigned; X1, X2, X3, Y1, Y2 did not$/);
  });

  test("of a single witness, or of none, is one too", () => {
    const one = parse(`witness w ${vkey("X1")}\nquorum w\nlog ${logs}\n`);
    expect(judgeNote(one, note(keyOf("X1"))).lacking).toBeUndefined();
    expect(judgeNote(one, note(keyOf("X2"))).lacking).toMatch(/^the quorum w is not reached/);
    const none = parse(`quorum none\nlog ${logs}\n`);
    expect(judgeNote(none, note()).lacking).toBeUndefined();
    // A log may be known by an ML-DSA-44 key alone.
    const own = testKey(log.name, "", "ml-dsa-44");
    const quantum = parse(`log ${verifierText(own)}\nquorum none`);
    const judged = judgeNote(quantum, note(own));
    expect(openNote(judged.note, [log, own]).signers).toEqual([own]);
    expect([judged.lacking, cosignersIn(quantum, judged.note)]).toEqual([undefined, []]);
    expect(() => judgeNote(quantum, note())).toThrow(NoteError);
  });
});

/** A policy of so many groups, each the one member of the next. */
function chain(groups: number): string {
  const lines = Array.from({ length: groups }, (_, n) => `group g${n} any ${n === 0 ? "w" : `g${n - 1}`}\n`);
  return `witness w ${vkey("w")}\n${lines.join("")}quorum g${groups - 1}`;
}

test("a policy may have 32 groups", () => {
  expect(parse(chain(32)).quorum?.name).toBe("g31");
});

const meant = Object.entries({
  ...{ "\\r": "\r", "\\n": "\n", "\\xa0": "\u00a0", "{LOG}": logs, "{SECRET}": keyText(log.name) },
  ...{ "{W}": vkey("w"), "{V}": vkey("v") },
});
const mean = (text: string) => meant.reduce((all, [name, value]) => all.replaceAll(name, () => value), text);
const [, ...wrongOnes] = readFileSync(new URL("policies.txt", import.meta.url), "utf8")
  .trimEnd()
  .split("\n");
const witnesses = Array.from({ length: 33 }, (_, n) => `witness w${n} ${vkey(`w${n}`)}`).join("\n");

test.for([
  ...wrongOnes.map((row) => row.split(" > ").map(mean)),
  [
    `${"q".repeat(3000)} none`,
    `policy, line 1: "${"q".repeat(117)}..." is neither log, witness, group nor quorum`,
  ],
  [witnesses, "policy, line 33: there are more than 32 logs, witnesses or groups"],
  [chain(33), "policy, line 34: there are more than 32 logs, witnesses or groups"],
  ["#".repeat(1024 * 1024 + 1), "policy is no policy: it has more than 1048576 bytes"],
])("a policy that is wrong is refused with file and line: %.60s", ([wrong, message]) => {
  expect(() => parse(wrong!)).toThrow(expect.objectContaining({ code: "KEY_FILE", message }));
});

test("names of witnesses are octets: no Unicode makes two of them one", () => {
  const names = ["K", "\u212a", "é", "e\u0301"];
  const lines = names.map((name, n) => `witness ${name} ${vkey(`w${n}`)}\n`).join("");
  expect(parse(`${lines}group g all ${names.join(" ")}\nquorum g`).witnesses.map(({ name }) => name)).toEqual(
    names,
  );
  const invalid = Buffer.concat([Buffer.from("quorum "), Buffer.of(0xff, 0xfe)]);
  expect(() => parsePolicy(invalid, "policy")).toThrow(/line 1: "\ufffd\ufffd" is no witness/);
});

test("the file of a policy that cannot be read is named", async () => {
  await expect(readPolicy("/nowhere/policy")).rejects.toThrow(/^\/nowhere\/policy cannot be read: ENOENT/);
});

const node22 = findNode("22");
test.skipIf(!node22)(
  "a Node without ML-DSA-44 reads such keys, checks nothing with them and makes none",
  () => {
    const script = `
    const { newSigningKey, parsePolicy } = await import("./snapshots/trust/notes/note-keys.ts");
    const { judgeNote } = await import("./snapshots/trust/trust.ts");
    const [policy, note] = JSON.parse(process.argv[1]);
    console.log(JSON.stringify(judgeNote(parsePolicy(Buffer.from(policy), "policy"), note)));
    try { newSigningKey("x", undefined, "ml-dsa-44"); } catch (error) { console.log(error.message); }
  `;
    const given = JSON.stringify([example, note(keyOf("X1"), keyOf("X2"), keyOf("Y1"))]);
    const options = [...nodeOptions, "--input-type=module", "--eval", script, given];
    const lines = execFileSync(node22!, options, { cwd: root, encoding: "utf8" }).trim().split("\n");
    expect(JSON.parse(lines[0]!)).toEqual({
      lacking:
        "the quorum X-and-Y is not reached: X1, Y1 cosigned; X3, Y2 did not; " +
        "X2 did with ML-DSA-44, which this platform cannot check",
      note: note(keyOf("X1"), keyOf("Y1")),
    });
    expect(lines[1]).toMatch(/^ML-DSA-44 keys sign with Node 24 and later; this is v22\./);
  },
);
