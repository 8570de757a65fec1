import { hash } from "node:crypto";
import type { MarketProof } from "../../../schemas/envelopes.ts";
import { identityOf } from "../../../snapshots/format/hash-trees.ts";
import { auditPath, leafHash, pageRootOf, rootOver } from "../../../snapshots/format/tree.ts";

/** An archive of segments of pages of markets, as its trees see it. */
export type Shape = readonly (readonly (readonly string[])[])[];

/** The answer that proves a market of an archive of any shape, unsigned. */
export function proofIn(
  shape: Shape,
  [segment, page, market]: readonly [number, number, number],
): MarketProof {
  const pagesOf = (pages: Shape[number]) =>
    pages.map((lines) => ({ root: pageRootOf(lines.map(leaf)).toString("hex"), markets: lines.length }));
  const segments = shape.map((pages) => {
    const subtrees = pagesOf(pages);
    return { root: rootOver("segment", subtrees).toString("hex"), markets: pages.flat().length };
  });
  const level = (index: number, markets: number, hashes: readonly Buffer[]) => ({
    index,
    size: hashes.length,
    markets,
    path: auditPath(hashes, index).map((node) => node.toString("hex")),
  });
  const rootsOf = (subtrees: readonly { root: string }[]) =>
    subtrees.map(({ root }) => Buffer.from(root, "hex"));
  const lines = shape[segment]![page]!;
  const counts = { markets: shape.flat(2).length, protocols: 7 };
  const scoresRoot = hash("sha256", "scores");
  const publishedAt = "2026-02-02T08:21:59.229Z";
  const content = { feedVersion: "bri-pm-v1", counts, scoresRoot };
  const archiveRoot = rootOver("archive", segments).toString("hex");
  const snapshotId = hash("sha256", identityOf({ ...content, archiveRoot }));
  return {
    market: lines[market]!,
    snapshotId,
    commit: 12,
    entry: JSON.stringify({ commit: 12, publishedAt, ...content, archiveRoot, snapshotId }),
    checkpoint: null,
    proof: {
      page: level(market, lines.length, lines.map(leaf)),
      segment: level(page, segments[segment]!.markets, rootsOf(pagesOf(shape[segment]!))),
      archive: level(segment, counts.markets, rootsOf(segments)),
      inclusion: null,
    },
  };
}

const leaf = (text: string) => leafHash(Buffer.from(text));
