import { z } from "zod";
import { Count, Digest } from "../../../schemas/primitives.ts";
import { chunkBytes, chunksOf } from "../../format/cuts.ts";
import { hashBytes, hashesIn } from "../../format/hash-trees.ts";
import { leafHash } from "../../format/tree.ts";
import { isKnownIndex, sectionRootOf } from "../../index/index-header.ts";
import { openPages, readSections } from "../../index/segment.ts";
import { sha256 } from "../../store/layout.ts";
import { parseObject } from "../../store/objects.ts";

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

const Told = z.object({
  sections: z.record(z.string(), z.tuple([Count, Digest])),
  words: z.object({ hash: Digest, bytes: Count }),
});

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
  const told = parseObject(key, header, Told);
  const { pages, pageStarts } = openPages(key, segment);
  const roots = section("pageRoots", pages * hashBytes);
  const ofPages = hashesIn(roots).map((root, page): Named => {
    const markets = pageStarts[page + 1]! - pageStarts[page]!;
    return [root, { source: "page", offset: page, bytes: markets * hashBytes }];
  });
  return new PartTable([
    [sha256(header), ofSegment(header)],
    [told.words.hash, { source: "words", offset: 0, bytes: told.words.bytes }],
    ...Object.entries(told.sections).flatMap(([name, [bytes, root]]) =>
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
