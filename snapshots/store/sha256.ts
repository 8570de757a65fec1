import { hash } from "node:crypto";

/** SHA-256 as 64 lower-case hex digits. Stored objects are named by it. */
export function sha256(bytes: Uint8Array | string): string {
  return hash("sha256", bytes, "hex");
}
