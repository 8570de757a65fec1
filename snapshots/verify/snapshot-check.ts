import { isDeepStrictEqual } from "node:util";
import { historyDays, ScoreDimensions, ScoreHistory } from "../../schemas/envelopes.ts";
import { type ProtocolDimensionKey, protocolDimensionKeys } from "../../schemas/protocol.ts";
import { listEntryOf, ProtocolScore, ScorePoint } from "../../schemas/records.ts";
import {
  type ChangeCounts,
  type ChangeRecord,
  type Commit,
  type Manifest,
  type NamedObject,
  type ObjectRef,
  type SegmentRef,
  SourceFiles,
} from "../../schemas/store/stored-objects.ts";
import { bounds } from "../../schemas/versions.ts";
import { countsOf, difference, Entries, type Sides } from "../changes/difference.ts";
import { changeParts } from "../changes/record.ts";
import { differingRows } from "../changes/walk.ts";
import { compareKeys, type MarketKey } from "../format/market-line.ts";
import { addRowsByFile, decodeOrigins, readPages } from "../index/segment.ts";
import { publicNames } from "../publish/public/mutable-objects.ts";
import { renderList } from "../publish/score-objects.ts";
import { CorruptObjectError, MissingObjectError } from "../store/errors.ts";
import { layout } from "../store/layout.ts";
import { readManifest, snapshotEntryOf } from "../store/manifest.ts";
import { namedBy, parseObject, partsOf, type ReadObject, readParsed } from "../store/objects.ts";
import type { PageCheck } from "./page-check.ts";
import { believeSegment, type CheckedSegment, checkSegment } from "./segment-check.ts";
import type { StoreCheck } from "./store-check.ts";

/** So that the next one is read while one is compared. Each takes some 30 MB of memory. */
const segmentsAtOnce = 2;

/** An earlier check has read what the commits up to `since` have. It only has to be among what the store lists. */
interface Earlier {
  since: number;
  /** Bytes by key. */
  listed: ReadonlyMap<string, number>;
}

export type SnapshotCheck = ReturnType<typeof snapshotCheck>;

