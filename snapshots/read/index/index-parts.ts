import { Fault } from "../../../schemas/errors.ts";
import { octets } from "../../../schemas/media.ts";
import { maxIndexParts, partsParameter } from "../../../schemas/query.ts";
import { digestPattern } from "../../../schemas/shapes.ts";
import type { SegmentRef } from "../../../schemas/store/stored-objects.ts";
import { chunkBytes, chunksOf } from "../../format/bytes.ts";
import { hashBytes, hashesIn } from "../../format/hash-trees.ts";
import { digestFrom, leafHash } from "../../format/tree.ts";
import { isKnownIndex, sectionRootOf } from "../../index/index-header.ts";
import { parseIndexHeader } from "../../index/index-reader.ts";
import { openPages, readSections } from "../../index/segment.ts";
import { FormatError, MissingObjectError } from "../../store/errors.ts";
import { inParallel, type Turn } from "../../store/in-parallel.ts";
import { layout, sha256 } from "../../store/layout.ts";
import type { ByteRange } from "../../store/storage.ts";
import type { StoredFile, Stream } from "../answer.ts";
import { leavesOf } from "../archive/market.ts";
import { awaitBudget, budgets, Memo, type Payer, paidSteps } from "../budgets.ts";
import type { Catalog } from "../catalog/catalog.ts";
import { invalidParameter, type Parameters } from "../parameters.ts";

/** Bytes of a table beside its arrays. */
const entryBytes = 1000;
/** As many as a unit pays for. */
const pieceBytes = chunkBytes.file;
// Each takes some hundred kilobytes until its table is made.
const readAtOnce = 8;
// Hashing the chunks of a segment takes as long as inflating this many runs.
const stepsPerTable = 30;

/** The hashes, in the order asked (INTERFACE 4.12). */
export function parsePartsQuery(parameters: Parameters): string[] {
  const { name } = partsParameter;
  const hashes = parameters.get(name)?.split(",") ?? [];
  const sound = hashes.length > 0 && hashes.every((hash) => digestPattern.test(hash));
  if (!sound || hashes.length > maxIndexParts)
    throw invalidParameter(
      name,
      `${name} must be 1 to ${maxIndexParts} hashes of 64 lower-case hex digits, separated by commas.`,
    );
  if (new Set(hashes).size === hashes.length) return hashes;
  throw invalidParameter(name, `${name} names a hash more than once; once is enough.`);
}

interface FoundPart {
  bytes: number;
  read(): Promise<Buffer>;
}

type Refs = Pick<SegmentRef, "hash" | "bytes" | "ids" | "words">;

/**
 * Finds parts of the indexes of all kept snapshots by their hashes (INTERFACE 4.12). A segment is listed when something
 * is first looked for in it.
 */
