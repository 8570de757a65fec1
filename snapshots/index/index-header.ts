import { bytesOf } from "../format/bytes.ts";
import { type Digest, hexOf } from "../format/sha256.ts";
import { leafHash, rootOf } from "../format/tree.ts";
import { chunksOf } from "./chunks.ts";
import type { KnownColumn } from "./columns.ts";
import { indexVersion, type WordsRef } from "./header-reader.ts";
import { type TimeColumn, timeAt } from "./time-column.ts";

// The index root covers what follows from a segment's markets, not how it is stored (snapshots/SPEC.md, "Index root").

/** The header's content, with the sections that it covers in its order. */
export interface SegmentIndex {
  markets: number;
  pages: number;
  /** The root of the tree over its pages, in hexadecimal. */
  root: string;
  times: TimeColumn;
  columns: readonly KnownColumn[];
  sections: ReadonlyMap<string, Uint8Array>;
}

/** The leaves of a section's tree. The ids object counts as the section `ids`. */
export const chunkLeaves = (name: string, section: Uint8Array): Digest[] =>
  chunksOf(name, section).map((chunk) => leafHash(chunk));

/** Hexadecimal. */
export const sectionRootOf = (name: string, section: Uint8Array): string =>
  hexOf(rootOf("section", section.length, chunkLeaves(name, section)));

/** The canonical header, whose SHA-256 the index root covers. */
export function indexHeader(index: SegmentIndex, words: WordsRef): Uint8Array {
  const { markets, pages, root, times, columns } = index;
  const sections = Array.from(index.sections, ([name, section]) => {
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
