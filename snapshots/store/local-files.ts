import { readFile, rename, rm, writeFile } from "node:fs/promises";
import type { z } from "zod";
import { ifPresent } from "./errors.ts";

/** Parses a JSON file; undefined when there is none, or when it has another shape, as after a power cut. */
export async function readJson<T>(path: string, shape: z.ZodType<T>): Promise<T | undefined> {
  const text = await ifPresent(readFile(path, "utf8"));
  try {
    return text === undefined ? undefined : shape.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}

/** Readers see the old content or the new one, whatever happens. */
export async function replaceFile(path: string, content: string): Promise<void> {
  const temporary = `${path}.${process.pid}.new`;
  try {
    await writeFile(temporary, content, { flush: true });
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}
