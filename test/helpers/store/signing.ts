import { hash } from "node:crypto";
import { newSigningKey, parseSigningKey, type SigningKey } from "../../../snapshots/trust/note-keys.ts";

/** The private key of a name, as text; the same name and variant always give the same key. */
export const keyText = (name: string, variant = "") =>
  newSigningKey(name, hash("sha256", `${name}/${variant}`, "buffer"));

/** A key that signs. */
export const testKey = (name = "prs.example/scores", variant = ""): SigningKey =>
  parseSigningKey(keyText(name, variant));
