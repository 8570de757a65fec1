import type { z } from "zod";
import { formatVersion } from "../../schemas/snapshot.ts";
import { textOf } from "../format/bytes.ts";
import { CorruptObjectError, FormatError } from "./errors.ts";
import { layout } from "./layout.ts";

const update = "use a newer version of this program";
const startAnew = `publish into a new store; from format 2 only ${layout.keys} carries over, by copying it`;

/**
 * Parses a JSON object of the store against its schema. Throws CorruptObjectError when the bytes are not JSON or do not
 * match the schema, FormatError when they are of a format version that this reader does not know.
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
 * The reader for the version of the format that an object names: `readers` has one for each version that this program
 * reads. Throws CorruptObjectError, or FormatError when there is none.
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

function parseJson(key: string, bytes: Uint8Array): unknown {
  try {
    return JSON.parse(textOf(bytes));
  } catch (error) {
    throw new CorruptObjectError(key, "it is not JSON", { cause: error });
  }
}

function versionIn(value: unknown): unknown {
  return typeof value === "object" && value && "formatVersion" in value ? value.formatVersion : undefined;
}

/** The error for an object of a version of the format that this program has no reader for. */
function unknownVersion(key: string, version: unknown): CorruptObjectError {
  const reason = `it has format version ${version}; this reader knows version ${formatVersion}`;
  if (typeof version !== "number") return new CorruptObjectError(key, reason);
  return new FormatError(key, `${reason}: ${version > formatVersion ? update : startAnew}`);
}
