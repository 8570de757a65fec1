import type { MarketIndex } from "../../../schemas/envelopes.ts";
import type { Manifest } from "../../../schemas/store/snapshot.ts";
import type { Asked } from "../asked.ts";
import { whileKept } from "../catalog/as-of.ts";
import type { Catalog } from "../catalog/catalog.ts";
import { askProven } from "../catalog/log-proof.ts";
import type { PublicLog } from "../catalog/public-log.ts";
import type { AsOf } from "../query/query.ts";

/** What the index of a snapshot consists of, and the path from its root to a checkpoint of the log (INTERFACE 4.12). */
export function askIndex(
  catalog: Catalog,
  publicLog: PublicLog,
  asOf: AsOf | undefined,
): Promise<Asked<MarketIndex>> {
  return askProven(catalog, publicLog, asOf, ["index"], async (commit, prove) => {
    const { manifest } = await whileKept(catalog, commit, () => catalog.listed(commit));
    const segments = manifest.segments.map(({ markets, index: { hash, bytes }, ids }) => ({
      markets,
      header: { hash, bytes },
      ids: { hash: ids.root, bytes: ids.bytes },
    }));
    return { ...(await prove()), ...indexOf(manifest), segments };
  });
}

/** The root of a manifest's index, and how many markets are below it. */
export const indexOf = ({ indexRoot, counts: { markets } }: Manifest) => ({ indexRoot, markets });
