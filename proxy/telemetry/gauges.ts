import { Counter, Gauge, type Registry } from "prom-client";
import type { ProxyServices } from "../services.ts";

type Aggregator = "min" | "max" | "sum";
/** NaN where there is nothing to report. */
type Reading = () => number | Promise<number>;

/** Registers what is read at every scrape. Over several processes the worst value is shown, and memory is summed. */
export function registerGauges(
  registry: Registry,
  { catalog, objects, quota, pollAge, now }: ProxyServices,
  connections: () => Promise<number>,
): void {
  const registers = [registry];
  const gauge = (name: string, help: string, aggregator: Aggregator, read: Reading) =>
    new Gauge({
      name,
      help,
      aggregator,
      registers,
      async collect() {
        const value = await read();
        // Without a sample, no unknown age is taken for one of 0, which would look as if all were well.
        if (Number.isNaN(value)) this.remove();
        else this.set(value);
      },
    });
  const age = (name: string, help: string, time: () => string | undefined) =>
    gauge(name, help, "max", () => (now() - Date.parse(time() ?? "")) / 1000);
  const [commit, manifest] = [() => catalog.current()?.commit, () => catalog.current()?.manifest];
  gauge("prs_snapshot_commit", "Commit number served", "min", () => commit()?.commit ?? 0);
  age("prs_snapshot_age_seconds", "Since the snapshot was published", () => commit()?.publishedAt);
  age("prs_newest_score_age_seconds", "Of the newest score", () => manifest()?.newestUpdatedAt);
  age("prs_newest_market_age_seconds", "Since the newest resolution", () => manifest()?.newestResolvedAt);
  age("prs_publish_age_seconds", "Since the newest successful publish run", () => catalog.checkedAt());
  gauge("prs_poll_age_seconds", "Since snapshot and keys were looked for with success", "max", pollAge);
  gauge("prs_index_bytes", "Filter indexes in memory", "sum", () => catalog.residentBytes());
  gauge("prs_superseded_bytes", "Held for older snapshots", "sum", () => catalog.supersededBytes());
  // Asking makes an idle process notice that the store is back.
  const quotaUp = () => quota.ready().then(() => (quota.failing() ? 0 : 1));
  gauge("prs_quota_store_up", "1 unless the quota store failed last", "min", quotaUp);
  new Gauge({
    name: "prs_quota_store_info",
    help: "How requests are counted, and whether every primary of Redis demands a replica",
    labelNames: ["store", "on_failure", "replica"],
    aggregator: "max",
    registers,
    async collect() {
      const { store, onFailure, replica } = await quota.counting();
      this.reset();
      this.set({ store, on_failure: onFailure, replica: replica ?? "none" }, 1);
    },
  });
  gauge("http_connections", "Open connections", "sum", connections);

  const caches = () => Object.entries({ public: objects.counts(), private: catalog.objects.counts() });
  new Gauge({
    name: "prs_cache_bytes",
    help: "Stored objects in memory",
    labelNames: ["cache"],
    registers,
    collect() {
      for (const [cache, { bytes }] of caches()) this.set({ cache }, bytes);
    },
  });
  new Counter({
    name: "prs_cache_requests_total",
    help: "Stored objects found in memory, or fetched",
    labelNames: ["cache", "outcome"],
    registers,
    collect() {
      this.reset();
      for (const [cache, { hits, misses }] of caches()) {
        this.inc({ cache, outcome: "hit" }, hits);
        this.inc({ cache, outcome: "miss" }, misses);
      }
    },
  });
}
