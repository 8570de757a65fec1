import type { z } from "zod";
import { CorruptObjectError } from "./corrupt-object.ts";
import { parseObject } from "./parse-object.ts";
import { sha256 } from "./sha256.ts";

/**
 * The JSON of a record with one more member at its end: `digest`, the SHA-256 of the JSON without that member
 * (snapshots/SPEC.md, "Sealed records"). `sign` may add a `checkpoint` about the digest behind it.
 */
export function seal(record: object, sign: (digest: string) => string | undefined = () => undefined): Buffer {
  const digest = sha256(JSON.stringify(record));
  return Buffer.from(JSON.stringify({ ...record, digest, checkpoint: sign(digest) }));
}

/**
 * Reads a sealed record. Members that the schema does not know count for the digest and are left out of the result. Throws
 * CorruptObjectError when any byte has changed since the record was sealed.
 */
export function unseal<T extends { digest: string }>(key: string, bytes: Buffer, schema: z.ZodType<T>): T {
  const record = parseObject(key, bytes, schema);
  const { digest: _, checkpoint, ...content } = JSON.parse(bytes.toString("utf8"));
  if (!seal(content, () => checkpoint).equals(bytes))
    throw new CorruptObjectError(key, "its digest does not match its content");
  return record;
}
