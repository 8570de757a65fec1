import type { z } from "zod";
import { formatVersion } from "../../schemas/snapshot.ts";
import { CorruptObjectError, FormatError } from "./corrupt-object.ts";
import { layout } from "./layout.ts";

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
