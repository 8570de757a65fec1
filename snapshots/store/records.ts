import type { z } from "zod";
import { CorruptObjectError } from "./errors.ts";
import { type Kind, sha256 } from "./layout.ts";
import { parseObject } from "./parse.ts";
import type { Storage } from "./storage.ts";

/**
 * A signed note about a record, or about a commit's entry in the public log. It stands behind the digest, which does
 * not cover it.
 */
export interface Signature {
  note?: string | undefined;
}

/**
 * Adds `digest` at the end of the record's JSON: the SHA-256 of the JSON without it (snapshots/SPEC.md, "Sealed
 * records"). `sign` may add a signature behind it.
 */
export function seal(record: object, sign: (digest: string) => Signature = () => ({})): Buffer {
  const digest = sha256(JSON.stringify(record));
  return Buffer.from(JSON.stringify({ ...record, digest, ...sign(digest) }));
}

/**
 * Throws CorruptObjectError when any byte but the signature has changed since the record was sealed. Members that the
 * schema does not know count for the digest and are left out of the result. The signature is not checked.
 */
export function unseal<T extends { digest: string }>(key: string, bytes: Buffer, schema: z.ZodType<T>): T {
  const record = parseObject(key, bytes, schema);
  const { digest: _, note, ...content } = JSON.parse(bytes.toString("utf8"));
  if (!seal(content, () => ({ note })).equals(bytes))
    throw new CorruptObjectError(key, "its digest does not match its content");
  return record;
}

/** Undefined when there is no record of this name. `fresh` reads past a cache on disk. */
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
