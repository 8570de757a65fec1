import type { IncomingMessage } from "node:http";
import type { Logger } from "pino";
import { isPrivate } from "../access/client-address.ts";
import type { Exchange } from "../exchange.ts";

/** How an exchange ended. */
export interface Ending {
  method: string;
  /** Undefined when the answer was not sent to its end. */
  status: number | undefined;
  milliseconds: number;
}

/**
 * Logs a request once, when it is over: the route's pattern and the names of its parameters. Targets, header values and
 * unknown names stay out, since any of them may hold a key.
 */
export function logRequest(logger: Logger, exchange: Exchange, ending: Ending): void {
  const { id, route = "none", caller, parameters, code, error } = exchange;
  const level = error ? "error" : "info";
  if (!logger.isLevelEnabled(level)) return;
  const { method, status, milliseconds } = ending;
  const entry = {
    req: { id, method, route, parameters: [...(parameters?.keys() ?? [])] },
    ...(caller && { plan: caller.plan }),
    ...(code && { code }),
    res: { status },
    responseTime: Math.round(milliseconds),
    ...(error && { err: error }),
  };
  logger[level](entry, wordFor(ending, error));
}

function wordFor({ status }: Ending, error: Error | undefined): string {
  if (error) return "failed";
  if (status === 101) return "went live";
  return status === undefined ? "aborted" : "answered";
}

/** Warns once when a private peer forwards addresses and nothing was said about trusting it. */
export function forwardingWarning(logger: Logger): (request: IncomingMessage) => void {
  let warned = false;
  return ({ headers, socket }) => {
    if (warned || headers["x-forwarded-for"] === undefined || !isPrivate(socket.remoteAddress)) return;
    warned = true;
    logger.warn(
      "a private peer forwards client addresses; set TRUST_PROXY, or all its clients share one quota",
    );
  };
}
