import { bulkhead } from "cockatiel";
import { LRUCache } from "lru-cache";
import type { Commit, Manifest } from "../../schemas/snapshot.ts";
import { difference, netSides, putsOf, type Sides } from "../changes/difference.ts";
import { Entries } from "../changes/entries.ts";
import { readChangeRecord } from "../changes/record.ts";
import { differingRows, type ReadObject } from "../changes/walk.ts";
import { ChangePart } from "../format/change-part.ts";
import { leafHash } from "../format/tree.ts";
import { layout } from "../store/layout.ts";
import { MissingObjectError } from "../store/objects.ts";
import type { Catalog } from "./catalog.ts";
import { type NetChanges, readChanges, readChangesGzip } from "./change-lines.ts";
import { type ChangeTexts, PageTexts, PartTexts, tagOf } from "./change-texts.ts";
import {
  InvalidParameterError,
  NoSnapshotError,
  SnapshotExpiredError,
  SnapshotNotFoundError,
} from "./errors.ts";
import { awaitBudget } from "./event-loop-budget.ts";
import { weakTag } from "./paging.ts";
import type { ChangesQuery } from "./query.ts";
import type { RowsStream } from "./rows.ts";

/** The net difference between two snapshots, from a line on. */
export interface ChangesPlan extends RowsStream {
  since: string;
  until: string;
  /** The root of the archive of `until`. */
  archiveRoot: string;
  etag: string;
}

/** Markets that are compared for an answer at most. Each takes about 100 bytes meanwhile. */
const maxEntries = 2_000_000;
/** Differences that are worked out at the same time. */
const plansAtOnce = 2;
/** Bytes of plans that are kept, of one at most, and for how long: an answer that breaks off is soon asked for again. */
const [keptBytes, keptBytesEach, keptMilliseconds] = [32 * 2 ** 20, 8 * 2 ** 20, 600_000];
const keptCommits = 10_000;
const fetchedAtOnce = 16;

const breathe = () => awaitBudget(4);

/** The commits of `since` and those of `until`, newest first: a snapshot may be published several times. */
interface Ends {
  from: readonly Commit[];
  to: readonly Commit[];
}

/** Works out what differs between two snapshots of a store, from change records or from the snapshots themselves. */
export class ChangesReader {
  readonly #catalog: Catalog;
  readonly #commits = new LRUCache<number, Commit>({ max: keptCommits });
  readonly #working = bulkhead(plansAtOnce, Number.POSITIVE_INFINITY);
  readonly #plans: LRUCache<string, NetChanges, Ends>;

