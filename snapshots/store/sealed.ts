import { hash } from "node:crypto";
import type { z } from "zod";
import { formatVersion } from "../../schemas/snapshot.ts";

/** SHA-256 in lower-case hex, the name of stored objects. */
export function sha256(bytes: Uint8Array | string): string {
  return hash("sha256", bytes, "hex");
}

/** JSON that ends in a member `digest`, the SHA-256 of the same JSON without it (snapshots/SPEC.md, "Sealed records"). */
export function seal<T extends object>(record: T): Buffer {
  const digest = sha256(JSON.stringify(record));
  return Buffer.from(JSON.stringify({ ...record, digest }));
}

/** An object in a store does not hold what its name or digest promises. The message names the object. */
export class CorruptObjectError extends Error {
  override readonly name = "CorruptObjectError";
  readonly key: string;

  constructor(key: string, reason: string, options?: ErrorOptions) {
    super(`${key}: ${reason}`, options);
    this.key = key;
  }
}

/** Reads a sealed record. Throws CorruptObjectError when a byte of it is not as it was sealed. */
export function unseal<T extends { digest: string }>(key: string, bytes: Buffer, schema: z.ZodType<T>): T {
  const record = parseObject(key, bytes, schema);
  const { digest: _, ...content } = record;
  if (!seal(content).equals(bytes))
    throw new CorruptObjectError(key, "its digest does not match its content");
  return record;
}

/** Parses a JSON object of the store. Throws CorruptObjectError. */
export function parseObject<T>(key: string, bytes: Buffer, schema: z.ZodType<T>): T {
  let value: unknown;
  try {
    value = JSON.parse(bytes.toString("utf8"));
  } catch (error) {
    throw new CorruptObjectError(key, "it is not JSON", { cause: error });
  }
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const version =
    typeof value === "object" && value && "formatVersion" in value ? value.formatVersion : undefined;
  const known = result.error.issues.some((issue) => issue.path[0] === "formatVersion");
  if (known)
    throw new CorruptObjectError(
      key,
      `it has format version ${version}; this reader knows version ${formatVersion}`,
    );
  throw new CorruptObjectError(key, `it is not as documented: ${result.error.issues[0]?.path.join(".")}`);
}
