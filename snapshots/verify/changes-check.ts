import type { ChangeCounts, ChangeRecord, Manifest, ObjectRef } from "../../schemas/store/snapshot.ts";
import { countsOf, difference, type Sides } from "../changes/difference.ts";
import { Entries } from "../changes/entries.ts";
import { changeParts, readChangeRecord } from "../changes/record.ts";
import { differingRows, type ReadObject } from "../changes/walk.ts";
import { compareKeys, type MarketKey } from "../format/market-line.ts";
import { CorruptObjectError } from "../store/errors.ts";
import { layout } from "../store/layout.ts";

interface Named {
  since: string | undefined;
  until: string;
  counts: ChangeCounts | null;
}

/** Checks every byte of a change record and its parts against each other and the commit. */
export async function checkChangeRecord(
  read: ReadObject,
  ref: ObjectRef,
  named: Named,
): Promise<ChangeRecord> {
  const key = layout.changeRecord(ref.hash);
  const record = await readChangeRecord(read, ref);
  const { since, until, counts } = record;
  if (until !== named.until || since !== (named.since ?? since))
    throw new CorruptObjectError(key, "it belongs to other snapshots than its commit");
  const sides: Sides = { before: new Entries(), after: new Entries() };
  for (const side of ["before", "after"] as const) {
    let newest: MarketKey | undefined;
    for await (const market of marketsOf(read, record[side])) {
      if (newest && compareKeys(newest, market) >= 0)
        throw new CorruptObjectError(key, `market ${market.id} is not in the archive's order`);
      sides[side].add(market.row);
      newest = market;
    }
  }
  const found = countsOf(await difference(sides));
  const equal = (other: ChangeCounts) => JSON.stringify(found) === JSON.stringify({ ...found, ...other });
  if (!equal(counts) || (named.counts && !equal(named.counts)))
    throw new CorruptObjectError(key, "its counts differ from its markets, or from its commit's");
  const lines = found.added + 2 * found.changed + found.removed;
  if (lines !== sides.before.size + sides.after.size)
    throw new CorruptObjectError(key, "it names a market that did not change");
  return record;
}

/** Compares a change record with the two snapshots, market by market. */
export async function compareChangeRecord(
  read: ReadObject,
  key: string,
  record: ChangeRecord,
  { older, newer }: { older: Manifest; newer: Manifest },
): Promise<void> {
  const told = { before: marketsOf(read, record.before), after: marketsOf(read, record.after) };
  const differ = () => new CorruptObjectError(key, "it is not what differs between its snapshots");
  for await (const rows of differingRows(read, older, newer)) {
    for (const side of ["before", "after"] as const) {
      const row = rows[side];
      const next = row && (await told[side].next()).value;
      if (row && !next?.line.equals(row.line)) throw differ();
    }
  }
  for (const side of Object.values(told)) if (!(await side.next()).done) throw differ();
}

/** From the oldest market up. */
async function* marketsOf(read: ReadObject, parts: ChangeRecord["before"]) {
  for await (const part of changeParts(read, parts)) yield* part.checked().reverse();
}
