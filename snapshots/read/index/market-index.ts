import type { MarketIndex } from "../../../schemas/envelopes.ts";
import type { Manifest } from "../../../schemas/store/snapshot.ts";
import type { Asked } from "../asked.ts";
import { whileKept } from "../catalog/as-of.ts";
import type { Catalog } from "../catalog/catalog.ts";
import { askProven, type Logged, proveCommit } from "../catalog/log-proof.ts";
import type { AsOf } from "../query/query.ts";

/** What the index of a snapshot consists of, and the path from its root to a checkpoint of the log (INTERFACE 4.12). */
export function askIndex(catalog: Catalog, asOf: AsOf | undefined): Promise<Asked<MarketIndex>> {
  return askProven(catalog, asOf, ["index"], async (...logged) => {
    const [commit] = logged;
    const { manifest } = await whileKept(catalog, commit, () => catalog.listed(commit));
    const segments = manifest.segments.map(({ markets, index: { hash, bytes }, ids }) => ({
      markets,
      header: { hash, bytes },
      ids: { hash: ids.root, bytes: ids.bytes },
    }));
    return { ...(await proveIndex(catalog, manifest, logged)), segments };
  });
}

/** The path from the root of a manifest's index to a checkpoint of the log. */
export async function proveIndex(
  catalog: Catalog,
  { indexRoot, counts }: Manifest,
  logged: Logged,
): Promise<Omit<MarketIndex, "segments">> {
  const proven = await proveCommit(catalog.publicLog, ...logged);
  return { ...proven, indexRoot, markets: counts.markets };
}
