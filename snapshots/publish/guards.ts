import { crc32 } from "node:zlib";
import { Fault } from "../../schemas/errors.ts";
import { type ChangeCounts, maxProtocols, type ObjectRef } from "../../schemas/store/stored-objects.ts";
import { feedVersion } from "../../schemas/versions.ts";
import { type Difference, difference, Entries, type Sides } from "../changes/difference.ts";
import { changeRecordWriter, maxRecordLines, rowOf } from "../changes/record.ts";
import { detailCount, type MarketChanges, summaryOf } from "../changes/summary.ts";
import { type MarketLine, memberOfLine, sharedText } from "../format/market-line.ts";
import { nameOfAll } from "../sources/files/source-files.ts";
import { type FileNumbers, SourceRefusal, type Sources } from "../sources/sources.ts";
import type { ObjectWriter } from "./object-writer.ts";
import type { Before, PreviousSnapshot } from "./previous-snapshot.ts";
import type { ScoreObjects } from "./score-objects.ts";

/** The most markets or protocols of the current snapshot that may disappear or change in one run. */
const sharePercent = 5;
/** An archive that grows by this factor was probably loaded twice. */
const growth = 2;

/** Exact numbers that the operator has reviewed and allows. `removed` counts markets and protocols together. */
export type Allowance = Partial<Record<keyof ChangeCounts, number | undefined>>;

/** What a publish run changes in the archive. */
export interface ArchiveDifference {
  sides: Sides;
  differences: Difference;
  /**
   * What the guards judge. `changed` counts markets that changed under the same formula version and, in an upgrade of
   * the feed, in what both versions have.
   */
  judged: Pick<ChangeCounts, "changed" | "removed">;
  /** Whether every removed or changed market of the current snapshot can still be read. */
  whole: boolean;
}

/**
 * Two archives side by side, filled market by market. One is the current snapshot's. The tag of an entry tells formula
 * versions apart and, in an upgrade of the feed, in its lower half what both versions have.
 */
export function archiveSides(versionBefore: string) {
  const [before, after] = [new Entries(), new Entries()];
  const upgrade = versionBefore !== feedVersion;
  const shared = upgrade ? sharedText(versionBefore) : undefined;
  const tagOf = (record: Uint8Array) => {
    const formula = crc32(memberOfLine(record, "formulaVersion") ?? "");
    // A half has 16 bits, so two values look the same once in 65,536.
    return shared ? ((formula & 0xffff0000) | (crc32(shared(record)) & 0xffff)) >>> 0 : formula;
  };
  return {
    add: (side: keyof Sides, market: MarketLine) =>
      (side === "before" ? before : after).add(rowOf(market), tagOf(market.line)),
    /** `whole`: every removed or changed market of the current snapshot was added. */
    async difference(whole: boolean): Promise<ArchiveDifference> {
      const differences = await difference({ before, after });
      const { changed, removed } = differences;
      const judgedChanges = changed.before.filter((index, position) => {
        const [old, fresh] = [before.tag(index), after.tag(changed.after[position]!)];
        return upgrade ? old >>> 16 === fresh >>> 16 && old !== fresh : old === fresh;
      });
      const judged = { changed: judgedChanges.length, removed: removed.length };
      return { sides: { before, after }, differences, judged, whole };
    },
  };
}
export type ArchiveSides = ReturnType<typeof archiveSides>;

/**
 * Compares the rows of a publish run, as far as they are on the side `after`, with the current snapshot. `kept` is not
 * 0 at the ordinals of its other, unchanged rows. Reads only those pages of it that hold a removed or changed row: the
 * cost grows with what differs, not with the archive.
 */
export async function compareRun(
  previous: PreviousSnapshot,
  kept: FileNumbers,
  sides: ArchiveSides,
): Promise<ArchiveDifference> {
  let whole = previous.knowsPages;
  for (const page of previous.rows.pages) {
    if (!kept.subarray(page.start, page.start + page.markets).includes(0)) continue;
    whole &&= page.usable;
    if (!page.usable) continue;
    for (const market of await previous.rows.marketsOf(page))
      if (kept[market.ordinal] === 0) sides.add("before", market);
  }
  return sides.difference(whole);
}

/** Takes what differs at one place of the archive, oldest place first. */
export type TakeDifference = (rows: { before?: MarketLine; after?: MarketLine }) => Promise<void>;

/**
 * Sums up and records what a run changes in the archive, while the rows that differ are walked. `objects` takes the
 * record, which is no part of the snapshot. `compared` is undefined where there is nothing to compare the archive of
 * `total` markets with.
 */
