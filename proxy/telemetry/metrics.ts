import { Counter, Histogram, Registry } from "prom-client";

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
