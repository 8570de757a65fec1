import { Counter, Gauge, Histogram, Registry } from "prom-client";
import type { ErrorCode } from "../../schemas/errors.ts";
import type { Catalog } from "../../snapshots/read/catalog.ts";
import type { LiveFeed } from "../feed/live-feed.ts";
import type { PublicObjects } from "../origin/public-objects.ts";
import type { Quota } from "../quota/quota.ts";

/** An answered request. Nothing in it is spelled by the client, so the number of label values is bounded. */
export interface Answered {
  /** Pattern of the endpoint table, or `none`. */
  route: string;
  method: string;
  status: number;
  /** Code of the error, or "". */
  code: string;
  seconds: number;
}

/** The counters of a process. */
export type Metrics = ReturnType<typeof createMetrics>;

/** What is read at every scrape. */
export interface MetricSources {
  catalog: Catalog;
  objects: PublicObjects;
  quota: Quota;
  feed: LiveFeed;
  /** Seconds since the store was read. */
  pollAge: () => number;
  connections: () => Promise<number>;
  /** Epoch milliseconds. */
  now: () => number;
}

const methods = ["GET", "HEAD", "POST", "OPTIONS"];
const latencyBuckets = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

/** Metrics for Prometheus: counters to be called, and gauges that read `sources` at every scrape. */
export function createMetrics(sources: MetricSources) {
  const registry = new Registry();
  const registers = [registry];
  const counter = <Label extends string>(name: string, help: string, labelNames: readonly Label[] = []) =>
    new Counter({ name, help, labelNames, registers });
  const requests = counter("http_requests_total", "Requests answered", ["route", "method", "status", "code"]);
  const duration = new Histogram({
    name: "http_request_duration_seconds",
    help: "From a request's head to the last byte of its answer",
    labelNames: ["route"],
    buckets: latencyBuckets,
    registers,
  });
  const aborts = counter("http_requests_aborted_total", "Requests whose answer was not sent to its end", [
    "route",
  ]);
  const broken = counter("prs_broken_off_total", "Answers of many rows broken off from our side", ["code"]);
  const drops = counter("http_connections_dropped_total", "Connections turned away at the limit");
  const stale = counter("prs_stale_answers_total", "Answers from an older snapshot, the origin being away");
  const quotaFailures = counter("prs_quota_failures_total", "Times the quota store began to fail");
  const polls = counter("prs_polls_total", "Looks into the store", ["chore", "outcome"]);
  registerGauges(registry, sources);
  registerCaches(registry, sources);
  // Looking up a metric by its labels takes longer than counting.
  const counters = new Map<string, ReturnType<typeof requests.labels>>();
  const durations = new Map<string, ReturnType<typeof duration.labels>>();
  return {
    registry,
    answered({ route, status, code, seconds, ...request }: Answered): void {
      const method = methods.includes(request.method) ? request.method : "other";
      const name = `${route} ${method} ${status} ${code}`;
      const known = counters.get(name) ?? requests.labels({ route, method, status, code });
      counters.set(name, known);
      known.inc();
      const timed = durations.get(route) ?? duration.labels({ route });
      durations.set(route, timed);
      timed.observe(seconds);
    },
    /** An answer was not sent completely. */
    aborted: (route: string) => aborts.inc({ route }),
    /** The service broke off an NDJSON answer. */
    brokeOff: (code: ErrorCode) => broken.inc({ code }),
    /** A connection was refused because too many were open. */
    dropped: () => drops.inc(),
    servedStale: () => stale.inc(),
    quotaFailed: () => quotaFailures.inc(),
    polled: (chore: string, succeeded: boolean) =>
      polls.inc({ chore, outcome: succeeded ? "success" : "failure" }),
  };
}

/** With several processes the worst value is shown, and memory is summed. */
function registerGauges(
  registry: Registry,
  { catalog, quota, feed, pollAge, connections, now }: MetricSources,
): void {
  type Aggregator = "min" | "max" | "sum";
  type Reading = () => number | undefined | Promise<number>;
  const gauge = (name: string, help: string, aggregator: Aggregator, read: Reading) =>
    new Gauge({
      name,
      help,
      aggregator,
      registers: [registry],
      async collect() {
        const value = await read();
        if (value !== undefined) this.set(value);
      },
    });
  const commit = () => catalog.current()?.commit;
  const age = (time: string | undefined) =>
    time === undefined ? undefined : (now() - Date.parse(time)) / 1000;
  gauge("prs_snapshot_commit", "Commit number served", "min", () => commit()?.commit ?? 0);
  gauge("prs_snapshot_age_seconds", "Since the snapshot was published", "max", () =>
    age(commit()?.publishedAt),
  );
  gauge("prs_publish_age_seconds", "Since the newest successful publish run", "max", () =>
    age(catalog.checkedAt()),
  );
  gauge("prs_poll_age_seconds", "Since snapshot and keys were looked for with success", "max", pollAge);
  gauge("prs_index_bytes", "Filter indexes in memory", "sum", () => catalog.residentBytes());
  gauge("prs_quota_store_up", "1 unless the quota store failed last", "min", () => (quota.failing() ? 0 : 1));
  gauge("prs_feed_connections", "Clients of the live feed", "sum", () => feed.connections());
  gauge("http_connections", "Open connections", "sum", connections);
}

function registerCaches(registry: Registry, { catalog, objects }: MetricSources): void {
  const counts = () => Object.entries({ public: objects.counts(), private: catalog.objects.counts() });
  new Counter({
    name: "prs_cache_requests_total",
    help: "Stored objects found in memory, or fetched",
    labelNames: ["cache", "outcome"],
    registers: [registry],
    collect() {
      this.reset();
      for (const [cache, { hits, misses }] of counts()) {
        this.inc({ cache, outcome: "hit" }, hits);
        this.inc({ cache, outcome: "miss" }, misses);
      }
    },
  });
  new Gauge({
    name: "prs_cache_bytes",
    help: "Stored objects in memory",
    labelNames: ["cache"],
    registers: [registry],
    collect() {
      for (const [cache, { bytes }] of counts()) this.set({ cache }, bytes);
    },
  });
}
