import type { z } from "zod";
import { CorruptObjectError } from "./corrupt-object.ts";
import { parseObject } from "./parse-object.ts";
import { sha256 } from "./sha256.ts";

/**
 * The JSON of a record with one more member at its end: `digest`, the SHA-256 of the JSON without that member
 * (snapshots/SPEC.md, "Sealed records").
 */
export function seal<T extends object>(record: T): Buffer {
  const digest = sha256(JSON.stringify(record));
  return Buffer.from(JSON.stringify({ ...record, digest }));
}

/** Reads a sealed record. Throws CorruptObjectError when any byte has changed since it was sealed. */
export function unseal<T extends { digest: string }>(key: string, bytes: Buffer, schema: z.ZodType<T>): T {
  const record = parseObject(key, bytes, schema);
  const { digest: _, ...content } = record;
  if (!seal(content).equals(bytes))
    throw new CorruptObjectError(key, "its digest does not match its content");
  return record;
}