export function indexParts(catalog: Catalog) {
  const tables = new Memo<PartTable>(budgets.partTables, ({ bytes }) => bytes + entryBytes);

  async function find(hashes: readonly string[], spend: Turn): Promise<FoundPart[]> {
    const wanted = new Map(hashes.map((hash) => [hash, digestFrom(hash)]));
    const parts = new Map<string, FoundPart>();
    for await (const segments of allSegments()) {
      const search = async (ref: Refs) => {
        if (wanted.size > 0 && (await look(ref, wanted, parts))) await spend(stepsPerTable);
      };
      await inParallel(segments, search, readAtOnce);
      if (wanted.size === 0) return hashes.map((hash) => parts.get(hash)!);
    }
    throw sectionNotFound(wanted.keys().next().value!);
  }

  /** The segments of the current snapshot, then those that only older ones have, the newest first. */
  async function* allSegments(): AsyncGenerator<Refs[]> {
    const seen = new Set<string>();
    const fresh = (segments: readonly Refs[]) =>
      segments.filter(({ hash }) => !seen.has(hash) && seen.add(hash));
    yield fresh(catalog.requireCurrent().manifest.segments);
    for (const commit of await catalog.log.readable()) {
      await awaitBudget();
      const listed = await unlessGone(() => catalog.listed(commit));
      if (listed) yield fresh(listed.manifest.segments);
    }
  }

  /** Looks for parts in a segment. Returns whether the segment had to be listed. */
  async function look(
    ref: Refs,
    wanted: Map<string, Buffer>,
    parts: Map<string, FoundPart>,
  ): Promise<boolean> {
    let listed = false;
    const list = () => {
      listed = true;
      return tableOf(ref);
    };
    const table = await unlessGone(() => tables.get(ref.hash, list), ref);
    for (const [name, hash] of table ? wanted : []) {
      const part = table!.find(hash);
      if (!part) continue;
      wanted.delete(name);
      const read = async () => {
        await awaitBudget();
        const bytes = await unlessGone(() => bytesOf(ref, part), ref);
        if (bytes) return bytes;
        throw sectionNotFound(name);
      };
      parts.set(name, { bytes: part.bytes, read });
    }
    return listed;
  }

  async function tableOf({ hash, bytes, ids }: Refs): Promise<PartTable> {
    const { objects } = catalog;
    const key = layout.segment(hash);
    const segment = await objects.get(key, { hash, bytes });
    const stored = await objects.get(layout.ids(ids.hash), ids);
    await awaitBudget();
    return listParts(key, segment, stored);
  }

  /** Undefined where an older snapshot was collected, or has an unknown version. */
  async function unlessGone<T>(work: () => Promise<T>, ref?: Refs): Promise<T | undefined> {
    try {
      return await work();
    } catch (error) {
      const gone = error instanceof MissingObjectError || error instanceof FormatError;
      const { segments } = catalog.requireCurrent().manifest;
      if (!gone || segments.some(({ hash }) => hash === ref?.hash)) throw error;
      return undefined;
    }
  }

  async function bytesOf(ref: Refs, { source, offset, bytes }: Part): Promise<Buffer> {
    const { objects, derived } = catalog;
    const key = layout.segment(ref.hash);
    const segment = () => objects.get(key, { hash: ref.hash, bytes: ref.bytes });
    if (source === "page")
      return derived.hashes.get(`page/${ref.hash}/${offset}`, async () =>
        Buffer.concat(await leavesOf(objects, openPages(key, await segment()).page(offset))),
      );
    const stored = {
      segment,
      ids: () => objects.get(layout.ids(ref.ids.hash), ref.ids),
      words: () => objects.get(layout.words(ref.words.hash), ref.words),
    };
    return (await stored[source]()).subarray(offset, offset + bytes);
  }

  /** The parts with these hashes, one after the other. `pay` pays for listing segments. */
  return async (hashes: readonly string[], ranges: boolean, pay: Payer["pay"]): Promise<StoredFile> => {
    const parts = await find(hashes, paidSteps(pay));
    return {
      hash: hashes.length === 1 ? hashes[0]! : sha256(hashes.join()),
      bytes: parts.reduce((sum, part) => sum + part.bytes, 0),
      contentType: octets,
      ranges,
      read: (range) => streamParts(parts, range),
    };
  };
}

function streamParts(parts: readonly FoundPart[], range: ByteRange): Stream {
  return {
    count: range.bytes,
    advice: "Ask for fewer at a time, or for a higher quota.",
    async *read() {
      let gathered: Buffer[] = [];
      let bytes = 0;
      const chunk = () => ({ count: bytes, text: Buffer.concat(gathered) });
      // Many parts are small, and each write takes time.
      for await (const piece of piecesOf(parts, range)) {
        if (bytes + piece.length > pieceBytes) {
          yield chunk();
          [gathered, bytes] = [[], 0];
        }
        gathered.push(piece);
        bytes += piece.length;
      }
      if (bytes > 0) yield chunk();
    },
  };
}

/** In pieces of at most `pieceBytes`. */
async function* piecesOf(parts: readonly FoundPart[], range: ByteRange): AsyncGenerator<Buffer> {
  const [from, to] = [range.offset, range.offset + range.bytes];
  let start = 0;
  for (const part of parts) {
    const [first, last] = [Math.max(0, from - start), Math.min(part.bytes, to - start)];
    start += part.bytes;
    if (first >= last) continue;
    const bytes = await part.read();
    for (let at = first; at < last; at += pieceBytes)
      yield bytes.subarray(at, Math.min(at + pieceBytes, last));
  }
}

