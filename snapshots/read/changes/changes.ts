import { bulkhead } from "cockatiel";
import { Fault } from "../../../schemas/errors.ts";
import { paging } from "../../../schemas/filters.ts";
import type {
  ChangePartRef,
  ChangeRecord,
  Manifest,
  ObjectRef,
} from "../../../schemas/store/stored-objects.ts";
import { Entries, netSides, type Sides } from "../../changes/difference.ts";
import { changeParts, maxRecordLines, rowOf } from "../../changes/record.ts";
import { differingRows } from "../../changes/walk.ts";
import type { CompressedPage } from "../../format/page.ts";
import { MissingObjectError, ObjectError, unless } from "../../store/errors.ts";
import { inOrder, type Turn } from "../../store/in-parallel.ts";
import { layout } from "../../store/layout.ts";
import { type ReadObject, readParsed } from "../../store/objects.ts";
import { type StreamChunk, weakTag } from "../answer.ts";
import { budgets, GivenUpError, Memo, type Payer, paidTurns } from "../budgets.ts";
import type { Catalog } from "../catalog/catalog.ts";
import type { LogEntry } from "../catalog/commit-log.ts";
import { invalidParameter, optionalInteger, type Parameters, snapshotIdOf } from "../parameters.ts";
import {
  linesOf,
  type NetChanges,
  netOf,
  pageTexts,
  partTexts,
  placeIn,
  readChanges,
  readChangesGzip,
  tagOf,
} from "./change-lines.ts";

/** A query of GET /api/v1/markets/changes. */
export interface ChangesQuery {
  /** Snapshot ids; without `until` the current one is meant. */
  since: string;
  until: string | undefined;
  /** Lines of the answer that the caller has already. */
  skip: number;
}

/** INTERFACE 4.8. */
export function parseChangesQuery(parameters: Parameters): ChangesQuery {
  const [since, until] = [snapshotIdOf(parameters, "since"), snapshotIdOf(parameters, "until")];
  if (since === undefined)
    throw invalidParameter("since", "since is missing: the id of the snapshot that your copy has.");
  const skip = optionalInteger(parameters, "skip", 0, paging.maxPage);
  if (skip !== undefined && until === undefined)
    throw invalidParameter("skip", "skip counts lines of one answer: give its X-Snapshot-Id as until, too.");
  return { since, until, skip: skip ?? 0 };
}

/**
 * The most markets that are compared for an answer: those of an upgrade, and of smaller changes around it. Each takes
 * about 100 bytes.
 */
const maxEntries = 1.25 * maxRecordLines;
/** Differences that are worked out at the same time. */
const plansAtOnce = 2;
/** Records or parts that a difference reads side by side. Other answers need connections to the store, too. */
const concurrency = 16;
/** Lines of a part that are taken in a turn: half a millisecond. */
const linesAtOnce = 128;
/** Bytes of a plan without changes, its name included. */
const planBytes = 1000;

/** The commits of `since` and those of `until`, newest first: a snapshot may be published several times. */
interface Ends {
  from: readonly LogEntry[];
  to: readonly LogEntry[];
}

/** `name` is that of the difference among those that are kept. */
interface Work {
  name: string;
  ends: Ends;
  payer: Payer;
}