  constructor(catalog: Catalog) {
    this.#catalog = catalog;
    this.#plans = new LRUCache<string, NetChanges, Ends>({
      maxSize: keptBytes,
      maxEntrySize: keptBytesEach,
      sizeCalculation: ({ bytes }) => bytes,
      ttl: keptMilliseconds,
      fetchMethod: (_name, _stale, { context: ends }) => this.#working.execute(() => this.#net(ends)),
      // Several clients may wait for this; an eviction must not abort it for them.
      ignoreFetchAbort: true,
    });
  }

  /**
   * Plans an answer. Throws InvalidParameterError, SnapshotNotFoundError, SnapshotExpiredError when the difference cannot be
   * told any more, NoSnapshotError, CorruptObjectError or StorageError.
   */
  async plan(query: ChangesQuery): Promise<ChangesPlan> {
    const { since, skip } = query;
    const current = this.#catalog.requireCurrent().commit;
    const until = query.until ?? current.snapshotId;
    const log = await this.#log(current);
    const from = await this.#named(log, "since", since);
    const ends = { from, to: await this.#named(log, "until", until) };
    const net =
      (await this.#plans.fetch(`${since} ${until}`, { context: ends })) ??
      (await this.#working.execute(() => this.#net(ends)));
    const total = net.deletes.length + net.puts.length;
    if (skip > total)
      throw new InvalidParameterError("skip", `skip is more than the ${total} lines of this answer.`);
    return {
      since,
      until,
      archiveRoot: ends.to[0]!.archiveRoot,
      etag: weakTag(since, until, skip, "changes"),
      count: total - skip,
      advice: "Ask for fewer changes with until, or wait for the next day.",
      read: () => readChanges(net, skip),
      readGzip: () => readChangesGzip(net, skip),
    };
  }

  /** The commits with this snapshot id. */
  async #named(log: readonly Commit[], parameter: string, id: string): Promise<Commit[]> {
    const commits = log.filter(({ snapshotId }) => snapshotId === id);
    if (commits.length > 0) return commits;
    // Another process may have loaded a commit sooner than this one.
    const newest = await this.#catalog.newestCommit();
    if (newest && newest.commit > log[0]!.commit)
      throw new NoSnapshotError("A newer snapshot is being loaded; try again in a few seconds.");
    throw new SnapshotNotFoundError(
      parameter,
      `No snapshot with the id that ${parameter} gives was published.`,
    );
  }

  /** The commits of the store from the current one back, as far as they are there. */
  async #log(current: Commit): Promise<Commit[]> {
    const log = [current];
    for (let number = current.commit - 1; number > 0; ) {
      const numbers = Array.from({ length: Math.min(number, fetchedAtOnce) }, (_, n) => number - n);
      const commits = await Promise.all(numbers.map((one) => this.#commit(one)));
      for (const commit of commits) {
        if (!commit || commit.digest !== log.at(-1)!.previous) return log;
        log.push(commit);
      }
      number -= numbers.length;
    }
    return log;
  }

  async #commit(number: number): Promise<Commit | undefined> {
    const commit = this.#commits.get(number) ?? (await this.#catalog.commit(number));
    if (commit) this.#commits.set(number, commit);
    return commit;
  }

  /** Tries the change records between the commits that are nearest to each other first, and then the snapshots. */
  async #net(ends: Ends): Promise<NetChanges> {
    for (const pair of pairsOf(ends)) {
      const net = await ifKept(() => this.#fromRecords(pair));
      if (net) return net;
    }
    const net = await this.#fromSnapshots(ends);
    if (net) return net;
    throw new SnapshotExpiredError(
      "since",
      "What changed between these snapshots is no longer kept, or is too much for one answer. Take the whole archive: an " +
        "export of /api/v1/markets/exports, or /api/v1/markets/historical with Accept: application/x-ndjson.",
    );
  }

  /** The records from one commit to another, added up; undefined when one was never made, or when they are too many. */
  async #fromRecords([from, to]: Pair): Promise<NetChanges | undefined> {
    const [first, last] = [Math.min(from.commit, to.commit) + 1, Math.max(from.commit, to.commit)];
    const records = [];
    let lines = 0;
    for (let number = first; number <= last; number += 1) {
      const commit = number === this.#current?.commit ? this.#current : await this.#commit(number);
      if (!commit?.changes) return undefined;
      const record = await readChangeRecord(this.#read, commit.changes);
      lines += [...record.before, ...record.after].reduce((sum, part) => sum + part.lines, 0);
      if (lines > maxEntries) return undefined;
      records.push(record);
    }
    const texts = new PartTexts(this.#catalog.objects);
    const sideOf = async (parts: (typeof records)[number]["before"]) => {
      const side = new Entries();
      for (const ref of parts) {
        const key = layout.changePart(ref.hash);
        const part = new ChangePart(key, await this.#read(key, ref));
        await breathe();
        const place = texts.add(ref);
        for (let line = 0; line < part.lines; line += 1)
          side.add(part.market(line), part.leaf(line), tagOf(place, line));
      }
      return side;
    };
    const steps: Sides[] = [];
    for (const { before, after } of records)
      steps.push({ before: await sideOf(before), after: await sideOf(after) });
    const back = steps.map(({ before, after }) => ({ before: after, after: before })).reverse();
    return netOf(await netSides(from.commit <= to.commit ? steps : back, breathe), texts);
  }

  /** What differs between the two snapshots themselves; undefined when one is gone, or when it is too much. */
  async #fromSnapshots({ from, to }: Ends): Promise<NetChanges | undefined> {
    const [older, newer] = [await this.#manifest(from), await this.#manifest(to)];
    if (!older || !newer) return undefined;
    const texts = new PageTexts(this.#catalog.objects);
    const sides: Sides = { before: new Entries(), after: new Entries() };
    return ifKept(async () => {
      for await (const { before, after } of differingRows(this.#read, older, newer, breathe)) {
        if (before) sides.before.add(before, leafHash(before.line));
        if (after) sides.after.add(after, leafHash(after.line), tagOf(texts.add(after.page), after.place));
        if (sides.before.size + sides.after.size > maxEntries) return undefined;
      }
      return netOf(sides, texts);
    });
  }

  /** The manifest of a snapshot, of whichever of its commits still has one. */
  async #manifest(commits: readonly Commit[]): Promise<Manifest | undefined> {
    for (const commit of commits) {
      const manifest = await ifKept(() => this.#catalog.manifest(commit));
      if (manifest) return manifest;
    }
    return undefined;
  }

  get #current(): Commit | undefined {
    return this.#catalog.current()?.commit;
  }

  readonly #read: ReadObject = (key, ref) => this.#catalog.objects.get(key, ref);
}

async function netOf(sides: Sides, texts: ChangeTexts): Promise<NetChanges> {
  const found = await difference(sides, breathe);
  const puts = (await putsOf(found, sides.after, breathe)).map((index) => sides.after.tag(index));
  const deletes = Array.from(found.removed, (index) => sides.before.id(index));
  return { deletes, puts, texts, bytes: deletes.length * 64 + puts.byteLength + texts.bytes };
}

type Pair = [from: Commit, to: Commit];

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

/** What `work` gives; undefined when the store no longer has what it reads. */
async function ifKept<T>(work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof MissingObjectError) return undefined;
    throw error;
  }
}
