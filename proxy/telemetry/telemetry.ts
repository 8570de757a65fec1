import type { IncomingMessage } from "node:http";
import type { Logger } from "pino";
import { Counter, Gauge, Histogram, Registry } from "prom-client";
import type { Catalog } from "../../snapshots/read/catalog/catalog.ts";
import { isPrivate, type Trust } from "../access/identity.ts";
import type { Exchange } from "../exchange.ts";
import type { PublicObjects } from "../origin/origin.ts";
import type { Quota } from "../quota/quota.ts";

/** An answered request. None of the values is spelled by the client, so the number of label values is bounded. */
export interface Answered {
  /** Pattern of the endpoint table, or `none`. */
  route: string;
  method: string;
  status: number;
  /** Code of the error, or "". */
  code: string;
  seconds: number;
}

type Aggregator = "min" | "max" | "sum";
export type Metrics = ReturnType<typeof createMetrics>;

const methods = ["GET", "HEAD", "POST", "OPTIONS"];
const latencyBuckets = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

export function createMetrics() {
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
  return {
    registry,
    /** Read at every scrape; NaN where there is nothing to report. */
    gauge(name: string, help: string, aggregator: Aggregator, read: () => number | Promise<number>): void {
      new Gauge({
        name,
        help,
        aggregator,
        registers,
        async collect() {
          const value = await read();
          // An unknown age gives no sample: 0 would look as if all were well.
          if (Number.isNaN(value)) this.remove();
          else this.set(value);
        },
      });
    },
    answered({ route, status, code, seconds, ...request }: Answered): void {
      const method = methods.includes(request.method) ? request.method : "other";
      requests.inc({ route, method, status, code });
      duration.observe({ route }, seconds);
    },
    aborted: counter("http_requests_aborted_total", "Requests whose answer was not sent to its end", [
      "route",
    ]),
    brokenOff: counter("prs_broken_off_total", "Answers of many rows broken off from our side", ["code"]),
    dropped: counter("http_connections_dropped_total", "Connections turned away at the limit"),
    stale: counter("prs_stale_answers_total", "Answers from an older snapshot, the origin being away"),
    quotaFailures: counter("prs_quota_failures_total", "Times the quota store began to fail"),
    untrusted: counter("prs_untrusted_total", "Records of the store that no trusted key signed"),
    lostRevocations: counter("prs_revocations_lost_total", "Revocations of keys that went from the store"),
    polls: counter("prs_polls_total", "Looks into the store", ["task", "outcome"]),
  };
}

export type Recorder = ReturnType<typeof createRecorder>;

/**
 * Returns a function that begins the record of a request, for log and metrics, and returns the one that ends it. The
 * status is undefined if the answer was not sent completely. Warns once when a load balancer seems to stand in front
 * and TRUST_PROXY is not set.
 */
export function createRecorder(log: Logger, metrics: Metrics, trust: Trust | undefined) {
  let warned = trust !== undefined;

  function warnOnce({ headers, socket }: IncomingMessage): void {
    if (warned || headers["x-forwarded-for"] === undefined || !isPrivate(socket.remoteAddress)) return;
    warned = true;
    log.warn("a private peer forwards client addresses; set TRUST_PROXY, or all its clients share one quota");
  }

  /** Targets, header values and unknown parameter names are never logged, since any of them may hold a key. */
  function logRequest(exchange: Exchange, method: string, status: number | undefined, time: number): void {
    const { id, route = "none", caller, parameters, code, error } = exchange;
    const level = error ? "error" : "info";
    if (!log.isLevelEnabled(level)) return;
    const ending = status === undefined ? "aborted" : status === 101 ? "went live" : "answered";
    const entry = {
      req: { id, method, route, parameters: [...(parameters?.keys() ?? [])] },
      ...(caller && { plan: caller.plan }),
      ...(code && { code }),
      res: { status },
      responseTime: Math.round(time),
      ...(error && { err: error }),
    };
    log[level](entry, error ? "failed" : ending);
  }

  return (request: IncomingMessage, exchange: Exchange) => {
    warnOnce(request);
    // Forwarding a request to the origin changes its method for a while.
    const { method = "" } = request;
    return (status: number | undefined): void => {
      const { route = "none", code = "", began } = exchange;
      const milliseconds = performance.now() - began;
      logRequest(exchange, method, status, milliseconds);
      if (status === undefined) metrics.aborted.inc({ route });
      else metrics.answered({ route, method, status, code, seconds: milliseconds / 1000 });
    };
  };
}

interface Measured {
  catalog: Catalog;
  objects: PublicObjects;
  quota: Quota;
  pollAge: () => number;
  now: () => number;
  metrics: Metrics;
}

/** Read at every scrape. Over several processes the worst value is shown; memory and connections are summed. */
export function registerGauges(
  { catalog, objects, quota, pollAge, now, metrics: { registry, gauge } }: Measured,
  connections: () => Promise<number>,
): void {
  const registers = [registry];
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

  const caches = () => Object.entries({ public: objects.counts(), private: catalog.objects.kept.counts() });
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
