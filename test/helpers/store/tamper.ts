import { filterValuesOf } from "../../../schemas/filters.ts";
import type { HistoricalMarket } from "../../../schemas/records.ts";
import {
  Commit,
  type CommitEntry,
  type Manifest,
  ManifestRoot,
  type ObjectRef,
  SegmentList,
  type SegmentRef,
} from "../../../schemas/store/stored-objects.ts";
import { chunkBytes } from "../../../snapshots/format/bytes.ts";
import { tilesOf } from "../../../snapshots/format/log-tiles.ts";
import { compressPage, type Page, readRun } from "../../../snapshots/format/page.ts";
import { leafHash, pageRootOf, rootOver, tileEncoder } from "../../../snapshots/format/tree.ts";
import { columnsOf, sectionRootOf } from "../../../snapshots/index/index-header.ts";
import type { WordsRef } from "../../../snapshots/index/index-reader.ts";
import { encodeSegment, readIndexHeader, readPages } from "../../../snapshots/index/segment.ts";
import { WordTable } from "../../../snapshots/index/word-table.ts";
import { issueKey, revokeKey } from "../../../snapshots/keys/keys.ts";
import { layout, sha256 } from "../../../snapshots/store/layout.ts";
import { entryOf, tileKey } from "../../../snapshots/store/log/tiles.ts";
import { divideManifest, readScoreText, snapshotEntryOf } from "../../../snapshots/store/manifest.ts";
import { referTo, seal } from "../../../snapshots/store/objects.ts";
import { decodeRows } from "../archive/index-rows.ts";
import { pageEnds, segmentEnds } from "../archive/odd-markets.ts";
import { publishRecords, recordsOf } from "../publish/records.ts";
import { memoryStorage } from "./storages.ts";

/** The content of a store by key. */
export type Objects = Map<string, Buffer>;

/** A store of three commits, two keys and a revocation; the newest archive has two segments and 120 markets. */
export async function goodStore(): Promise<Objects> {
  const objects: Objects = new Map();
  const storage = memoryStorage(objects);
  const [[pageEnd], [segmentEnd]] = [pageEnds().take(1), segmentEnds().take(1)];
  for (const last of [60, 100, 118]) {
    const records = recordsOf(0, last);
    // Pages hardly longer than the shortest there may be: one of the first segment, two of the other.
    const ends = [
      { ...records[last - 36]!, id: segmentEnd! },
      { ...records[Math.max(last - 75, 0)]!, id: pageEnd! },
    ];
    await publishRecords(storage, [...ends, ...records], 600 + last);
  }
  const now = new Date("2026-03-01T00:00:00.000Z");
  await issueKey(storage, { plan: "aegis", owner: "acme" }, now);
  const { record } = await issueKey(storage, { plan: "developer", owner: "other", quota: 5 }, now);
  await revokeKey(storage, record.id, now);
  return objects;
}

const parse = (bytes: Buffer | undefined): unknown => JSON.parse(String(bytes));

/** What a changed commit says. */
export type CommitChanges = Partial<Omit<Commit, "entry">> & { entry?: Partial<CommitEntry> };

/** Changes the newest commit, seals it again without a signature, and makes the public log agree with it. */
export function replaceCommit(objects: Objects, { entry, ...changes }: CommitChanges): string {
  const keys = [...objects.keys()].filter((key) => key.startsWith(layout.commit.prefix)).sort();
  const key = keys.at(-1)!;
  const { digest: _, note: __, ...content } = Commit.parse(parse(objects.get(key)));
  // The change record tells of what was there before.
  const unrecorded = { changes: null, changeCounts: null };
  const changed = { ...content, entry: { ...content.entry, ...entry } };
  objects.set(key, seal({ ...changed, ...unrecorded, ...changes }));
  const encode = tileEncoder(keys.map((name) => entryOf(Commit.parse(parse(objects.get(name))))));
  for (const tile of tilesOf(keys.length)) objects.set(tileKey(tile), encode(tile)!);
  return key;
}

export function newestCommitIn(objects: Objects): Commit {
  const commits = [...objects.keys()].filter((key) => key.startsWith(layout.commit.prefix)).sort();
  return Commit.parse(parse(objects.get(commits.at(-1)!)));
}

