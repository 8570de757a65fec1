import { z } from "zod";
import { Count, Digest } from "../../../schemas/primitives.ts";
import { chunkBytesOf } from "../../index/chunks.ts";
import { indexVersion } from "../../index/header-reader.ts";
import { chunkLeaves, sectionRootOf } from "../../index/index-header.ts";
import { locateSections, openPages } from "../../index/segment.ts";
import { sha256 } from "../../store/layout.ts";
import { parseObject } from "../../store/objects.ts";

export const hashBytes = 32;

/** Where a part is: in the object of its segment, of its ids or of its words, or a page of it. */
const sources = ["segment", "ids", "words", "page"] as const;

/** `bytes` from `offset` of an object on, or of the hashes of page number `offset`. */
export interface Part {
  source: (typeof sources)[number];
  offset: number;
  bytes: number;
}

const Version = z.object({ version: z.int() });
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

  constructor(parts: readonly [hash: string | Buffer, part: Part][]) {
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
  const locate = locateSections(key, segment);
  const locatePart = (name: string, expectedBytes?: number): Part => {
    const [offset, bytes] = locate(name, expectedBytes);
    return { source: "segment", offset, bytes };
  };
  const header = locatePart("index");
  const text = segment.subarray(header.offset, header.offset + header.bytes);
  if (parseObject(key, text, Version).version !== indexVersion) return new PartTable([]);
  const told = parseObject(key, text, Told);
  const sections = [
    ...Object.entries(told.sections).map(([name, [bytes, root]]) => ({
      name,
      root,
      part: locatePart(name, bytes),
    })),
    {
      name: "ids",
      root: sectionRootOf("ids", ids),
      part: { source: "ids", offset: 0, bytes: ids.length } satisfies Part,
    },
  ];
  const chunks = sections.flatMap(({ name, part }) => {
    const object = part.source === "ids" ? ids : segment;
    const size = chunkBytesOf(name);
    return chunkLeaves(name, object.subarray(part.offset, part.offset + part.bytes)).map(
      (hash, chunk): [Buffer, Part] => [
        hash,
        { ...part, offset: part.offset + chunk * size, bytes: Math.min(size, part.bytes - chunk * size) },
      ],
    );
  });
  const { pageMarkets } = openPages(key, segment);
  const [rootsAt] = locate("pageRoots", pageMarkets.length * hashBytes);
  const pages = Array.from(pageMarkets, (markets, page): [Buffer, Part] => {
    const at = rootsAt + page * hashBytes;
    return [
      segment.subarray(at, at + hashBytes),
      { source: "page", offset: page, bytes: markets * hashBytes },
    ];
  });
  return new PartTable([
    [sha256(text), header],
    [told.words.hash, { source: "words", offset: 0, bytes: told.words.bytes }],
    ...sections.map(({ root, part }): [string, Part] => [root, part]),
    ...chunks,
    ...pages,
  ]);
}
