import fc from "fast-check";
import type { MarketProof } from "../../../schemas/envelopes.ts";
import { auditPath, leafHash, type TreeHead, treeHead } from "../../../snapshots/format/tree.ts";
import { verifierText } from "../../../snapshots/trust/notes/note-keys.ts";
import { signatureLine, signNote } from "../../../snapshots/trust/notes/signed-note.ts";
import { testKey } from "../store/signing.ts";
import { consistencyPath } from "./consistency-path.ts";
import { proofIn } from "./proofs.ts";

/** What a verifier is given: an answer that ends in a checkpoint, and an earlier tree of the log. */
export interface LogProof {
  /** What was altered. */
  what: string;
  /** The public key. */
  key: string;
  answer: MarketProof & { checkpoint: string };
  inclusion: string[];
  before: { size: number; root: string };
  consistency: string[];
  /** The leaves of the log, unaltered. */
  leaves: readonly Buffer[];
}

interface Numbers {
  size: number;
  index: number;
  before: number;
  place: number;
  bit: number;
  name: string;
  seed: number;
}

const numbers = fc.record({
  size: fc.oneof(
    fc.integer({ min: 1, max: 17 }),
    fc.integer({ min: 1, max: 300 }),
    fc.constantFrom(255, 256, 257, 511, 512, 513, 600),
  ),
  index: fc.nat(),
  before: fc.nat(),
  place: fc.nat(),
  bit: fc.constantFrom(1, 2, 4, 8, 16, 32),
  name: fc.constantFrom("prs.example/scores", "prüf.example/лог", "a", "log.example:8080/x?y=z"),
  seed: fc.nat(),
});

/** A log of so many entries that a key signed, one of its entries and one of its earlier sizes. */
function soundProof({ size, index, before, name, seed }: Numbers): LogProof {
  const answer = proofIn([[[JSON.stringify({ id: String(seed) })]]], [0, 0, 0]);
  const commit = (index % size) + 1;
  const entry = JSON.stringify({ ...JSON.parse(answer.entry), commit, seed });
  const leaves = Array.from({ length: size }, (_, n) =>
    leafHash(Buffer.from(n === commit - 1 ? entry : `entry ${n} of ${seed}`)),
  );
  const first = (before % size) + 1;
  const key = testKey(name, String(seed));
  return {
    what: "nothing",
    key: verifierText(key),
    answer: {
      ...answer,
      commit,
      entry,
      checkpoint: signNote(textOf(name, { size, head: treeHead(leaves) }), key),
    },
    inclusion: hexOf(auditPath(leaves, commit - 1)),
    before: { size: first, root: treeHead(leaves.slice(0, first)).toString("hex") },
    consistency: hexOf(consistencyPath(leaves, first)),
    leaves,
  };
}

const hexOf = (hashes: readonly Buffer[]) => hashes.map((each) => each.toString("hex"));
const textOf = (name: string, { size, head }: TreeHead) => `${name}\n${size}\n${head.toString("base64")}\n`;

type Alteration = (proof: LogProof, numbers: Numbers) => void;

/** Alters a list of hashes. */
const ofPath = (at: "inclusion" | "consistency"): Record<string, Alteration> => ({
  [`${at}: a digit`]: (proof, { place, bit }) => {
    const n = place % Math.max(1, proof[at].length);
    proof[at] = proof[at].map((each, m) => (m === n ? flippedHash(each, place, bit) : each));
  },
  [`${at}: two swapped`]: (proof, { place }) => {
    const n = place % Math.max(1, proof[at].length);
    proof[at] = [
      proof[at][n] ?? zeros,
      ...proof[at].slice(1, n),
      proof[at][0] ?? zeros,
      ...proof[at].slice(n + 1),
    ];
  },
  [`${at}: the first gone`]: (proof) => void proof[at].shift(),
  [`${at}: the last gone`]: (proof) => void proof[at].pop(),
  [`${at}: one more`]: (proof, { place }) => void proof[at].splice(place % (proof[at].length + 1), 0, zeros),
  [`${at}: cut off`]: (proof, { place }) => void proof[at].push("00".repeat(place % 32)),
});
const zeros = "0".repeat(64);

/** Alters what the key then signs. */
const signed =
  (
    alter: (tree: TreeHead & { text: string; name: string }, numbers: Numbers, proof: LogProof) => string,
  ): Alteration =>
  (proof, given) => {
    const { name, size, seed } = given;
    const head = treeHead(proof.leaves);
    const text = alter({ size, head, name, text: textOf(name, { size, head }) }, given, proof);
    proof.answer.checkpoint = signNote(text, testKey(name, String(seed)));
  };

const inNote =
  (alter: (note: string, numbers: Numbers) => string): Alteration =>
  (proof, given) => {
    proof.answer.checkpoint = alter(proof.answer.checkpoint, given);
  };

/** The note with a line of somebody else's. */
const withStranger = (note: string, { seed }: Numbers) => {
  const text = note.slice(0, note.lastIndexOf("\n\n") + 1);
  return `${note}${signatureLine(testKey("witness.example", String(seed), "cosignature-ed25519"), text, seed)}\n`;
};

