import type { IncomingMessage } from "node:http";
import type { Logger } from "pino";
import { isPrivate, type Trust } from "../access/client-address.ts";
import type { Exchange } from "../exchange.ts";
import type { Metrics } from "./metrics.ts";

export type Recorder = ReturnType<typeof createRecorder>;

/**
 * Reports requests to log and metrics. Warns once when a load balancer seems to stand in front and TRUST_PROXY is not
 * set.
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

  return {
    /** Returns the function that ends the record. The status is undefined if the answer was not sent completely. */
    begin(request: IncomingMessage, exchange: Exchange): (status: number | undefined) => void {
      warnOnce(request);
      // Forwarding a request to the origin changes its method for a while.
      const { method = "" } = request;
      return (status) => {
        const { route = "none", code = "", began } = exchange;
        const milliseconds = performance.now() - began;
        logRequest(exchange, method, status, milliseconds);
        if (status === undefined) metrics.aborted.inc({ route });
        else metrics.answered({ route, method, status, code, seconds: milliseconds / 1000 });
      };
    },
  };
}
