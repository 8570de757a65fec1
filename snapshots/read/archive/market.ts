import type { MarketProof } from "../../../schemas/envelopes.ts";
import { idOfLine } from "../../format/market-line.ts";
import { auditPath, leafHash } from "../../format/tree.ts";
import { readPages } from "../../index/segment.ts";
import { layout } from "../../store/layout.ts";
import type { Catalog } from "../catalog/catalog.ts";
import type { Snapshot } from "../catalog/snapshot.ts";
import { MarketNotFoundError } from "../errors.ts";
import { Lines } from "./lines.ts";

/** A market of a snapshot: where it is, and its JSON text. */
export interface FoundMarket {
  ordinal: number;
  line: Buffer;
}

/** Finds a market by its id. Throws MarketNotFoundError. */
export async function findMarket(catalog: Catalog, snapshot: Snapshot, id: string): Promise<FoundMarket> {
  for (const ordinal of await catalog.ids.candidates(snapshot, id)) {
    const [line] = await (await Lines.read(snapshot.archive, [ordinal], catalog)).all();
    if (line && idOfLine(line) === id) return { ordinal, line };
  }
  throw new MarketNotFoundError(id);
}

/** A level of a proof: which child of how many, the markets below them all, and the hashes that lead to the head. */
function levelOf(index: number, markets: number, hashes: readonly Buffer[]) {
  const path = auditPath(hashes, index).map((hash) => hash.toString("hex"));
  return { index, size: hashes.length, markets, path };
}

const hashesOf = (subtrees: readonly { root: string }[]) =>
  subtrees.map(({ root }) => Buffer.from(root, "hex"));

/**
 * What leads from a market's text to the snapshot's id (snapshots/SPEC.md, "Proofs"). Hashes all markets of one page.
 *
 */
export async function proveMarket(
  catalog: Catalog,
  { archive, manifest, commit }: Snapshot,
  { ordinal, line }: FoundMarket,
): Promise<MarketProof> {
  const location = archive.locate(ordinal);
  const { markets } = archive.page(location);
  const oldest = ordinal - (markets - 1 - location.line);
  const ordinals = Array.from({ length: markets }, (_, index) => oldest + markets - 1 - index);
  const lines = await (await Lines.read(archive, ordinals, catalog)).all();
  const ref = manifest.segments[location.segment]!;
  const key = layout.segment(ref.hash);
  const pages = readPages(key, await catalog.objects.get(key, ref));
  return {
    market: line.toString(),
    snapshotId: manifest.snapshotId,
    commit: commit.commit,
    proof: {
      page: levelOf(ordinal - oldest, markets, lines.toReversed().map(leafHash)),
      segment: levelOf(location.page, ref.markets, hashesOf(pages)),
      archive: levelOf(location.segment, manifest.counts.markets, hashesOf(manifest.segments)),
      scoresRoot: manifest.scoresRoot,
      protocols: manifest.counts.protocols,
      feedVersion: manifest.feedVersion,
      formatVersion: manifest.formatVersion,
    },
    checkpoint: await catalog.checkpointOf(commit),
  };
}