const alterations: Record<string, Alteration> = {
  nothing: () => {},
  "the note: a character": inNote((note, { place, bit }) => flipped(note, place, bit)),
  "the note: one gone": inNote((note, { place }) => without(note, place)),
  "the note: cut off": inNote((note, { place }) => note.slice(0, place % note.length)),
  "the note: signed twice": inNote((note) => note + note.slice(note.lastIndexOf("\n\n") + 2)),
  "the note: no signature": inNote((note) => note.slice(0, note.lastIndexOf("\n\n") + 2)),
  "the note: a stranger's line": inNote(withStranger),
  "the note: a stranger's line altered": inNote((note, given) => {
    const lines = withStranger(note, given).slice(note.length);
    return note + flipped(lines, given.place, given.bit);
  }),
  "the note: a control character in a stranger's name": inNote((note, given) => {
    const line = withStranger(note, given).slice(note.length);
    return note + line.replace("— ", `— ${String.fromCharCode(given.place % 32)}`);
  }),
  "the note: signed by another": inNote((note, { name, seed }) => {
    const text = note.slice(0, note.lastIndexOf("\n\n") + 1);
    return signNote(text, testKey(name, `${seed} other`));
  }),
  "the note: another's signature under the key's id": inNote((note, { name, seed }) => {
    const text = note.slice(0, note.lastIndexOf("\n\n") + 1);
    const { id } = testKey(name, String(seed));
    return signNote(text, { ...testKey(name, `${seed} other`), id });
  }),
  "the note: the signature of another": inNote((note, { name, seed }) => {
    const text = note.slice(0, note.lastIndexOf("\n\n") + 1);
    return `${text}\n${signatureLine(testKey(name, String(seed)), `${text}more\n`)}\n`;
  }),
  "signed: an extension line": signed(({ text }) => `${text}more\n`),
  "signed: text behind an empty line": signed(({ text }) => `${text}\nmore\n`),
  "signed: another origin": signed(({ text }) => `other.${text}`),
  "signed: another size": signed(({ name, size, head }, { bit }) =>
    textOf(name, { size: Math.max(1, bit < 8 ? size - bit : size + bit), head }),
  ),
  "signed: a size with a zero": signed(({ text }) => text.replace("\n", "\n0")),
  "signed: another root": signed(({ name, size, head }, { place, bit }) =>
    textOf(name, { size, head: Buffer.from(flippedHash(head.toString("hex"), place, bit), "hex") }),
  ),
  "signed: a root cut off": signed(({ name, size, head }) => textOf(name, { size, head: head.subarray(1) })),
  "signed: another log": signed(({ name, size }, { seed }) =>
    textOf(name, { size, head: treeHead(strangeLeaves(size, seed)) }),
  ),
  "signed: the log without its last entry": signed(({ name, size }, _given, { leaves }) =>
    textOf(name, { size: Math.max(1, size - 1), head: treeHead(leaves.slice(0, Math.max(1, size - 1))) }),
  ),
  "the key: a character": (proof, { place, bit }) => {
    proof.key = flipped(proof.key, place, bit);
  },
  "the entry: a character": ({ answer }, { place, bit }) => {
    answer.entry = flipped(answer.entry, place, bit);
  },
  "the entry: cut off": ({ answer }, { place }) => {
    answer.entry = answer.entry.slice(0, place % answer.entry.length);
  },
  "the entry: another's": ({ answer }, { bit }) => {
    answer.entry = JSON.stringify({ ...JSON.parse(answer.entry), commit: answer.commit + bit });
  },
  "the place": ({ answer }, { place }) => {
    answer.commit += (place % 5) - 2;
  },
  "before: another size": ({ before }, { place }) => {
    before.size += (place % 5) - 2;
  },
  "before: another root": ({ before }, { place, bit }) => {
    before.root = flippedHash(before.root, place, bit);
  },
  "before: another log": ({ before }, { seed }) => {
    before.root = treeHead(strangeLeaves(before.size, seed)).toString("hex");
  },
  ...ofPath("inclusion"),
  ...ofPath("consistency"),
};

function strangeLeaves(size: number, seed: number): Buffer[] {
  return Array.from({ length: size }, (_, n) => leafHash(Buffer.from(`another entry ${n} of ${seed}`)));
}

function flipped(text: string, place: number, bit: number): string {
  const at = place % text.length;
  return text.slice(0, at) + String.fromCharCode(text.charCodeAt(at) ^ bit) + text.slice(at + 1);
}

function without(text: string, place: number): string {
  const at = place % text.length;
  return text.slice(0, at) + text.slice(at + 1);
}

function flippedHash(hex: string, place: number, bit: number): string {
  const bytes = Buffer.from(hex, "hex");
  bytes[place % bytes.length]! ^= bit;
  return bytes.toString("hex");
}

/**
 * Proofs of logs, a fourth of them as they should be, the others altered at one place: by turns in each of the ways
 * above.
 */
export function randomProofs(count: number, seed: number): LogProof[] {
  const ways = Object.entries(alterations);
  return fc.sample(numbers, { numRuns: count, seed }).map((given, n) => {
    const proof = soundProof(given);
    const [what, alter] = ways[n % 4 === 0 ? 0 : (n - Math.ceil(n / 4)) % ways.length]!;
    alter(proof, given);
    proof.answer.proof.inclusion = proof.inclusion;
    return { ...proof, what };
  });
}
