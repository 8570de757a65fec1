import type { MarketProof } from "../../../schemas/envelopes.ts";
import { auditPath, hexOf, leafHash, treeHead } from "../../../snapshots/format/tree.ts";
import { verifierText } from "../../../snapshots/trust/notes/note-keys.ts";
import { signatureLine } from "../../../snapshots/trust/notes/signed-note.ts";
import { alter, alteredText } from "../store/altered.ts";
import { consistencyPath } from "../store/consistency.ts";
import { type Draw, drawing } from "../store/drawing.ts";
import { testKey } from "../store/signing.ts";
import { proofIn } from "./proofs.ts";

/** What a verifier is given: an answer that ends in a checkpoint, and an earlier tree of the log. */
export interface LogProof {
  /** What was altered. */
  what: (typeof steps)[number];
  /** The public key. */
  key: string;
  answer: MarketProof & { checkpoint: string };
  inclusion: string[];
  before: { size: number; root: string };
  consistency: string[];
}

/** Where a proof may be altered: before it is signed, by who signs, in what was signed, and in all of it. */
const steps = ["nothing", "text", "signatures", "note", "proof"] as const;

const names = ["prs.example/scores", "prüf.example/лог", "a", "log.example:8080/x?y=z"];

/** A proof of an entry and of an earlier size of a log of some size. */
async function proofOf(what: LogProof["what"], draw: Draw): Promise<LogProof> {
  const size = [1 + draw(17), 1 + draw(300), 255 + draw(3), 511 + draw(90)][draw(4)]!;
  const [commit, first] = [1 + draw(size), 1 + draw(size)];
  const [name, seed] = [names[draw(4)]!, String(draw(2 ** 30))];
  const sound = proofIn([[[JSON.stringify({ id: seed })]]], [0, 0, 0]);
  const entry = JSON.stringify({ ...JSON.parse(sound.entry), commit, seed });
  const leaves = Array.from({ length: size }, (_, n) =>
    leafHash(Buffer.from(n === commit - 1 ? entry : `entry ${n} of ${seed}`)),
  );

  const lines = [name, String(size), treeHead(leaves).toString("base64")];
  const textOf = () => `${lines.join("\n")}\n`;
  const [key, other] = [testKey(name, seed), testKey(name, `${seed} other`)];
  const stranger = testKey("witness.example", seed, "cosignature-ed25519");
  const cosigned = signatureLine(stranger, textOf(), 1_700_000_000);
  if (what === "text") alter({ lines }, draw);
  const text = textOf();
  const own = signatureLine(key, text);
  const others = [
    own,
    signatureLine(key, `${text}more\n`),
    signatureLine(other, text),
    signatureLine({ ...other, id: key.id }, text),
    cosigned,
    cosigned.replace("— ", `— ${String.fromCharCode(draw(32))}`),
  ];
  const another = others[draw(others.length)]!;
  const signatures = what !== "signatures" ? [own] : draw(3) ? [own, another] : [another];
  const note = `${text}\n${signatures.map((line) => `${line}\n`).join("")}`;

  const proof = {
    key: verifierText(key),
    checkpoint: what === "note" ? alteredText(note, draw) : note,
    entry,
    commit,
    inclusion: auditPath(leaves, commit - 1).map(hexOf),
    before: { size: first, root: hexOf(treeHead(leaves.slice(0, first))) },
    consistency: (await consistencyPath(leaves, first)).map(hexOf),
  };
  if (what === "proof") alter(proof, draw);
  const { inclusion, before, consistency, key: by, ...told } = proof;
  const answer = { ...sound, ...told, proof: { ...sound.proof, inclusion } };
  return { what, key: by, answer, inclusion, before, consistency };
}

/** Proofs of logs, a fourth of them as they should be, the others altered at one of the steps. */
export function randomProofs(count: number, seed: number): Promise<LogProof[]> {
  const draw = drawing(seed);
  const next = () => proofOf(draw(4) ? steps[1 + draw(4)]! : "nothing", drawing(draw(2 ** 32)));
  return Promise.all(Array.from({ length: count }, next));
}
