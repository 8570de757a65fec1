import type { z } from "zod";
import { CorruptObjectError } from "./errors.ts";
import { type Kind, sha256 } from "./layout.ts";
import { parseObject } from "./parse.ts";
import type { Storage } from "./storage.ts";

/**
 * A signed note about a record, that of a commit about its entry. It stands behind the digest, which does not cover it.
 */
export interface Signature {
  note?: string | undefined;
}

/**
 * The JSON of a record with one more member at its end: `digest`, the SHA-256 of the JSON without that member
 * (snapshots/SPEC.md, "Sealed records"). `sign` may add a signature behind it.
 */
export function seal(record: object, sign: (digest: string) => Signature = () => ({})): Buffer {
  const digest = sha256(JSON.stringify(record));
  return Buffer.from(JSON.stringify({ ...record, digest, ...sign(digest) }));
}

/**
 * Reads a sealed record. Members that the schema does not know count for the digest and are left out of the result. Its
 * signature is not checked. Throws CorruptObjectError when any other byte has changed since the record was sealed.
 */
export function unseal<T extends { digest: string }>(key: string, bytes: Buffer, schema: z.ZodType<T>): T {
  const record = parseObject(key, bytes, schema);
  const { digest: _, note, ...content } = JSON.parse(bytes.toString("utf8"));
  if (!seal(content, () => ({ note })).equals(bytes))
    throw new CorruptObjectError(key, "its digest does not match its content");
  return record;
}

/**
 * Reads the sealed record of a kind that has this name; undefined when there is none. `fresh`: not from a cache on disk.
 */
export async function readRecord<Name extends unknown[], Content extends { digest: string }>(
  storage: Storage,
  kind: Kind<Name, Content>,
  name: Name,
  { fresh = false } = {},
): Promise<Content | undefined> {
  const key = kind(...name);
  const bytes = await storage.get(key, { maxBytes: kind.maxBytes!, fresh });
  return bytes && unseal(key, bytes, kind.schema!);
}
