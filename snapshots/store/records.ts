import type { z } from "zod";
import { formatVersion } from "../../schemas/snapshot.ts";
import { CorruptObjectError, FormatError } from "./errors.ts";
import { layout, sha256 } from "./layout.ts";

const update = "use a newer version of this program";
const startAnew = `publish into a new store with this version, and copy ${layout.keys} there`;

/**
 * Parses a JSON object of the store against its schema. Throws CorruptObjectError when the bytes are not JSON or do not
 * match the schema, FormatError when they are of a format version that this reader does not know.
 */
export function parseObject<T>(key: string, bytes: Buffer, schema: z.ZodType<T>): T {
  let value: unknown;
  try {
    value = JSON.parse(bytes.toString("utf8"));
  } catch (error) {
    throw new CorruptObjectError(key, "it is not JSON", { cause: error });
  }
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const wrongVersion = result.error.issues.some((issue) => issue.path[0] === "formatVersion");
  if (wrongVersion) {
    const version =
      typeof value === "object" && value && "formatVersion" in value ? value.formatVersion : undefined;
    const reason = `it has format version ${version}; this reader knows version ${formatVersion}`;
    if (typeof version !== "number") throw new CorruptObjectError(key, reason);
    throw new FormatError(key, `${reason}: ${version > formatVersion ? update : startAnew}`);
  }
  throw new CorruptObjectError(key, `it is not as documented: ${result.error.issues[0]?.path.join(".")}`);
}

/** A signed note about a record's digest. It stands behind the digest, which does not cover it. */
export interface Signature {
  /** Of a commit. */
  checkpoint?: string | undefined;
  /** Of any other record. */
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
  const { digest: _, checkpoint, note, ...content } = JSON.parse(bytes.toString("utf8"));
  if (!seal(content, () => ({ checkpoint, note })).equals(bytes))
    throw new CorruptObjectError(key, "its digest does not match its content");
  return record;
}
