import type { MarketProof } from "../../../schemas/envelopes.ts";
import { Fault } from "../../../schemas/errors.ts";
import { idOfLine } from "../../format/market-line.ts";
import { type CompressedPage, readRun } from "../../format/page.ts";
import { leafHash } from "../../format/tree.ts";
import { readPages } from "../../index/segment.ts";
import { layout } from "../../store/layout.ts";
import { readSnapshot } from "../answer.ts";
import { awaitBudget } from "../budgets.ts";
import type { ObjectCache } from "../catalog/caches.ts";
import type { Catalog } from "../catalog/catalog.ts";
import { type Logged, levelOf } from "../catalog/public-log.ts";
import type { Snapshot } from "../catalog/snapshots.ts";
import { readLines } from "./lines.ts";

/** `line` is the JSON text. */
export interface FoundMarket {
  ordinal: number;
  line: Buffer;
}

export async function findMarket(catalog: Catalog, snapshot: Snapshot, id: string): Promise<FoundMarket> {
  for (const ordinal of await catalog.findId(snapshot, id)) {
    const [line] = await (await readLines(snapshot.archive, [ordinal], catalog)).all();
    if (line && idOfLine(line) === id) return { ordinal, line };
  }
  throw new Fault(
    "MARKET_NOT_FOUND",
    `No market has the id ${id}; GET /api/v1/markets/historical lists all.`,
  );
}

const hashesOf = (subtrees: readonly { root: string }[]) =>
  subtrees.map(({ root }) => Buffer.from(root, "hex"));

/**
 * The path from a market's text to a checkpoint of the log (snapshots/SPEC.md, "Proofs"). Hashes all markets of one
 * page.
 */
export async function proveMarket(
  catalog: Catalog,
  id: string,
  ...[commit, prove]: Logged
): Promise<MarketProof> {
  const { market, ...levels } = await readSnapshot(catalog, commit, async (snapshot) =>
    levelsOf(catalog, snapshot, await findMarket(catalog, snapshot, id)),
  );
  const { inclusion, ...proven } = await prove();
  return { market, ...proven, proof: { ...levels, inclusion } };
}

/** The path from a market's text to the root of its archive. */
export async function levelsOf(
  catalog: Catalog,
  { archive, commit, manifest }: Snapshot,
  { ordinal, line }: FoundMarket,
) {
  const location = archive.locate(ordinal);
  const page = archive.page(location);
  const { markets } = page;
  const leaves = await leavesOf(catalog.objects, page);
  const ref = manifest.segments[location.segment]!;
  const key = layout.segment(ref.hash);
  const pages = readPages(key, await catalog.objects.get(key, ref));
  return {
    market: line.toString(),
    page: { ...levelOf(markets - 1 - location.line, leaves), markets },
    segment: { ...levelOf(location.page, hashesOf(pages)), markets: ref.markets },
    archive: { ...levelOf(location.segment, hashesOf(manifest.segments)), markets: commit.counts.markets },
  };
}

/** The hashes of the markets of a page, from the oldest up. */
export async function leavesOf(objects: Pick<ObjectCache, "get">, page: CompressedPage): Promise<Buffer[]> {
  const key = layout.page(page.hash);
  const stored = await objects.get(key, page);
  const leaves: Buffer[] = [];
  for (const run of page.runs.keys()) {
    await awaitBudget();
    leaves.push(...readRun(key, stored, page, run).map(leafHash));
  }
  return leaves.reverse();
}