/** Checks snapshots. What several of them share is checked once. */
export function snapshotCheck(
  check: StoreCheck,
  pages: PageCheck,
  { since, listed }: Earlier,
  progress: (step: string, done: number, of: number) => void,
) {
  const segments = new Map<string, CheckedSegment | undefined>();
  const manifests = new Map<string, Manifest | undefined>();
  const published = new Set<string>();

  const soundManifests = () => [...manifests.values()].filter((manifest) => manifest !== undefined);

  const isKnown = ({ entry }: Commit) => entry.commit <= since;

  async function checkSnapshot(commit: Commit): Promise<Manifest | undefined> {
    const key = layout.manifest(commit.manifest.hash);
    const manifest = await check.attempt(() => readManifest(check.storage, commit, soundManifests().at(-1)));
    if (!manifest) return undefined;
    check.count(key, commit.manifest.bytes);
    for (const [part, { bytes }] of partsOf(manifest)) check.count(part, bytes);
    let done = 0;
    const { length } = manifest.segments;
    const checkNext = async (ref: SegmentRef, part: StoreCheck) => {
      const look = () =>
        isKnown(commit)
          ? passOverSegment(part, ref)
          : checkSegment(part, ref, commit.entry.feedVersion, pages);
      if (!segments.has(ref.hash)) segments.set(ref.hash, await part.attempt(look));
      progress("checking segments", ++done, length);
      return segments.get(ref.hash);
    };
    const checked = await check.each(manifest.segments, checkNext, { concurrency: segmentsAtOnce });
    for (const { hash } of publicNames(manifest).values()) published.add(hash);
    if (isKnown(commit)) {
      for (const [name, named] of namedBy(manifest)) await passOver(check, name, named);
      return manifest;
    }
    await check.attempt(() => checkScores(check, key, manifest));
    await check.attempt(() => checkSources(check, key, manifest));
    const whole = checked.filter((segment) => segment !== undefined);
    if (whole.length === checked.length) await check.attempt(async () => checkManifest(key, manifest, whole));
    // Objects that no check has reached, because another object is damaged or their kind has no check of its own.
    const unseen = namedBy(manifest)
      .entries()
      .filter(([name]) => !check.hasSeen(name));
    await check.each(unseen, ([name, named], part) => part.attempt(() => part.read(name, named)), {
      bytes: ([, { bytes = 0 }]) => bytes,
    });
    return manifest;
  }

  /** Its pages are passed over, and what it says of itself is believed. */
  async function passOverSegment(part: StoreCheck, ref: SegmentRef): Promise<CheckedSegment | undefined> {
    const key = layout.segment(ref.hash);
    const stored = await part.read(key, ref);
    for (const page of readPages(key, stored)) await passOver(part, layout.page(page.hash), page);
    return believeSegment(part, ref, stored);
  }

  async function passOver(part: StoreCheck, key: string, { bytes }: { bytes?: number }): Promise<void> {
    await part.attempt(async () => {
      const size = listed.get(key);
      if (size === undefined) throw new MissingObjectError(key);
      if (size !== (bytes ?? size)) throw new CorruptObjectError(key, `it has ${size} bytes, not ${bytes}`);
      part.passOver(key, size);
    });
  }

  return {
    manifests: soundManifests,
    /** Hashes of all score lists and records that a manifest names. */
    published: published as ReadonlySet<string>,
    /** Checks the snapshot of a commit. Undefined when its manifest cannot be read. */
    async manifestOf(commit: Commit): Promise<Manifest | undefined> {
      const { hash } = commit.manifest;
      if (!manifests.has(hash)) manifests.set(hash, await checkSnapshot(commit));
      const manifest = manifests.get(hash);
      const { commit: number, publishedAt: _, withdrawn: __, ...entry } = commit.entry;
      if (manifest && !isDeepStrictEqual(entry, snapshotEntryOf(manifest, entry.feedVersion)))
        check.fault(layout.commit(number), "it disagrees with its manifest");
      return manifest;
    },
    /**
     * Checks the change record of a commit, and compares it with both snapshots if they are there. It may be missing
     * from `kept`, what the store has, only where a collection has deleted one of them.
     */
    async checkChanges(commit: Commit, before: Commit | undefined, kept: ReadonlySet<string>): Promise<void> {
      const ref = commit.changes;
      if (!ref) return;
      const key = layout.changeRecord(ref.hash);
      const [older, newer] = [before, commit].map((one) => one && manifests.get(one.manifest.hash));
      if (!(older && newer) && !kept.has(key)) return;
      const read = check.read.bind(check);
      await check.attempt(async () => {
        if (isKnown(commit)) {
          const parts = await readParsed(read, layout.changeRecord, ref);
          for (const part of [...parts.before, ...parts.after])
            await passOver(check, layout.changePart(part.hash), part);
          return;
        }
        const record = await checkChangeRecord(read, ref, commit, before);
        if (older && newer) await compareChangeRecord(read, key, record, { older, newer });
      });
    },
  };
}

function checkManifest(key: string, manifest: Manifest, segments: readonly CheckedSegment[]): void {
  segments.forEach((segment, index) => {
    const before = segments[index - 1];
    if (before && compareKeys(before.newest, segment.oldest) >= 0) {
      throw new CorruptObjectError(key, `its segments ${index - 1} and ${index} overlap`);
    }
  });
  const newest = segments.at(-1)?.newest.resolvedAt ?? 0;
  if (new Date(newest).toISOString() !== manifest.newestResolvedAt) {
    throw new CorruptObjectError(key, "its newestResolvedAt differs from its newest market's");
  }
  segments.forEach(({ index, ids }, position) => {
    const ref = manifest.segments[position]!;
    const refuse = (what: string) =>
      new CorruptObjectError(key, `it names another ${what} than ${layout.segment(ref.hash)} has`);
    if (JSON.stringify(index) !== JSON.stringify(ref.index)) throw refuse("index header");
    if (ids.root !== ref.ids.root) throw refuse("root of the ids");
  });
}

