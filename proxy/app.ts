import { randomUUID } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import express from "express";
import type { Logger } from "pino";
import type { KeyRing } from "../snapshots/keys/ring.ts";
import type { Catalog } from "../snapshots/read/catalog.ts";
import type { Trust } from "./access/client-address.ts";
import { followConnections } from "./connection/connections.ts";
import { drain, takeWaiting } from "./connection/drain.ts";
import { answerFaults, bytesOf } from "./connection/malformed.ts";
import { pipeline } from "./connection/pipelining.ts";
import { isHandshake } from "./feed/handshake.ts";
import type { LiveFeed } from "./feed/live-feed.ts";
import type { Limits } from "./limits.ts";
import type { PublicObjects } from "./origin/public-objects.ts";
import type { Quota } from "./quota/quota.ts";
import { apiHeaders, isApiTarget, securityHeaders } from "./reply/headers.ts";
import { staticReplies } from "./reply/static-files.ts";
import { createGate, type Exchange } from "./routes/gate.ts";
import { createHandlers } from "./routes/handlers.ts";
import { matchTarget } from "./routes/target.ts";
import type { StaticFile } from "./site/static-file.ts";
import { forwardingWarning, logRequest } from "./telemetry/log.ts";
import type { Metrics } from "./telemetry/metrics.ts";

/** All that the proxy stands on. */
export interface ProxyDependencies {
  catalog: Catalog;
  keys: KeyRing;
  quota: Quota;
  objects: PublicObjects;
  feed: LiveFeed;
  /** Seconds since the store was read. */
  pollAge: () => number;
  metrics: Metrics;
  /** What is served as it is. */
  files: readonly StaticFile[];
  /** Undefined: no peer is trusted, and a warning is due when one seems to be a load balancer. */
  trustProxy: Trust | undefined;
  staleAfterSeconds: number;
  limits: Limits;
  /** Epoch milliseconds. */
  now: () => number;
  log: Logger;
}

const maxHeadBytes = 16 * 1024;

/** Hears how a request was answered; undefined: its answer was not sent. */
type Recorder = (status: number | undefined) => void;

/** The proxy, and the way to end it. */
export interface Proxy {
  server: Server;
  /** Lets requests under way finish for at most `seconds`. */
  drain(seconds: number): Promise<void>;
}

/** The proxy as a server that is not listening yet. */
export function createProxy(dependencies: ProxyDependencies): Proxy {
  const { catalog, keys, quota, metrics, limits, log } = dependencies;
  const exchanges = new WeakMap<IncomingMessage, Exchange>();
  const underway = new Set<ServerResponse>();
  const warnOfForwarding = dependencies.trustProxy ? () => {} : forwardingWarning(log);
  const server = boundedServer(limits);
  const connections = followConnections(server);
  server.on("drop", () => {
    metrics.dropped();
    // Those that ask nothing make room for those that do.
    connections.makeRoom();
  });

  async function unready(): Promise<string | undefined> {
    if (!server.listening) return "The process is ending.";
    if (!keys.ready()) return "The keys are not loaded yet.";
    return (await quota.ready()) ? undefined : "Requests cannot be counted.";
  }
  const { servedStale } = metrics;
  const gate = createGate({
    ...dependencies,
    trust: dependencies.trustProxy ?? { hops: 0 },
    ...limits,
    handlers: createHandlers({
      ...dependencies,
      unready,
      servedStale,
      file: staticReplies(dependencies.files),
    }),
  });
  const app = express();
  app.disable("x-powered-by").disable("etag").disable("query parser");
  app.use((request, response) => gate.respond(request, response, exchanges.get(request)!));

  const snapshotHeader = () => {
    const snapshot = catalog.current();
    return snapshot ? { "X-Snapshot-Id": snapshot.manifest.snapshotId } : {};
  };

  function begin(request: IncomingMessage): Exchange {
    const raw = request.url ?? "";
    const api = isApiTarget(raw);
    const id = randomUUID();
    warnOfForwarding(request);
    return {
      id,
      target: matchTarget(raw),
      api,
      headers: { ...(api ? apiHeaders : securityHeaders), "X-Request-Id": id, ...snapshotHeader() },
    };
  }

  function accept(request: IncomingMessage, response: ServerResponse): void {
    const exchange = begin(request);
    exchanges.set(request, exchange);
    // From here on nobody sees the raw target: nothing can normalise, forward or log it.
    request.url = exchange.target?.path ?? "/";
    if (!server.listening) response.setHeader("Connection", "close");
    follow(response, exchange, recorder(request, exchange));
    app(request, response);
  }

  function follow(response: ServerResponse, exchange: Exchange, record: Recorder): void {
    const timer = setTimeout(() => response.destroy(), limits.sendSeconds * 1000);
    exchange.prolong = () => timer.refresh();
    underway.add(response);
    response.once("close", () => {
      clearTimeout(timer);
      underway.delete(response);
      record(response.writableFinished ? response.statusCode : undefined);
    });
  }

  /** Tells log and metrics of a request. */
  function recorder({ method = "" }: IncomingMessage, exchange: Exchange): Recorder {
    const started = performance.now();
    return (status) => {
      const { target, code = "" } = exchange;
      const route = target?.path ?? "none";
      const milliseconds = performance.now() - started;
      logRequest(log, exchange, { method, status, milliseconds });
      if (status === undefined) metrics.aborted(route);
      else metrics.answered({ route, method, status, code, seconds: milliseconds / 1000 });
    };
  }

  async function goLive(request: IncomingMessage, socket: Socket, head: Buffer): Promise<void> {
    const exchange = begin(request);
    const record = recorder(request, exchange);
    const refusal = await gate.goLive({ request, socket, head }, exchange);
    const gone = socket.destroyed;
    if (refusal) connections.end(socket, bytesOf(refusal));
    record(gone ? undefined : (refusal?.status ?? 101));
  }

  /** Once the proxy is told to end: settles when all connections are taken. */
  let closing: Promise<void> | undefined;
  const { take, finish } = pipeline((request, response) => {
    if (closing) void closing.then(() => accept(request, response));
    else accept(request, response);
  });
  server.on("request", take);
  // An expectation is the business of those who read a body; for the others the answer is final.
  server.on("checkContinue", take);
  server.on("checkExpectation", take);

  server.on("upgrade", (request: IncomingMessage, socket: Socket, head: Buffer) => {
    // Behind another request there is no going over to another protocol.
    if (!finish(socket)) void goLive(request, socket, head);
  });

  const commonHeaders = () => ({ ...securityHeaders, ...snapshotHeader() });
  answerFaults(server, { commonHeaders, connections, finish, answered: metrics.answered });
  return {
    server,
    async drain(seconds) {
      dependencies.feed.close();
      closing = takeWaiting(server);
      await closing;
      await drain(server, { underway, connections }, seconds);
    },
  };
}

function boundedServer(limits: Limits): Server {
  const server = createServer({
    maxHeaderSize: maxHeadBytes,
    headersTimeout: limits.headSeconds * 1000,
    requestTimeout: limits.requestSeconds * 1000,
    keepAliveTimeout: limits.idleSeconds * 1000,
    // How often the first two are looked at; half a minute if left out.
    connectionsCheckingInterval: 1000,
    // Every other upgrade is answered as a plain request.
    shouldUpgradeCallback: isHandshake,
    // A missing Host is answered by the gate, in the service's own shape.
    requireHostHeader: false,
  });
  // The head's size bounds the number; node would drop those beyond its own bound without a word.
  server.maxHeadersCount = 0;
  server.timeout = limits.stalledSeconds * 1000;
  server.maxConnections = limits.connections;
  return server;
}