export const newestEntry = (objects: Objects): CommitEntry => newestCommitIn(objects).entry;

/** The newest manifest. */
export function newestManifest(objects: Objects): Manifest {
  const { manifest } = newestCommitIn(objects);
  const root = ManifestRoot.parse(parse(objects.get(layout.manifest(manifest.hash))));
  const { lists, scores } = root.parts;
  const read = ({ hash }: ObjectRef) =>
    SegmentList.parse(parse(objects.get(layout.segmentList(hash)))).segments;
  const found = lists.map(read);
  return {
    ...root,
    lists: found,
    segments: found.flat(),
    scores: readScoreText("scores", objects.get(layout.scoreLines(scores.hash))!),
  };
}

/** What a changed manifest says. */
export type Changes = Partial<Omit<Manifest, "sources">> & { sources?: undefined };

/**
 * Puts another manifest in the newest one's place, and makes the commit agree with it, unless its entry is to say
 * something else. Returns its key.
 */
export function replaceManifest(objects: Objects, changes: Changes, entry?: Partial<CommitEntry>): string {
  const { parts: _, lists: __, ...content } = { ...newestManifest(objects), ...changes };
  const { manifest, stored: bytes, parts } = divideManifest(content);
  for (const [key, part] of parts) objects.set(key, part);
  const hash = sha256(bytes);
  objects.set(layout.manifest(hash), bytes);
  const told = entry ?? snapshotEntryOf(manifest, newestEntry(objects).feedVersion);
  replaceCommit(objects, { manifest: { hash, bytes: bytes.length }, entry: told });
  return layout.manifest(hash);
}

/** Puts another segment in the place of one of the newest snapshot, and makes all above agree. Returns its key. */
export function replaceSegment(
  objects: Objects,
  index: number,
  bytes: Buffer,
  changes: (segments: SegmentRef[]) => Changes = () => ({}),
): string {
  const hash = sha256(bytes);
  objects.set(layout.segment(hash), bytes);
  const { segments } = newestManifest(objects);
  segments[index] = { ...segments[index]!, hash, bytes: bytes.length, ...indexIn(bytes) };
  replaceManifest(objects, { segments, ...changes(segments) });
  return layout.segment(hash);
}

/** The reference to a segment's index header, where the segment still tells it. */
function indexIn(bytes: Buffer): { index?: ObjectRef } {
  try {
    return { index: referTo(readIndexHeader("segment", bytes)) };
  } catch {
    return {};
  }
}

/** What the index header of a segment tells of its words. */
export function wordsRefOf(objects: Objects, { words }: Pick<SegmentRef, "words">): WordsRef {
  const { unicode } = new WordTable("words", objects.get(layout.words(words.hash))!);
  return { ...words, unicode };
}

/**
 * Flips a bit of a section of a segment's index, or of its ids or words, and makes all above agree.
 * Returns the key of the object that lies.
 */
export function flipInIndex(objects: Objects, index: number, section: string): string {
  const segment = newestManifest(objects).segments[index]!;
  const flipped = (bytes: Uint8Array) => {
    const other = Buffer.from(bytes);
    // The lowest bit of a number, so that the section can still be read: of the last time, since times ascend.
    other[section === "times" ? other.length - 4 : (other.length >> 1) & ~3]! ^= 1;
    return other;
  };
  if (section === "ids" || section === "words") {
    const bytes = flipped(objects.get(layout[section](segment[section].hash))!);
    return replaceBeside(objects, index, section, bytes);
  }
  const stored = Buffer.from(objects.get(layout.segment(segment.hash))!);
  const header = readIndexHeader("segment", stored);
  const told = JSON.parse(String(header));
  const { bytes, start } = sectionIn(stored, section);
  const other = flipped(bytes);
  other.copy(stored, start);
  told.sections[section][1] = sectionRootOf(other);
  const own = Buffer.from(JSON.stringify(told));
  if (own.length !== header.length) throw new Error("the header would have another length");
  own.copy(stored, stored.indexOf(header));
  return replaceSegment(objects, index, stored);
}

