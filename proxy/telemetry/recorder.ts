import type { IncomingMessage } from "node:http";
import type { Logger } from "pino";
import type { Exchange } from "../exchange.ts";
import { forwardingWarning, logRequest } from "./log.ts";
import type { Metrics } from "./metrics.ts";

/** Tells log and metrics of requests. */
export interface Recorder {
  /** To be ended once, with the status of an answer that was sent to its end. */
  begin(request: IncomingMessage, exchange: Exchange): { end: (status: number | undefined) => void };
}

/** A recorder; with `warnOfForwarding` it warns once when a load balancer seems to stand before the process. */
export function createRecorder(
  log: Logger,
  metrics: Pick<Metrics, "answered" | "aborted">,
  { warnOfForwarding }: { warnOfForwarding: boolean },
): Recorder {
  const warn = warnOfForwarding ? forwardingWarning(log) : () => {};
  return {
    begin(request, exchange) {
      warn(request);
      const { method = "" } = request;
      return {
        end(status) {
          const { route = "none", code = "", began } = exchange;
          const milliseconds = performance.now() - began;
          logRequest(log, exchange, { method, status, milliseconds });
          if (status === undefined) metrics.aborted(route);
          else metrics.answered({ route, method, status, code, seconds: milliseconds / 1000 });
        },
      };
    },
  };
}
