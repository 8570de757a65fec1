import { bytesOf } from "../format/bytes.ts";
import { type Digest, hexOf } from "../format/sha256.ts";
import { leafHash, rootOf, treeHead } from "../format/tree.ts";
import { type ColumnHeader, coveredSections } from "./columns.ts";
import { indexVersion, type WordsRef } from "./header-reader.ts";
import { type TimeColumn, timeAt } from "./time-column.ts";

// What the index root covers of a segment (snapshots/SPEC.md, "Index root"): what follows from its markets, not how it
// is stored.

/** A chunk of ids is small, because what shows that an id is absent is one of them. */
const [chunkBytes, idChunkBytes] = [4096, 256];

/** What a header says of a segment itself; `root` is that of the tree over its pages, in hexadecimal. */
export interface IndexedSegment {
  markets: number;
  pages: number;
  root: string;
  times: TimeColumn;
  columns: readonly ColumnHeader[];
}

/** Bytes of a chunk of a section; the last one may have fewer. */
export const chunkBytesOf = (name: string): number => (name === "ids" ? idChunkBytes : chunkBytes);

/** The leaves of the tree over a section, or over the ids object as the section `ids`: the hashes of its chunks. */
export function chunkLeaves(name: string, section: Uint8Array): Digest[] {
  const size = chunkBytesOf(name);
  return Array.from({ length: Math.ceil(section.length / size) }, (_, chunk) =>
    leafHash(section.subarray(chunk * size, (chunk + 1) * size)),
  );
}

/** The root of a section, in hexadecimal. */
export function sectionRootOf(name: string, section: Uint8Array): string {
  const leaves = chunkLeaves(name, section);
  return hexOf(rootOf("section", { children: leaves.length, total: section.length }, treeHead(leaves)));
}

/**
 * The canonical header of a segment's index, of which the index root has the SHA-256. `names` are the sections that it
 * covers.
 */
export function indexHeader(
  { markets, pages, root, times, columns }: IndexedSegment,
  sectionOf: (name: string) => Uint8Array,
  words: WordsRef,
  names = coveredSections(columns),
): Uint8Array {
  const sections = names.map((name) => {
    const section = sectionOf(name);
    return [name, [section.length, sectionRootOf(name, section)]] as const;
  });
  const header = {
    version: indexVersion,
    markets,
    pages,
    root,
    epochs: times.epochs,
    oldest: timeAt(times, 0),
    newest: timeAt(times, markets - 1),
    columns,
    sections: Object.fromEntries(sections),
    words: { unicode: words.unicode, hash: words.hash, bytes: words.bytes },
  };
  return bytesOf(JSON.stringify(header));
}
