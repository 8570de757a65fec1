import { hash } from "node:crypto";

// All hashing in Node goes through here.

/** 32 bytes. */
export type Digest = Buffer;

export const digestOf = (bytes: Uint8Array): Digest => hash("sha256", bytes, "buffer");

/** `hex` has 64 digits. */
export const digestFrom = (hex: string): Digest => Buffer.from(hex, "hex");

export const hexOf = (digest: Digest): string => digest.toString("hex");

/** 64 lower-case hex digits, by which stored objects are named. */
export const sha256 = (bytes: Uint8Array | string): string => hash("sha256", bytes, "hex");
