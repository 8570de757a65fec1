import type { MarketIndex } from "../../../schemas/envelopes.ts";
import type { NotedCheckpoint } from "../../trust/notes/checkpoint.ts";
import { whileKept } from "../catalog/as-of.ts";
import type { Catalog } from "../catalog/catalog.ts";
import type { LogEntry } from "../catalog/commit-log.ts";
import { proveCommit } from "../catalog/log-proof.ts";

/**
 * What the index of a commit's snapshot consists of, and what leads from its root to a checkpoint of the log
 * (INTERFACE 4.12). Throws as whileKept and proveCommit do.
 */
export async function describeIndex(
  catalog: Catalog,
  commit: LogEntry,
  checkpoint: NotedCheckpoint | undefined,
): Promise<MarketIndex> {
  const { manifest } = await whileKept(catalog, commit, () => catalog.listed(commit));
  const segments = manifest.segments.map(({ markets, index: { hash, bytes }, ids }) => ({
    markets,
    header: { hash, bytes },
    ids: { hash: ids.root, bytes: ids.bytes },
  }));
  const proven = await proveCommit(catalog, commit, checkpoint);
  return { ...proven, indexRoot: manifest.indexRoot, markets: manifest.counts.markets, segments };
}