/** Every row must come from a listed file, and every file must have as many rows as the list says. */
async function checkSources(check: StoreCheck, manifestKey: string, manifest: Manifest): Promise<void> {
  const { sources, segments } = manifest;
  const origins = segments.flatMap((segment) => segment.origins ?? []);
  if (!sources && origins.length === 0) return;
  if (!sources || origins.length !== segments.length)
    throw new CorruptObjectError(manifestKey, "it does not tell the origins of every segment");
  const rows = new Map<string, number>();
  const read = await check.each(origins.entries(), ([index, ref], part) => {
    const key = layout.origins(ref.hash);
    return part.attemptRead(key, ref, (bytes) => {
      addRowsByFile(rows, decodeOrigins(key, bytes, segments[index]!.markets));
      return true;
    });
  });
  const whole = !read.includes(undefined);
  const key = layout.sourceFiles(sources.hash);
  await check.attemptRead(key, sources, (bytes) => {
    const { files } = parseObject(key, bytes, SourceFiles);
    const listed = new Map(files.filter((file) => file.rows > 0).map((file) => [file.hash, file.rows]));
    const same = listed.size === rows.size && [...rows].every(([hash, count]) => listed.get(hash) === count);
    if (whole && !same) throw new CorruptObjectError(key, "its numbers of rows are not those of the origins");
  });
}

/** Checks every byte of a change record and its parts against each other and the commit. */
async function checkChangeRecord(
  read: ReadObject,
  ref: ObjectRef,
  { entry, changeCounts }: Commit,
  before: Commit | undefined,
): Promise<ChangeRecord> {
  const key = layout.changeRecord(ref.hash);
  const record = await readParsed(read, layout.changeRecord, ref);
  const { since, until, counts } = record;
  if (until !== entry.snapshotId || since !== (before?.entry.snapshotId ?? since))
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
  const actual = countsOf(await difference(sides));
  const equal = (other: ChangeCounts) => JSON.stringify(actual) === JSON.stringify({ ...actual, ...other });
  if (!equal(counts) || (changeCounts && !equal(changeCounts)))
    throw new CorruptObjectError(key, "its counts differ from its markets, or from its commit's");
  const lines = actual.added + 2 * actual.changed + actual.removed;
  if (lines !== sides.before.size + sides.after.size)
    throw new CorruptObjectError(key, "it names a market that did not change");
  return record;
}

async function compareChangeRecord(
  read: ReadObject,
  key: string,
  record: ChangeRecord,
  { older, newer }: { older: Manifest; newer: Manifest },
): Promise<void> {
  const markets = { before: marketsOf(read, record.before), after: marketsOf(read, record.after) };
  const differ = () => new CorruptObjectError(key, "it is not what differs between its snapshots");
  for await (const rows of differingRows(read, older, newer)) {
    for (const side of ["before", "after"] as const) {
      const row = rows[side];
      const next = row && (await markets[side].next()).value;
      if (row && !next?.line.equals(row.line)) throw differ();
    }
  }
  for (const side of Object.values(markets)) if (!(await side.next()).done) throw differ();
}

/** From the oldest market up. */
async function* marketsOf(read: ReadObject, parts: ChangeRecord["before"]) {
  for await (const part of changeParts(read, parts)) yield* part.checked().reverse();
}

/**
 * Checks the score records of a snapshot, and that the list, histories, dimensions and manifest agree with them. Throws
 * CorruptObjectError only for the manifest.
 */
async function checkScores(
  check: StoreCheck,
  manifestKey: string,
  { scores, newestUpdatedAt }: Manifest,
): Promise<void> {
  const records = await readAll(check, scores.records, layout.publicObject, ProtocolScore);
  const whole = records.size === Object.keys(scores.records).length;
  const entries = [...records.values()].map(listEntryOf);
  const rendered = whole ? renderList(entries) : undefined;
  const listKey = layout.publicObject(scores.list.hash);
  await check.attemptRead(listKey, scores.list, (bytes) => {
    if (rendered && !rendered.list.equals(bytes))
      throw new CorruptObjectError(listKey, "it does not match the records");
  });
  const percentileOf = whole ? percentilesOf([...records.values()]) : undefined;
  const histories = await readAll(check, scores.histories, layout.privateObject, ScoreHistory, (history) =>
    historyFault(history, records.get(history.slug)),
  );
  await readAll(check, scores.dimensions, layout.privateObject, ScoreDimensions, (dimensions) => {
    const { slug } = dimensions;
    const fault = dimensionsFault(dimensions, histories.get(slug), percentileOf);
    return fault ?? recordFault(dimensions, records.get(slug));
  });
  if (rendered && rendered.newestUpdatedAt !== newestUpdatedAt) {
    throw new CorruptObjectError(manifestKey, "its newestUpdatedAt differs from its newest score's");
  }
}

