import { hash } from "node:crypto";

// The one place that hashes in Node.

/** The 32 bytes of a SHA-256. */
export type Digest = Buffer;

/** The SHA-256 over bytes. */
export const digestOf = (bytes: Uint8Array): Digest => hash("sha256", bytes, "buffer");

/** The digest that 64 hex digits stand for. */
export const digestFrom = (hex: string): Digest => Buffer.from(hex, "hex");

/** A digest in lower-case hexadecimal. */
export const hexOf = (digest: Digest): string => digest.toString("hex");

/** SHA-256 as 64 lower-case hex digits. Stored objects are named by it. */
export const sha256 = (bytes: Uint8Array | string): string => hash("sha256", bytes, "hex");
