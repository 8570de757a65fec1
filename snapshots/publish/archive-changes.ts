import type { ObjectRef, Size } from "../../schemas/store/snapshot.ts";
import { ChangeRecordWriter, maxRecordLines } from "../changes/record.ts";
import { DetailCount, type MarketChanges, summaryOf } from "../changes/summary.ts";
import type { ArchiveDifference } from "./guards.ts";
import type { TakeDifference } from "./merge-markets.ts";
import type { ObjectWriter } from "./object-writer.ts";

/** What a run changes in the archive: summed up and recorded while the rows that differ are walked. */
export class ArchiveChanges {
  readonly #objects: ObjectWriter;
  readonly #compared: ArchiveDifference | undefined;
  readonly #markets: number;
  readonly #record: ChangeRecordWriter;
  readonly #details: DetailCount | undefined;

  /**
   * `objects` take the record, which is no part of the snapshot. `compared` is undefined where there is nothing to
   * compare the archive of so many `markets` with.
   */
  constructor(objects: ObjectWriter, compared: ArchiveDifference | undefined, markets: number) {
    this.#objects = objects;
    this.#compared = compared;
    this.#markets = markets;
    this.#record = new ChangeRecordWriter(objects);
    if (compared && isRecordable(compared)) this.#details = new DetailCount(compared.sides, compared.found);
  }

  /** Takes the rows that differ, from the oldest place up; undefined when they are not looked at. */
  get take(): TakeDifference | undefined {
    const details = this.#details;
    return (
      details &&
      (async (rows) => {
        details.add(rows);
        await this.#record.add(rows);
      })
    );
  }

  /** Undefined where what is damaged would count as new. */
  get markets(): MarketChanges | undefined {
    const compared = this.#compared;
    if (!compared) return allNew(this.#markets);
    if (!compared.whole) return undefined;
    return { ...summaryOf(compared.sides, compared.found), details: this.#details?.details ?? null };
  }

  /** Keys of the record's objects that were written. */
  get written(): ReadonlySet<string> {
    return this.#objects.written;
  }

  get size(): Size {
    return this.#objects.total;
  }

  /** Writes the record of the changes between two snapshots; null when there are none, or too many. */
  async finishRecord(since: string | undefined, until: string): Promise<ObjectRef | null> {
    const counts = this.markets;
    if (since === undefined || !counts || !this.#details) return null;
    return this.#record.finish({ since, until, counts });
  }
}

/** Whether a change record can be made, and is not too large. */
function isRecordable({ whole, found: { added, changed, removed } }: ArchiveDifference): boolean {
  return whole && added.length + 2 * changed.after.length + removed.length <= maxRecordLines;
}

/** What the first snapshot changes, or one whose predecessor is gone. */
function allNew(added: number): MarketChanges {
  return { added, changed: 0, removed: 0, first: { added: [], changed: [], removed: [] }, details: null };
}
