import type { z } from "zod";
import { CorruptObjectError } from "./errors.ts";
import { parseJson, unknownVersion, versionIn } from "./json.ts";

/**
 * Throws CorruptObjectError when the bytes are not JSON or do not match the schema, FormatError when this program does
 * not know their format version.
 */
export function parseObject<T>(key: string, bytes: Uint8Array, schema: z.ZodType<T>): T {
  const value = parseJson(key, bytes);
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const wrongVersion = result.error.issues.some((issue) => issue.path[0] === "formatVersion");
  if (wrongVersion) throw unknownVersion(key, versionIn(value));
  throw new CorruptObjectError(key, `it is not as documented: ${result.error.issues[0]?.path.join(".")}`);
}

/**
 * Picks the reader for the format version that an object names; `readers` has one for each that this program reads.
 * Throws CorruptObjectError, or FormatError when there is none.
 */
export function readerFor<Reader>(
  key: string,
  bytes: Uint8Array,
  readers: Readonly<Record<number, Reader>>,
): Reader {
  const version = versionIn(parseJson(key, bytes));
  const reader = typeof version === "number" ? readers[version] : undefined;
  if (!reader) throw unknownVersion(key, version);
  return reader;
}