const sectionNotFound = (hash: string) =>
  new Fault(
    "SECTION_NOT_FOUND",
    `No kept snapshot has ${hash} in its index; GET /api/v1/markets/index names what the newest has.`,
  );

/** Where a part is: in the object of its segment, of its ids or of its words, or a page of it. */
const sources = ["segment", "ids", "words", "page"] as const;

/** `bytes` from `offset` of an object on, or of the hashes of page number `offset`. */
export interface Part {
  source: (typeof sources)[number];
  offset: number;
  bytes: number;
}

/** Hashes are in hexadecimal, or as bytes. */
type Named = [hash: string | Uint8Array, part: Part];

/** Everything of a segment's index that can be asked for by its hash. */
export class PartTable {
  readonly #hashes: Buffer;
  /** The first 32 bits of each hash. */
  readonly #firsts: Uint32Array;
  /** Source, offset and bytes of each part. */
  readonly #places: Uint32Array;

  constructor(parts: readonly Named[]) {
    this.#hashes = Buffer.concat(
      parts.map(([hash]) => (typeof hash === "string" ? Buffer.from(hash, "hex") : hash)),
    );
    this.#firsts = Uint32Array.from(parts, (_, index) => this.#hashes.readUInt32LE(index * hashBytes));
    this.#places = Uint32Array.from(
      parts.flatMap(([, { source, offset, bytes }]) => [sources.indexOf(source), offset, bytes]),
    );
  }

  /** Bytes of memory. */
  get bytes(): number {
    return this.#hashes.length + this.#firsts.byteLength + this.#places.byteLength;
  }

  find(hash: Buffer): Part | undefined {
    const first = hash.readUInt32LE();
    for (let at = this.#firsts.indexOf(first); at >= 0; at = this.#firsts.indexOf(first, at + 1)) {
      if (hash.compare(this.#hashes, at * hashBytes, (at + 1) * hashBytes) !== 0) continue;
      const [source, offset, bytes] = this.#places.subarray(at * 3);
      return { source: sources[source!]!, offset: offset!, bytes: bytes! };
    }
    return undefined;
  }
}

/**
 * Lists the parts of a segment's index: its header, its words, its sections and their chunks, and its pages. There are
 * none where the header is of an unknown version.
 */
export function listParts(key: string, segment: Buffer, ids: Buffer): PartTable {
  const section = readSections(key, segment);
  const [ofSegment, ofIds] = [partsOf("segment", segment), partsOf("ids", ids)];
  const header = section("index");
  if (!isKnownIndex(key, header)) return new PartTable([]);
  const { words, sections } = parseIndexHeader(key, header);
  const { pages, pageStarts } = openPages(key, segment);
  const roots = section("pageRoots", pages * hashBytes);
  const ofPages = hashesIn(roots).map((root, page): Named => {
    const markets = pageStarts[page + 1]! - pageStarts[page]!;
    return [root, { source: "page", offset: page, bytes: markets * hashBytes }];
  });
  return new PartTable([
    [sha256(header), ofSegment(header)],
    [words.hash, { source: "words", offset: 0, bytes: words.bytes }],
    ...Object.entries(sections).flatMap(([name, [bytes, root]]) =>
      withChunks(root, section(name, bytes), ofSegment),
    ),
    ...withChunks(sectionRootOf(ids, chunkBytes.ids), ids, ofIds, chunkBytes.ids),
    ...ofPages,
  ]);
}

/** Takes views of an object for parts of it. */
const partsOf =
  (source: Part["source"], object: Uint8Array) =>
  ({ byteOffset, length }: Uint8Array): Part => ({
    source,
    offset: byteOffset - object.byteOffset,
    bytes: length,
  });

const withChunks = (
  root: string,
  section: Uint8Array,
  partOf: (view: Uint8Array) => Part,
  size: number = chunkBytes.section,
): Named[] => [
  [root, partOf(section)],
  ...chunksOf(section, size).map((chunk): Named => [leafHash(chunk), partOf(chunk)]),
];