/** Only valid objects, by slug. */
async function readAll<T extends { slug: string }>(
  check: StoreCheck,
  refs: Readonly<Record<string, NamedObject>>,
  keyOf: (hash: string) => string,
  schema: Parameters<typeof parseObject<T>>[2],
  faultOf: (object: T) => string | undefined = () => undefined,
): Promise<Map<string, T>> {
  const objects = new Map<string, T>();
  await check.each(Object.entries(refs), async ([slug, ref], part) => {
    const key = keyOf(ref.hash);
    const object = await part.attemptRead(key, ref, (bytes) => {
      const parsed = parseObject(key, bytes, schema);
      const fault = parsed.slug === slug ? faultOf(parsed) : `it belongs to ${parsed.slug}, not to ${slug}`;
      if (fault) throw new CorruptObjectError(key, fault);
      return parsed;
    });
    if (object) objects.set(slug, object);
  });
  return objects;
}

function historyFault({ count, points }: ScoreHistory, record: ProtocolScore | undefined) {
  if (count !== points.length) return "its count differs from the number of its points";
  const times = points.map(({ updatedAt }) => Date.parse(updatedAt));
  if (times.some((time, index) => index > 0 && time <= times[index - 1]!))
    return "its points are not in order";
  const days = (times.at(-1)! - times[0]!) / (24 * 3_600_000);
  if (days > historyDays) return `its points are more than ${historyDays} days apart`;
  const last = JSON.stringify(points.at(-1));
  return record && last !== JSON.stringify(pointOf(record))
    ? "its last point differs from the record"
    : undefined;
}

/** No object holds the scores of seven days ago, so `change7d` can only be checked for impossible values. */
function dimensionsFault(
  { dimensions }: ScoreDimensions,
  history: ScoreHistory | undefined,
  percentileOf: ((key: ProtocolDimensionKey, score: number) => number) | undefined,
): string | undefined {
  for (const { key, score, change7d, percentile } of dimensions) {
    const before = score - change7d;
    const possible = before >= bounds.score.min && before <= bounds.score.max;
    if (!possible || (history?.count === 1 && change7d !== 0)) return `its change7d of ${key} is impossible`;
    if (percentileOf && percentileOf(key, score) !== percentile)
      return `its percentile of ${key} does not match the records`;
  }
  return undefined;
}

function recordFault(detail: ScoreDimensions, record: ProtocolScore | undefined): string | undefined {
  if (!record) return undefined;
  const same = detail.updatedAt === record.updatedAt && detail.evidenceHash === record.evidenceHash;
  return same && detail.dimensions.every(({ key, score }) => record.dimensions[key] === score)
    ? undefined
    : "its scores differ from the record's";
}

/** Percent rank times 100, rounded half up. */
function percentilesOf(
  records: readonly ProtocolScore[],
): (key: ProtocolDimensionKey, score: number) => number {
  const scores = new Map(
    protocolDimensionKeys.map((key) => [key, records.map(({ dimensions }) => dimensions[key])]),
  );
  return (key, score) => {
    const below = scores.get(key)!.filter((other) => other < score).length;
    return records.length === 1 ? 0 : Math.round((100 * below) / (records.length - 1));
  };
}

const pointOf = (record: ProtocolScore) =>
  ScorePoint.parse(
    Object.fromEntries(Object.entries(record).filter(([name]) => Object.hasOwn(ScorePoint.shape, name))),
  );
