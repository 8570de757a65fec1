import { linesFromEnd } from "../../proxy/site/client/client.ts";
import { Cutter } from "../../snapshots/format/cutter.ts";
import { idBytesOfLine } from "../../snapshots/format/market-line.ts";
import type { Digest } from "../../snapshots/format/sha256.ts";
import { leafHash, pageRootOf, rootOver, type Subtree } from "../../snapshots/format/tree.ts";
import { fileOf } from "./lines.ts";

/** `start` is where its lines begin in the file. */
export interface CopySegment extends Subtree {
  start: number;
  end: number;
}

/** The tree over the lines of a copy. `segments` are from the oldest up. */
export interface CopyTree {
  archiveRoot: string;
  lines: number;
  bytes: number;
  segments: CopySegment[];
}

/** Cuts lines, oldest first, into segments (snapshots/SPEC.md, "Cuts"), and passes every line to `each`. */
export async function* segmentsOf(
  lines: AsyncIterable<Uint8Array>,
  each: (line: Uint8Array) => void = () => {},
): AsyncGenerator<Subtree & { pages: Subtree[]; bytes: number }, void, void> {
  const cutter = new Cutter();
  let [leaves, pages, bytes]: [Digest[], Subtree[], number] = [[], [], 0];
  const endPage = () => {
    pages.push({ root: pageRootOf(leaves).toString("hex"), markets: leaves.length });
    leaves = [];
  };
  const endSegment = () => {
    const markets = pages.reduce((sum, page) => sum + page.markets, 0);
    const segment = { root: rootOver("segment", pages).toString("hex"), markets, pages, bytes };
    [pages, bytes] = [[], 0];
    return segment;
  };
  for await (const line of lines) {
    each(line);
    leaves.push(leafHash(line));
    bytes += line.length + 1;
    const cut = cutter.next(idBytesOfLine(line));
    if (cut !== "none") endPage();
    if (cut === "segment") yield endSegment();
  }
  if (leaves.length > 0) endPage();
  if (pages.length > 0) yield endSegment();
}

/** The tree over a file of lines in the archive's order. Memory grows with the number of segments only. */
export async function treeOf(path: string): Promise<CopyTree> {
  await using file = await fileOf(path);
  const segments: CopySegment[] = [];
  let [lines, end] = [0, file.size];
  for await (const { root, markets, bytes } of segmentsOf(linesFromEnd(file))) {
    segments.push({ root, markets, start: end - bytes, end });
    lines += markets;
    end -= bytes;
  }
  return {
    archiveRoot: rootOver("archive", segments).toString("hex"),
    lines,
    bytes: file.size,
    segments,
  };
}