/** The bytes of a section of a segment, and where they begin. */
function sectionIn(stored: Buffer, name: string): { bytes: Buffer; start: number } {
  const headerBytes = stored.readUInt32LE(8);
  const { sections } = JSON.parse(stored.toString("utf8", 16, 16 + headerBytes));
  const [offset, length] = sections[name];
  const start = Math.ceil((16 + headerBytes) / 8) * 8 + offset;
  return { bytes: stored.subarray(start, start + length), start };
}

/** Puts other ids or words in the place of a segment's, and makes all above agree. Returns their key. */
export function replaceBeside(objects: Objects, index: number, kind: "ids" | "words", bytes: Buffer): string {
  const ref = referTo(bytes);
  const key = layout[kind](ref.hash);
  objects.set(key, bytes);
  const ids = { ...ref, root: sectionRootOf(bytes, chunkBytes.ids) };
  replaceBesides(objects, index, kind === "ids" ? { ids } : { words: ref });
  return key;
}

/** Makes a segment of the newest snapshot agree with these objects beside it. Returns its key. */
export function replaceBesides(
  objects: Objects,
  index: number,
  refs: Partial<Pick<SegmentRef, "ids" | "words">>,
): string {
  const ref = { ...newestManifest(objects).segments[index]!, ...refs };
  const stored = objects.get(layout.segment(ref.hash))!;
  const [pages, rows] = [readPages("segment", stored), decodeRows("segment", stored)];
  const bytes = encodeSegment(pages, columnsOf(rows), wordsRefOf(objects, ref));
  return replaceSegment(objects, index, bytes, (segments) => {
    segments[index] = { ...segments[index]!, ...refs };
    return {};
  });
}

/** The newest segment of a store: its place in the manifest and its bytes. */
export function newestSegment(objects: Objects): { index: number; bytes: Buffer } {
  const { segments } = newestManifest(objects);
  const { hash } = segments.at(-1)!;
  return { index: segments.length - 1, bytes: objects.get(layout.segment(hash))! };
}

/** Takes the newest segment's pages apart, changes their markets, and builds everything anew around them. */
export async function rebuild(
  objects: Objects,
  change: (pages: HistoricalMarket[][]) => void,
  compress = compressPage,
) {
  const { index, bytes } = newestSegment(objects);
  const read = (page: Page) => {
    const stored = objects.get(layout.page(page.hash))!;
    return page.runs
      .flatMap((_, run) => readRun("page", stored, page, run))
      .map((line) => JSON.parse(String(line)));
  };
  // From the oldest page up, the newest market of each first.
  const markets: HistoricalMarket[][] = readPages("segment", bytes).map(read);
  change(markets);
  const pages: Page[] = [];
  for (const list of markets) {
    const lines = list.map((market) => Buffer.from(JSON.stringify(market)));
    const { page, stored } = await compress(lines);
    objects.set(layout.page(page.hash), stored);
    const root = pageRootOf(lines.toReversed().map(leafHash)).toString("hex");
    pages.push({ ...page, root });
  }
  const rows = markets.flatMap((list) =>
    list.toReversed().map((market) => {
      return { id: market.id, resolvedAt: Date.parse(market.resolvedAt), values: filterValuesOf(market) };
    }),
  );
  const words = wordsRefOf(objects, newestManifest(objects).segments[index]!);
  const segment = replaceSegment(objects, index, encodeSegment(pages, columnsOf(rows), words), (segments) => {
    const root = rootOver("segment", pages).toString("hex");
    segments[index] = { ...segments[index]!, markets: rows.length, root };
    return agreeing(segments);
  });
  return { segment, pages: pages.map(({ hash }) => layout.page(hash)) };
}

/** Segments whatever they hold, of which the manifest does not say where their rows come from. */
export function agreeing(segments: SegmentRef[]) {
  return { segments: segments.map(({ origins: _, ...segment }) => segment), sources: undefined };
}

/** Puts a public object. */
export function putPublic(objects: Objects, text: string): ObjectRef {
  const ref = { hash: sha256(text), bytes: Buffer.byteLength(text) };
  objects.set(layout.publicObject(ref.hash), Buffer.from(text));
  return ref;
}