export function archiveChanges(
  objects: ObjectWriter,
  compared: ArchiveDifference | undefined,
  total: number,
) {
  const record = changeRecordWriter(objects);
  /** Undefined where the changes are not recorded: nothing is known of them, or they are too many. */
  const details =
    compared && isRecordable(compared) ? detailCount(compared.sides, compared.differences) : undefined;
  const take: TakeDifference = async (rows) => {
    details!.add(rows);
    await record.add(rows);
  };
  /** Undefined where damaged rows of the current snapshot would count as new. */
  const markets = (): MarketChanges | undefined => {
    if (!compared) return allNew(total);
    if (!compared.whole) return undefined;
    return { ...summaryOf(compared.sides, compared.differences), details: details?.result() ?? null };
  };
  return {
    objects,
    markets,
    /** Undefined when nobody looks at the rows that differ. */
    take: details && take,
    /** Null when there are no changes, or too many. */
    async finishRecord(since: string | undefined, until: string): Promise<ObjectRef | null> {
      const counts = markets();
      return since === undefined || !counts || !details ? null : record.finish({ since, until, counts });
    },
  };
}
export type ArchiveChanges = ReturnType<typeof archiveChanges>;

function isRecordable({ whole, differences: { added, changed, removed } }: ArchiveDifference): boolean {
  return whole && added.length + 2 * changed.after.length + removed.length <= maxRecordLines;
}

/** The changes of the first snapshot, or of one whose predecessor is gone. */
function allNew(added: number): MarketChanges {
  return { added, changed: 0, removed: 0, first: { added: [], changed: [], removed: [] }, details: null };
}

/**
 * Refuses a run that would change more than an ordinary one explains. The error names the numbers and the options that
 * allow them. Where the current snapshot is damaged, its protocols or what differs are unknown or too low; then its
 * counts tell how much is gone or new at least.
 */
export function checkGuards(
  { log, previous }: Before,
  compared: ArchiveDifference | undefined,
  after: { markets: number; scores: Pick<ScoreObjects, "records"> },
  allowed: Allowance = {},
): void {
  if (!log.newest) return;
  const { counts } = log.newest.entry;
  const { changed, removed: lost } = compared?.judged ?? { changed: 0, removed: 0 };
  const removed = Math.max(lost, counts.markets - after.markets);
  const markets = { added: after.markets - counts.markets + removed, changed, removed };
  const { records } = after.scores;
  const before = previous?.manifest.scores?.records;
  const gone = before
    ? Object.keys(before).filter((slug) => !records.has(slug)).length
    : Math.max(0, counts.protocols - records.size);
  const tooMany = (count: number, of: number) => count * 100 > of * sharePercent;
  const faults: string[] = [];
  const needed: Partial<ChangeCounts> = {};
  const judge = (kind: keyof ChangeCounts, count: number, broken: boolean, what: string) => {
    if (!broken) return;
    needed[kind] = count;
    if (allowed[kind] === count) return;
    const other = allowed[kind] === undefined ? "" : `, not ${allowed[kind]}`;
    faults.push(`${what}; if that is meant, publish with --allow-${kind} ${count}${other}`);
  };
  judge(
    "removed",
    removed + gone,
    tooMany(markets.removed, counts.markets) || tooMany(gone, counts.protocols),
    `${markets.removed} of ${counts.markets} markets and ${gone} of ${counts.protocols} protocols are gone`,
  );
  judge(
    "changed",
    markets.changed,
    tooMany(markets.changed, counts.markets),
    `${markets.changed} of ${counts.markets} markets changed under an unchanged formula_version`,
  );
  judge(
    "added",
    markets.added,
    after.markets >= growth * counts.markets,
    `the archive grows from ${counts.markets} to ${after.markets} markets, ${markets.added} of them new`,
  );
  if (faults.length > 0)
    throw new Fault("GUARD_REFUSED", `The sources look broken: ${faults.join(". ")}.`, { needed });
}

/** Refuses source files that would make more of something than readers accept. */
export function requireAtMost(file: string, count: number, most: number, what: string): void {
  const rule = `would make ${count} ${what}, more than the ${most} that a snapshot can have`;
  if (count > most) throw new SourceRefusal([{ file, rule }]);
}

export function requireFewProtocols({ scoreFiles }: Pick<Sources, "scoreFiles">, count: number): void {
  requireAtMost(nameOfAll(scoreFiles, "protocol_scores"), count, maxProtocols, "protocols");
}
