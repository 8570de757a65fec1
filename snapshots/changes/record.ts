import {
  type ChangeCounts,
  type ChangePartRef,
  ChangeRecord,
  type Commit,
  formatVersion,
  type ObjectRef,
} from "../../schemas/store/snapshot.ts";
import { ChangePart, encodeChangePart, type MarketLine, partLines, rowOf } from "../format/change-part.ts";
import { inOrder } from "../store/in-parallel.ts";
import { layout, sha256 } from "../store/layout.ts";
import { readManifest } from "../store/manifest.ts";
import { parseObject, readObject } from "../store/objects.ts";
import type { Storage } from "../store/storage.ts";
import { countsOf, difference, type Sides } from "./difference.ts";
import { Entries } from "./entries.ts";
import { differingRows, type ReadObject } from "./walk.ts";

/**
 * No change record with more lines is made. This allows an upgrade that changes each of 1,000,000 markets. Readers take
 * about 100 bytes a line, so they had better take a larger archive whole, which is half as many bytes
 * (snapshots/SPEC.md).
 */
export const maxRecordLines = 2_000_000;

/** The content decides the key. */
interface Writer {
  write(key: string, bytes: Buffer): Promise<void>;
}

/** Writes a change record while two archives are compared. Memory holds one part of each side. */
export class ChangeRecordWriter {
  readonly #objects: Writer;
  readonly #before: SideWriter;
  readonly #after: SideWriter;

  constructor(objects: Writer) {
    this.#objects = objects;
    this.#before = new SideWriter(objects);
    this.#after = new SideWriter(objects);
  }

  get lines(): number {
    return this.#before.lines + this.#after.lines;
  }

  /** Takes what differs at one place of the archive. Places come from the oldest to the newest. */
  async add({
    before,
    after,
  }: {
    before?: MarketLine | undefined;
    after?: MarketLine | undefined;
  }): Promise<void> {
    if (before) await this.#before.add(before);
    if (after) await this.#after.add(after);
  }

  /** Returns the reference for the commit. */
  async finish(names: { since: string; until: string; counts: ChangeCounts }): Promise<ObjectRef> {
    const { since, until, counts } = names;
    const [before, after] = [await this.#before.finish(), await this.#after.finish()];
    const record: ChangeRecord = {
      formatVersion,
      since,
      until,
      counts: { added: counts.added, changed: counts.changed, removed: counts.removed },
      before,
      after,
    };
    const bytes = Buffer.from(JSON.stringify(record));
    const ref = { hash: sha256(bytes), bytes: bytes.length };
    await this.#objects.write(layout.changeRecord(ref.hash), bytes);
    return ref;
  }
}

class SideWriter {
  readonly #objects: Writer;
  readonly #parts: ChangeRecord["before"] = [];
  #texts: MarketLine[] = [];
  lines = 0;

  constructor(objects: Writer) {
    this.#objects = objects;
  }

  async add({ id, resolvedAt, line }: MarketLine): Promise<void> {
    // Copies, since the line may be a view of a whole page or file.
    this.#texts.push({ id, resolvedAt, line: Buffer.from(line) });
    this.lines += 1;
    if (this.#texts.length === partLines) await this.#endPart();
  }

  async finish(): Promise<ChangeRecord["before"]> {
    if (this.#texts.length > 0) await this.#endPart();
    return this.#parts;
  }

  async #endPart(): Promise<void> {
    const bytes = await encodeChangePart(this.#texts.reverse());
    const ref = { hash: sha256(bytes), bytes: bytes.length, lines: this.#texts.length };
    this.#texts = [];
    await this.#objects.write(layout.changePart(ref.hash), bytes);
    this.#parts.push(ref);
  }
}

/**
 * Records what differs between two snapshots of a store; undefined when that is too much. Throws MissingObjectError or
 * CorruptObjectError where one of them is not whole.
 */
export async function recordBetween(
  storage: Storage,
  objects: Writer,
  since: Commit,
  until: Commit,
): Promise<{ ref: ObjectRef; counts: ChangeCounts } | undefined> {
  const writer = new ChangeRecordWriter(objects);
  const sides: Sides = { before: new Entries(), after: new Entries() };
  const read: ReadObject = (key, ref) => readObject(storage, key, ref);
  const older = await readManifest(storage, since);
  const newer = await readManifest(storage, until, older);
  for await (const rows of differingRows(read, older, newer)) {
    for (const side of ["before", "after"] as const) if (rows[side]) sides[side].add(rowOf(rows[side]));
    await writer.add(rows);
    if (writer.lines > maxRecordLines) return undefined;
  }
  const counts = countsOf(await difference(sides));
  const names = { since: since.entry.snapshotId, until: until.entry.snapshotId, counts };
  return { ref: await writer.finish(names), counts };
}

export async function readChangeRecord(read: ReadObject, ref: ObjectRef): Promise<ChangeRecord> {
  const key = layout.changeRecord(ref.hash);
  return parseObject(key, await read(key, ref), ChangeRecord);
}

/** Parts of change records, read side by side. */
export function changeParts(
  read: ReadObject,
  parts: ChangeRecord["before"],
  bounds: { concurrency?: number } = {},
): AsyncGenerator<ChangePart, void, void> {
  const readPart = async (ref: ChangePartRef) => {
    const key = layout.changePart(ref.hash);
    return new ChangePart(key, await read(key, ref), ref.lines);
  };
  return inOrder(parts, readPart, { bytes: ({ bytes }) => bytes, ...bounds });
}

/** A change record's own key and those of its parts. */
export async function changeObjects(storage: Storage, ref: ObjectRef): Promise<string[]> {
  const { before, after } = await readChangeRecord((key, object) => readObject(storage, key, object), ref);
  return [layout.changeRecord(ref.hash), ...[...before, ...after].map(({ hash }) => layout.changePart(hash))];
}
