import type { IncomingMessage, ServerResponse } from "node:http";
import type { Logger } from "pino";
import { type HttpLogger, pinoHttp } from "pino-http";
import { isPrivate } from "./client-address.ts";
import type { Exchange } from "./gate.ts";

/**
 * Logs each request once, when it is answered: the route's pattern and the names of known parameters.
 * Targets, header values and unknown names stay out, since any of them may hold a key.
 */
export function requestLog(
  logger: Logger,
  exchangeOf: (request: IncomingMessage) => Exchange | undefined,
): HttpLogger {
  return pinoHttp({
    logger,
    wrapSerializers: false,
    genReqId: (request) => exchangeOf(request)?.id ?? "",
    serializers: {
      req: (request: IncomingMessage) => described(request, exchangeOf(request)),
      res: ({ headersSent, statusCode }: ServerResponse) =>
        headersSent || statusCode === 101 ? { status: statusCode } : {},
    },
    customProps: (request) => {
      const { plan, code } = exchangeOf(request) ?? {};
      return { ...(plan && { plan }), ...(code && { code }) };
    },
    // 501 is no fault of ours; an error is there for every other status from 500 up.
    customLogLevel: (_request, response) => (response.err ? "error" : "info"),
    customErrorObject: (_request, { err }, _error, entry) => (err ? entry : { ...entry, err: undefined }),
    customSuccessMessage: (_request, response) => ending(response),
    customErrorMessage: () => "failed",
  });
}

function ending({ statusCode, writableFinished }: ServerResponse): string {
  if (statusCode === 101) return "went live";
  return writableFinished ? "answered" : "aborted";
}

function described(request: IncomingMessage, exchange: Exchange | undefined) {
  const { id, target } = exchange ?? {};
  const known: readonly string[] = target?.routes.flatMap((route) => route.endpoint.query) ?? [];
  const given = new Set(new URLSearchParams(target?.search).keys());
  const parameters = known.filter((name) => given.has(name));
  return { id, method: request.method, route: target?.path ?? "none", parameters };
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
