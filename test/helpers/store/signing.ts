import { hash } from "node:crypto";
import {
  type KeyKind,
  newSigningKey,
  parseSigningKey,
  type SigningKey,
} from "../../../snapshots/trust/notes/note-keys.ts";

/** The private key of a name, as text; the same name and variant always give the same key. */
export const keyText = (name: string, variant = "", kind: KeyKind = "ed25519") =>
  newSigningKey(name, hash("sha256", `${name}/${variant}`, "buffer"), kind);

/** A key that signs. */
export const testKey = (name = "prs.example/scores", variant = "", kind: KeyKind = "ed25519"): SigningKey =>
  parseSigningKey(keyText(name, variant, kind));
