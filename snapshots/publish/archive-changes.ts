import type { ObjectRef, Size } from "../../schemas/store/snapshot.ts";
import { ChangeRecordWriter, maxRecordLines } from "../changes/record.ts";
import { DetailCount, type MarketChanges, summaryOf } from "../changes/summary.ts";
import type { ArchiveDifference } from "./guards.ts";
import type { TakeDifference } from "./merge-markets.ts";
import type { ObjectWriter } from "./object-writer.ts";

/** Sums up and records what a run changes in the archive, while the rows that differ are walked. */
export class ArchiveChanges {
  readonly #objects: ObjectWriter;
  readonly #compared: ArchiveDifference | undefined;
  readonly #markets: number;
  readonly #record: ChangeRecordWriter;
  readonly #details: DetailCount | undefined;

  /**
   * `objects` takes the record, which is no part of the snapshot. `compared` is undefined where there is nothing to
   * compare the archive of `markets` markets with.
   */
  constructor(objects: ObjectWriter, compared: ArchiveDifference | undefined, markets: number) {
    this.#objects = objects;
    this.#compared = compared;
    this.#markets = markets;
    this.#record = new ChangeRecordWriter(objects);
    if (compared && isRecordable(compared)) this.#details = new DetailCount(compared.sides, compared.found);
  }

  /** Takes the rows that differ, oldest place first. Undefined when nobody looks at them. */
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

  /** Undefined where damaged rows of the current snapshot would count as new. */
  get markets(): MarketChanges | undefined {
    const compared = this.#compared;
    if (!compared) return allNew(this.#markets);
    if (!compared.whole) return undefined;
    return { ...summaryOf(compared.sides, compared.found), details: this.#details?.details ?? null };
  }

  get written(): ReadonlySet<string> {
    return this.#objects.written;
  }

  get size(): Size {
    return this.#objects.total;
  }

  /** Null when there are no changes, or too many. */
  async finishRecord(since: string | undefined, until: string): Promise<ObjectRef | null> {
    const counts = this.markets;
    if (since === undefined || !counts || !this.#details) return null;
    return this.#record.finish({ since, until, counts });
  }
}

function isRecordable({ whole, found: { added, changed, removed } }: ArchiveDifference): boolean {
  return whole && added.length + 2 * changed.after.length + removed.length <= maxRecordLines;
}

/** The changes of the first snapshot, or of one whose predecessor is gone. */
function allNew(added: number): MarketChanges {
  return { added, changed: 0, removed: 0, first: { added: [], changed: [], removed: [] }, details: null };
}
