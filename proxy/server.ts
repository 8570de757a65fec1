import { createServer, type RequestListener, type Server, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Logger } from "pino";
import type { KeyRing } from "../snapshots/keys/ring.ts";
import type { Catalog } from "../snapshots/read/catalog.ts";
import type { Trust } from "./access/client-address.ts";
import { createApp } from "./app.ts";
import { followConnections } from "./connection/connections.ts";
import { drain, takeWaiting } from "./connection/drain.ts";
import { answerMalformed, bytesOf } from "./connection/malformed.ts";
import { pipeline } from "./connection/pipelining.ts";
import { createGoLive, type GoLive } from "./feed/go-live.ts";
import { isHandshake } from "./feed/handshake.ts";
import type { LiveFeed } from "./feed/live-feed.ts";
import type { Limits } from "./limits.ts";
import type { Forwarder } from "./origin/forward.ts";
import type { PublicObjects } from "./origin/public-objects.ts";
import type { Quota } from "./quota/quota.ts";
import { type CommonHeaders, createCommonHeaders } from "./reply/headers.ts";
import { createRowsSender } from "./reply/rows.ts";
import { staticReplies } from "./reply/static-files.ts";
import { answerDeadline } from "./routes/deadline.ts";
import { createLane } from "./routes/lane.ts";
import { canonicalTarget } from "./routes/target.ts";
import type { StaticFile } from "./site/static-file.ts";
import type { Metrics } from "./telemetry/metrics.ts";
import { createRecorder } from "./telemetry/recorder.ts";

/** All that the proxy stands on. */
export interface ProxyParts {
  catalog: Catalog;
  keys: KeyRing;
  quota: Quota;
  objects: PublicObjects;
  forwarder: Forwarder;
  feed: LiveFeed;
  /** Seconds since the store was looked into with success, for snapshots or for keys. */
  pollAge: () => number;
  metrics: Metrics;
  /** What is served as it is. */
  files: readonly StaticFile[];
  /** Undefined: no peer is trusted, and a warning is due when one seems to be a load balancer. */
  trustProxy?: Trust | undefined;
  staleAfterSeconds: number;
  limits: Limits;
  /** Epoch milliseconds. */
  now: () => number;
  log: Logger;
}

/** The proxy as a server that is not listening yet, and the way to end it. */
export interface ProxyServer {
  server: Server;
  /** Lets requests under way finish for at most `seconds`. */
  drain(seconds: number): Promise<void>;
}

const maxHeadBytes = 16 * 1024;

/** Puts the proxy together: the app, the live feed's handshakes, and the connections before both. */
export function createProxyServer(parts: ProxyParts): ProxyServer {
  const { catalog, quota, metrics, limits, feed, trustProxy, now } = parts;
  const server = boundedServer(limits);
  const inTime = answerDeadline(limits.answerSeconds);
  const shared = {
    ...parts,
    inTime,
    trust: trustProxy ?? { hops: 0 },
    commonHeaders: createCommonHeaders(() => catalog.current()?.manifest.snapshotId),
    recorder: createRecorder(parts.log, metrics, { warnOfForwarding: trustProxy === undefined }),
  };
  const app = createApp({
    ...shared,
    lane: createLane(),
    sendRows: createRowsSender({ quota, brokeOff: metrics.brokeOff, inTime, now }),
    file: staticReplies(parts.files),
    listening: () => server.listening,
    servedStale: metrics.servedStale,
  });
  const goLive = createGoLive(shared);
  return { server, drain: takeConnections(server, { ...shared, app, goLive, feed }) };
}

/** What stands behind the connections. */
interface Behind {
  /** Sees canonical targets alone. */
  app: RequestListener;
  goLive: GoLive;
  feed: LiveFeed;
  commonHeaders: CommonHeaders;
  metrics: Metrics;
}

/** Takes the requests of each connection in turn, handshakes, and what is no request. Returns the way to end it. */
function takeConnections(
  server: Server,
  { app, goLive, feed, commonHeaders, metrics }: Behind,
): ProxyServer["drain"] {
  const connections = followConnections(server);
  server.on("drop", () => {
    metrics.dropped();
    // Those that ask nothing make room for those that do.
    connections.makeRoom();
  });

  const underway = new Set<ServerResponse>();
  const answer: RequestListener = (request, response) => {
    underway.add(response);
    response.once("close", () => underway.delete(response));
    if (!server.listening) response.setHeader("Connection", "close");
    request.url = canonicalTarget(request.url ?? "");
    app(request, response);
  };
  /** Once the server is told to end: settles when all connections are taken. */
  let closing: Promise<void> | undefined;
  const { take, finish } = pipeline((request, response) => {
    if (closing) void closing.then(() => answer(request, response));
    else answer(request, response);
  });
  server.on("request", take);
  // An expectation is the business of those who read a body; for the others the answer is final.
  server.on("checkContinue", take);
  server.on("checkExpectation", take);
  server.on("upgrade", async (request, socket: Socket, head) => {
    // Behind another request there is no going over to another protocol.
    if (finish(socket)) return;
    const refusal = await goLive(request, socket, head);
    if (refusal) connections.end(socket, bytesOf(refusal));
  });
  answerMalformed(server, { commonHeaders, connections, finish, answered: metrics.answered });

  return async (seconds) => {
    feed.close();
    closing = takeWaiting(server);
    await closing;
    await drain(server, { underway, connections }, seconds);
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
    // The app answers a missing Host, in the service's own shape.
    requireHostHeader: false,
  });
  // The head's size bounds the number; node would drop those beyond its own bound without a word.
  server.maxHeadersCount = 0;
  server.timeout = limits.stalledSeconds * 1000;
  server.maxConnections = limits.connections;
  return server;
}
