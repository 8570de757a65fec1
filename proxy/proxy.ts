import { randomUUID } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import express from "express";
import type { Logger } from "pino";
import type { Catalog } from "../snapshots/catalog.ts";
import type { Trust } from "./client-address.ts";
import { answerFaults } from "./faults.ts";
import { createGate, type Exchange } from "./gate.ts";
import { createHandlers } from "./handlers.ts";
import { apiHeaders, isApiTarget, securityHeaders } from "./headers.ts";
import type { KeyRing } from "./key-ring.ts";
import { forwardingWarning, requestLog } from "./log.ts";
import type { PublicObjects } from "./public-objects.ts";
import type { Quota } from "./quota.ts";
import { matchTarget } from "./target.ts";

/** All that the proxy stands on. */
export interface ProxyDependencies {
  catalog: Catalog;
  keys: KeyRing;
  quota: Quota;
  objects: PublicObjects;
  /** Undefined: no peer is trusted, and a warning is due when one seems to be a load balancer. */
  trustProxy: Trust | undefined;
  staleAfterSeconds: number;
  /** The longest an answer may take to be ready. */
  deadlineSeconds: number;
  /** Epoch milliseconds. */
  now: () => number;
  log: Logger;
}

const maxHeadBytes = 16 * 1024;
const headSeconds = 10;
const requestSeconds = 30;
const idleSeconds = 65; // above the 60 s of common load balancers, so that they close first
const stalledSeconds = 60;

/** The proxy as a server that is not listening yet. */
export function createProxy(dependencies: ProxyDependencies): Server {
  const { catalog, keys, log } = dependencies;
  const exchanges = new WeakMap<IncomingMessage, Exchange>();
  const warnOfForwarding = dependencies.trustProxy ? () => {} : forwardingWarning(log);
  const server = createServer({
    maxHeaderSize: maxHeadBytes,
    headersTimeout: headSeconds * 1000,
    requestTimeout: requestSeconds * 1000,
    keepAliveTimeout: idleSeconds * 1000,
    // A missing Host is answered below, in the service's own shape.
    requireHostHeader: false,
  });
  // The head's size bounds the number; node would drop those beyond its own bound without a word.
  server.maxHeadersCount = 0;
  // A client that stops reading holds its socket this long.
  server.timeout = stalledSeconds * 1000;

  const gate = createGate({
    ...dependencies,
    trust: dependencies.trustProxy ?? { hops: 0 },
    handlers: createHandlers({ ...dependencies, ready: () => keys.ready() && server.listening }),
  });
  const app = express();
  app.disable("x-powered-by").disable("etag").disable("query parser");
  app.use(requestLog(log, (request) => exchanges.get(request)));
  app.use((request, response) => gate(request, response, exchanges.get(request)!));

  const snapshotHeader = () => {
    const snapshot = catalog.current();
    return snapshot ? { "X-Snapshot-Id": snapshot.manifest.snapshotId } : {};
  };

  function accept(request: IncomingMessage, response: ServerResponse): void {
    const raw = request.url ?? "";
    const exchange: Exchange = { id: randomUUID(), target: matchTarget(raw), api: isApiTarget(raw) };
    exchanges.set(request, exchange);
    // From here on nobody sees the raw target: nothing can normalise, forward or log it.
    request.url = exchange.target?.path ?? "/";
    const headers = {
      ...securityHeaders,
      "X-Request-Id": exchange.id,
      ...snapshotHeader(),
      ...(exchange.api && apiHeaders),
    };
    for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
    // A body is never read here, so what follows it on the connection could be mistaken for a request.
    if (hasBody(request) || !server.listening) response.setHeader("Connection", "close");
    warnOfForwarding(request);
    app(request, response);
  }

  server.on("request", accept);
  // Expectations are ignored, as RFC 9110 allows: the answer is final, and no body is asked for.
  server.on("checkContinue", accept);
  server.on("checkExpectation", accept);

  answerFaults(server, () => ({ ...securityHeaders, ...snapshotHeader() }));
  return server;
}

function hasBody({ headers }: IncomingMessage): boolean {
  const length = headers["content-length"];
  return headers["transfer-encoding"] !== undefined || (length !== undefined && length !== "0");
}
