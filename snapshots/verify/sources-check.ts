import { type Manifest, SourceFiles } from "../../schemas/store/snapshot.ts";
import { addRowsByFile, decodeOrigins } from "../index/origin-table.ts";
import { CorruptObjectError } from "../store/errors.ts";
import { layout } from "../store/layout.ts";
import { parseObject } from "../store/objects.ts";
import type { CheckedRead } from "./score-check.ts";

/** Every row must come from a listed file, and every file must have as many rows as the list says. */
export async function checkSources(
  manifestKey: string,
  manifest: Manifest,
  read: CheckedRead,
): Promise<void> {
  const { sources, segments } = manifest;
  const origins = segments.flatMap((segment) => segment.origins ?? []);
  if (!sources && origins.length === 0) return;
  if (!sources || origins.length !== segments.length)
    throw new CorruptObjectError(manifestKey, "it does not tell the origins of every segment");
  const rows = new Map<string, number>();
  let whole = true;
  for (const [index, ref] of origins.entries()) {
    const key = layout.origins(ref.hash);
    const table = await read(key, ref, (bytes) => decodeOrigins(key, bytes, segments[index]!.markets));
    whole &&= table !== undefined;
    if (table) addRowsByFile(rows, table);
  }
  const key = layout.sourceFiles(sources.hash);
  await read(key, sources, (bytes) => {
    const { files } = parseObject(key, bytes, SourceFiles);
    const told = new Map(files.filter((file) => file.rows > 0).map((file) => [file.hash, file.rows]));
    const same = told.size === rows.size && [...rows].every(([hash, count]) => told.get(hash) === count);
    if (whole && !same) throw new CorruptObjectError(key, "its numbers of rows are not those of the origins");
  });
}
