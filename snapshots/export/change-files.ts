import { rm } from "node:fs/promises";
import { join } from "node:path";
import type { ChangeFiles, ChangeRecord, ParquetFile } from "../../schemas/store/stored-objects.ts";
import { formatVersion } from "../../schemas/versions.ts";
import { type ChangePart, changeParts } from "../changes/record.ts";
import { layout } from "../store/layout.ts";
import { refuseCollected } from "../store/log/gc-records.ts";
import { objectsIn } from "../store/objects.ts";
import type { Storage } from "../store/storage.ts";
import type { Signing } from "../trust/log/believe.ts";
import { sealSigned } from "../trust/notes/signed-note.ts";
import { objectsOf, putFile } from "./export-records.ts";
import { checkParquet, openTexts, type Texts, valueSeparator, writeParquet } from "./parquet-file.ts";

/** The most text in a file, apart from one more part of a change record. */
const maxTextBytes = 256 * 1024 * 1024;

type ChangeType = "insert" | "update_preimage" | "update_postimage" | "delete";

/**
 * Writes a change record as Parquet files with the columns of an export and one for what happened. Each file is read
 * back before it is put; the record, which names all, is put last.
 */
export async function writeChangeFiles(
  storage: Storage,
  changes: string,
  record: ChangeRecord,
  { temporaryDirectory, signing = {} }: { temporaryDirectory: string; signing?: Signing },
): Promise<void> {
  const text = join(temporaryDirectory, "changes.ndjson");
  const files: ParquetFile[] = [];
  await using changed = changedLines(storage, record);
  try {
    for (let next = await changed.next(); !next.done; ) {
      let bytes = 0;
      await using texts = await openTexts(text);
      for (; !next.done && bytes < maxTextBytes; next = await changed.next()) {
        const { type, lines } = next.value;
        await texts.add(lines, Buffer.from(`${type}${valueSeparator}`));
        bytes += lines.reduce((sum, { length }) => sum + length, 0);
      }
      await texts.close();
      files.push(await makeFile(storage, text, temporaryDirectory, texts));
    }
  } finally {
    await rm(text, { force: true });
  }
  await refuseCollected(storage, new Set(objectsOf(files)));
  const made: Omit<ChangeFiles, "digest"> = { formatVersion, changes, files };
  const key = layout.exportedChanges(changes);
  await storage.put(key, sealSigned(signing.key, key, made));
}

async function makeFile(
  storage: Storage,
  text: string,
  temporaryDirectory: string,
  { leaves, blocks }: Texts,
): Promise<ParquetFile> {
  const parquet = join(temporaryDirectory, "changes.parquet");
  await writeParquet(text, parquet, temporaryDirectory, blocks, { changes: true });
  await checkParquet(parquet, temporaryDirectory, leaves, ["a file of changes", "the change record"]);
  const file = await putFile(storage, parquet);
  await rm(parquet);
  return { ...file, rows: leaves.length };
}

const idOf = (part: ChangePart, line: number) => part.row(line).toString("latin1", 0, 16);

/** The texts of a change record by what happened to the market, first those that went, then those that came. */
async function* changedLines(
  storage: Storage,
  record: ChangeRecord,
): AsyncGenerator<{ type: ChangeType; lines: Buffer[] }, void, void> {
  const partsOf = (side: "before" | "after") => changeParts(objectsIn(storage), record[side]);
  const came = new Set<string>();
  for await (const part of partsOf("after"))
    for (let line = 0; line < part.lines; line += 1) came.add(idOf(part, line));
  const updated = new Set<string>();
  const typesOf = { before: ["update_preimage", "delete"], after: ["update_postimage", "insert"] } as const;
  for (const side of ["before", "after"] as const) {
    for await (const part of partsOf(side)) {
      const { updates = [], others = [] } = Object.groupBy(part.checked(), (_, line) => {
        const id = idOf(part, line);
        if (side === "before" && came.has(id)) updated.add(id);
        return updated.has(id) ? "updates" : "others";
      });
      const [update, other] = typesOf[side];
      if (updates.length > 0) yield { type: update, lines: updates.map(({ line }) => line) };
      if (others.length > 0) yield { type: other, lines: others.map(({ line }) => line) };
    }
  }
}