/** Works out what differs between two snapshots of a store, from change records or from the snapshots themselves. */
export function changesReader(catalog: Catalog) {
  const read: ReadObject = (key, ref) => catalog.objects.get(key, ref);
  const working = bulkhead(plansAtOnce, Number.POSITIVE_INFINITY);
  /** Also keeps that a difference is gone: finding that out again may take seconds. */
  const nets = new Memo<NetChanges | "gone">(
    budgets.differences,
    (plan) => planBytes + (plan === "gone" ? 0 : plan.bytes),
  );

  /** Where an object has gone since a difference was worked out, finds out anew whether it can be told. */
  async function* whileKept(chunks: AsyncGenerator<StreamChunk, void, void>, work: Work) {
    try {
      yield* chunks;
    } catch (error) {
      if (!(error instanceof ObjectError)) throw error;
      nets.forget(work.name);
      throw (await netFor(work)) === "gone" ? gone() : error;
    }
  }

  /** Work that somebody else gave up is begun again. */
  async function netFor({ name, ends, payer }: Work): Promise<NetChanges | "gone"> {
    for (;;) {
      try {
        const make = () => netBetween(ends, paidTurns(payer));
        return await nets.get(name, () => working.execute(make));
      } catch (error) {
        if (!(error instanceof GivenUpError)) throw error;
        if (error.payer === payer) throw error.cause ?? error;
      }
    }
  }

  /** The commits with this snapshot id, newest first. Another process may have seen one that this one has not. */
  async function named(parameter: string, id: string): Promise<LogEntry[]> {
    const isNamed = ({ snapshotId }: LogEntry) => snapshotId === id;
    const { log } = catalog;
    if (await log.newestWith(isNamed)) return (await log.believed()).filter(isNamed);
    throw new Fault("SNAPSHOT_NOT_FOUND", `No snapshot with the id that ${parameter} gives was published.`, {
      parameter,
    });
  }

  /** The newest commit whose snapshot can be read, or else the newest. Its tag is confirmed without any work. */
  async function keptAmong(commits: readonly LogEntry[]): Promise<LogEntry> {
    for (const commit of commits) if (await catalog.isReadable(commit)) return commit;
    return commits[0]!;
  }

  /** Tries the change records between the commits that are nearest to each other first, and then the snapshots. */
  async function netBetween(ends: Ends, turn: Turn): Promise<NetChanges | "gone"> {
    for (const pair of pairsOf(ends)) {
      const net = await unless(ObjectError, () => fromRecords(pair, turn));
      if (net) return net;
    }
    return (await fromSnapshots(ends, turn)) ?? "gone";
  }

  /** Adds up the records from one commit to another; undefined when one was never made, or when they are too many. */
  async function fromRecords([from, to]: Pair, turn: Turn): Promise<NetChanges | undefined> {
    const [first, last] = [Math.min(from.commit, to.commit) + 1, Math.max(from.commit, to.commit)];
    const records: ChangeRecord[] = [];
    let lines = 0;
    const readRecord = (ref: ObjectRef) => readParsed(read, layout.changeRecord, ref);
    const refsMade = recordsMade(first, last, turn);
    for await (const record of inOrder(refsMade, readRecord, { bytes: ({ bytes }) => bytes, concurrency })) {
      lines += [...record.before, ...record.after].reduce((sum, part) => sum + part.lines, 0);
      if (lines > maxEntries) return undefined;
      records.push(record);
    }
    if (records.length <= last - first) return undefined;
    const sources: ChangePartRef[] = [];
    const refs = records.flatMap(({ before, after }) => [...before, ...after]);
    await using parts = changeParts(read, refs, { concurrency });
    const sideOf = async (some: ChangeRecord["before"]) => {
      const side = new Entries();
      for (const ref of some) {
        const part = (await parts.next()).value!;
        const source = placeIn(sources, ref);
        for (let line = 0; line < part.lines; line += 1) {
          if (line % linesAtOnce === 0) await turn();
          side.add(part.row(line), tagOf(source, line));
        }
      }
      return side;
    };
    const steps: Sides[] = [];
    for (const { before, after } of records)
      steps.push({ before: await sideOf(before), after: await sideOf(after) });
    const back = steps.map(({ before, after }) => ({ before: after, after: before })).reverse();
    const net = await netSides(from.commit <= to.commit ? steps : back, turn);
    return netOf(net, partTexts(catalog.objects, sources), turn);
  }

  /** Up to the first commit that has none. */
  async function* recordsMade(first: number, last: number, turn: Turn): AsyncGenerator<ObjectRef> {
    for (let number = first; number <= last; number += 1) {
      await turn();
      const commit = await catalog.log.commit(number);
      if (!commit?.changes) return;
      yield commit.changes;
    }
  }

  /** Compares the two snapshots themselves; undefined when one is gone, or when too much differs. */
  async function fromSnapshots({ from, to }: Ends, turn: Turn): Promise<NetChanges | undefined> {
    await turn();
    const [older, newer] = [await manifestOf(from), await manifestOf(to)];
    if (!older || !newer) return undefined;
    const pages: CompressedPage[] = [];
    const sides: Sides = { before: new Entries(), after: new Entries() };
    return unless(MissingObjectError, async () => {
      for await (const { before, after } of differingRows(read, older, newer, turn)) {
        if (before) sides.before.add(rowOf(before));
        if (after) sides.after.add(rowOf(after), tagOf(placeIn(pages, after.page), after.index));
        if (sides.before.size + sides.after.size > maxEntries) return undefined;
      }
      return netOf(sides, pageTexts(catalog.objects, pages), turn);
    });
  }

  /** Tries the commits of a snapshot until one still has its manifest. */
  async function manifestOf(commits: readonly LogEntry[]): Promise<Manifest | undefined> {
    for (const commit of commits) {
      const listed = await unless(MissingObjectError, () => catalog.listed(commit));
      if (listed) return listed.manifest;
    }
    return undefined;
  }

  return async (query: ChangesQuery, payer: Payer) => {
    const { since, skip } = query;
    const until = query.until ?? catalog.requireCurrent().commit.snapshotId;
    const ends = { from: await named("since", since), to: await named("until", until) };
    const work = { name: `${since} ${until}`, ends, payer };
    const commit = await keptAmong(ends.to);
    const etag = weakTag(commit, since, until, skip, "changes");
    /** The net difference between two snapshots, from a line on. */
    const plan = async () => {
      const net = await netFor(work);
      if (net === "gone") throw gone();
      const total = linesOf(net);
      if (skip > total)
        throw invalidParameter("skip", `skip is more than the ${total} lines of this answer.`);
      return {
        since,
        until,
        archiveRoot: ends.to[0]!.archiveRoot,
        count: total - skip,
        advice: "Ask for fewer changes with until, or wait for the next day.",
        read: () => whileKept(readChanges(net, skip), work),
        readGzip: () => whileKept(readChangesGzip(net, skip), work),
      };
    };
    return { commit, etag, plan };
  };
}

function gone(): Fault {
  return new Fault(
    "SNAPSHOT_EXPIRED",
    "What changed between these snapshots is no longer kept, or is too much for one answer. Take the whole archive: " +
      "an export of /api/v1/markets/exports, or /api/v1/markets/historical with Accept: application/x-ndjson.",
    { parameter: "since" },
  );
}

type Pair = [from: LogEntry, to: LogEntry];

/** Each commit of `from` with those of `to` next to it, nearest pairs first. */
function pairsOf({ from, to }: Ends): Pair[] {
  const steps = ([a, b]: Pair) => Math.abs(a.commit - b.commit);
  return from
    .flatMap((a): Pair[] => {
      const later = to.findLast((b) => b.commit >= a.commit);
      const earlier = to.find((b) => b.commit < a.commit);
      return [later, earlier].flatMap((b) => (b ? [[a, b]] : []));
    })
    .sort((a, b) => steps(a) - steps(b));
}
