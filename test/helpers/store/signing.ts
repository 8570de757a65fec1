import { hash } from "node:crypto";
import { type KeyKind, type Policy, parseNote, type VerifierKey } from "../../../snapshots/format/note.ts";
import {
  newSigningKey,
  parseSigningKey,
  type SigningKey,
  verifierText,
} from "../../../snapshots/trust/notes/note-keys.ts";
import { checkSignature, timeOf } from "../../../snapshots/trust/notes/signed-note.ts";

/** The private key of a name, as text; the same name and variant always give the same key. */
export const keyText = (name: string, variant = "", kind: KeyKind = "ed25519") =>
  newSigningKey(name, hash("sha256", `${name}/${variant}`, "buffer"), kind);

/** A key that signs. */
export const testKey = (name = "prs.example/scores", variant = "", kind: KeyKind = "ed25519"): SigningKey =>
  parseSigningKey(keyText(name, variant, kind));

/** The policy of a log of which two of three witnesses, w0 to w2, must cosign: their keys as text, and addresses. */
export const policyOfTwo = (log: VerifierKey, witnesses: readonly { vkey: string; url?: string }[]) =>
  [
    `log ${verifierText(log)}`,
    ...witnesses.map(({ vkey, url }, n) => `witness w${n} ${vkey}${url ? ` ${url}` : ""}`),
    "group two 2 w0 w1 w2",
    "quorum two\n",
  ].join("\n");

/** The witnesses of a policy whose right signatures a note has, and when they signed, in seconds since 1970. */
export function cosignersIn({ witnesses }: Policy, note: string): [name: string, time: number][] {
  const { text, signatures } = parseNote(note);
  return witnesses.flatMap(({ name, key }) => {
    const own = signatures.find((each) => each.name === key.name && each.id === key.id);
    if (!own || checkSignature(key, text, own.signature) !== "right") return [];
    return [[name, timeOf(key.kind, own.signature)!]];
  });
}
