import type { z } from "zod";
import { formatVersion } from "../../schemas/snapshot.ts";
import { CorruptObjectError } from "./corrupt-object.ts";

/**
 * Parses a JSON object of the store against its schema. Throws CorruptObjectError when the bytes are not JSON, do not
 * match the schema, or are of a format version that this reader does not know.
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
    const known = `this reader knows version ${formatVersion}`;
    throw new CorruptObjectError(key, `it has format version ${version}; ${known}`);
  }
  throw new CorruptObjectError(key, `it is not as documented: ${result.error.issues[0]?.path.join(".")}`);
}
