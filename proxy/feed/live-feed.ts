import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { Gauge, type Registry } from "prom-client";
import { type WebSocket, WebSocketServer } from "ws";
import { endpoints } from "../../schemas/endpoints.ts";
import { Fault } from "../../schemas/errors.ts";
import { feedProtocol } from "../../schemas/headers.ts";
import { feedLimits } from "../../schemas/rooms/feed.ts";
import { type ReaderStart, ScoreChangeLog, scoreReader } from "../../snapshots/read/feed/score-change-log.ts";
import { snapshotIdOf } from "../../snapshots/read/query/query.ts";
import { within } from "../../snapshots/store/deadline.ts";
import type { Identity } from "../access/identity.ts";
import { hasBody } from "../connection/connections.ts";
import { newExchange } from "../exchange.ts";
import type { Receipt } from "../quota/quota.ts";
import { refusalOf } from "../reply/problem.ts";
import { exchangeHeaders, headersAt } from "../reply/reply.ts";
import { checksOf, pathOf, requireOneHost, searchOf } from "../routes/checks.ts";
import type { AppServices, Companion } from "../services.ts";
import { boundFrames, type FeedClient, feedClient } from "./feed-client.ts";

/** The live feed of score changes (INTERFACE 6). */
export function liveFeed(services: LiveFeedServices): Companion {
  const feed = createLiveFeed(services);
  return {
    polled: { snapshot: feed.advance, keys: feed.recheck },
    isHandshake,
    takeOver: (services) => goLive(services, feed),
    close: feed.close,
  };
}

/** Hands the connection of a WebSocket handshake over to the live feed. */
function goLive(services: AppServices, feed: LiveFeed): ReturnType<Companion["takeOver"]> {
  const { catalog, recorder, limits, now } = services;
  const { path } = endpoints.scoreFeed;
  const checks = [requireOneHost, ...checksOf(endpoints.scoreFeed, services)];
  return async (request: IncomingMessage, socket: Socket, head: Buffer) => {
    const exchange = newExchange(searchOf(request.url ?? ""), catalog, headersAt(path));
    exchange.route = path;
    const end = recorder.begin(request, exchange);
    try {
      for (const check of checks) await check(request, exchange);
      const since = snapshotIdOf(exchange.parameters!, "since");
      const { owner } = exchange.identify!();
      const start = await within(limits.answerSeconds, () => feed.begin(since, owner));
      await payFor(start, exchange.receipt!);
      feed.open(
        { request, socket, head, headers: exchangeHeaders(exchange, now()) },
        exchange.identify!,
        start,
      );
      end(socket.destroyed ? undefined : 101);
      return undefined;
    } catch (thrown) {
      const refusal = await refusalOf(thrown, exchange, now(), path);
      end(socket.destroyed ? undefined : refusal.status);
      return refusal;
    }
  };
}

/** Takes the units for the changes that a client gets before its greeting. */
async function payFor({ scores }: ReaderStart, receipt: Receipt): Promise<void> {
  const units = Math.ceil(scores / feedLimits.scoresPerUnit);
  const left = receipt.remaining + receipt.units;
  const detail =
    `To resume from this snapshot takes ${units} units, more than the ${left} left of today; connect without since, ` +
    "and read the scores anew.";
  if (units > left) throw new Fault("QUOTA_EXCEEDED", detail);
  while (receipt.units < units) await receipt.more();
}

/** Whether a request is a WebSocket handshake with the live feed (RFC 6455, 4.1). */
function isHandshake(request: IncomingMessage): boolean {
  const { url = "", method, headers } = request;
  const { "sec-websocket-version": version, "sec-websocket-key": nonce = "" } = headers;
  return (
    method === "GET" &&
    !hasBody(request) &&
    pathOf(url) === endpoints.scoreFeed.path &&
    /^websocket$/i.test(headers.upgrade ?? "") &&
    version === "13" &&
    /^[+/0-9A-Za-z]{22}==$/.test(nonce) &&
    areTokens(headers["sec-websocket-protocol"])
  );
}

function areTokens(offered: string | undefined): boolean {
  const names = offered?.split(",").map((name) => name.trim()) ?? [];
  return (
    new Set(names).size === names.length && names.every((name) => /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name))
  );
}

/** How long a client may take to answer a close. The types of the library lack this option. */
const closing = { closeTimeout: 1000 };

/** An accepted WebSocket handshake. */
export interface Upgrade {
  request: IncomingMessage;
  socket: Socket;
  /** The bytes after the request's head. */
  head: Buffer;
  /** Headers of the 101 answer. */
  headers: Record<string, string | number>;
}

interface LiveFeedServices extends Pick<AppServices, "catalog" | "now" | "limits" | "log"> {
  metrics: Registry;
}

type LiveFeed = ReturnType<typeof createLiveFeed>;

function createLiveFeed({ catalog, now, limits, log, metrics }: LiveFeedServices) {
  const changes = new ScoreChangeLog(catalog);
  let closed = false;
  let told = false;
  /** A store that fails does so for all clients, so it is reported once per round. */
  function failed(error: unknown): void {
    if (!told) log.error({ err: error }, "the live feed could not go on");
    told = true;
  }
  const clients = new Set<FeedClient>();
  new Gauge({
    name: "prs_feed_connections",
    help: "Clients of the live feed",
    aggregator: "sum",
    registers: [metrics],
    collect() {
      this.set(clients.size);
    },
  });
  const server = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    maxPayload: feedLimits.messageBytes,
    // Handles one message per turn of the event loop.
    allowSynchronousEvents: false,
    ...closing,
    // A key among the offers is never echoed.
    handleProtocols: (offered) => offered.has(feedProtocol) && feedProtocol,
  });
  const answers = new WeakMap<IncomingMessage, Upgrade["headers"]>();
  server.on("headers", (lines, request) => {
    const headers = Object.entries(answers.get(request) ?? {});
    lines.push(...headers.map(([name, value]) => `${name}: ${value}`));
  });
  const pings = setInterval(() => {
    for (const client of clients) client.ping();
  }, feedLimits.pingSeconds * 1000).unref();

  function requireRoom(owner: string): void {
    if (closed) throw new Fault("SNAPSHOT_UNAVAILABLE", "The process is ending; connect anew.");
    const held = [...clients].filter((client) => client.owner === owner).length;
    if (held < feedLimits.connectionsPerOwner) return;
    const detail = `One owner may hold ${feedLimits.connectionsPerOwner} live connections; close one first.`;
    throw new Fault("TOO_MANY_CONNECTIONS", detail);
  }

  function serve(socket: WebSocket, identify: () => Identity, start: ReaderStart): void {
    const pending = scoreReader(changes, start);
    const { stalledSeconds } = limits;
    const client = feedClient(socket, { identify, pending, stalledSeconds, failed });
    clients.add(client);
    socket.on("close", () => clients.delete(client));
    void client.advance();
  }

  return {
    /** Returns where a client begins that has seen the snapshot `since`. */
    async begin(since: string | undefined, owner: string): Promise<ReaderStart> {
      requireRoom(owner);
      return changes.start(since);
    },
    /** Throws as `begin` does, before it touches the socket. */
    open({ request, socket, head, headers }: Upgrade, identify: () => Identity, start: ReaderStart): void {
      requireRoom(identify().owner);
      answers.set(request, headers);
      server.handleUpgrade(request, socket, head, (live) => {
        boundFrames(socket, live, now);
        serve(live, identify, start);
      });
    },
    /** Sends all clients the changes that the catalog has taken up. */
    advance(): void {
      told = false;
      for (const client of clients) void client.advance();
    },
    /** Ends connections whose key is no longer valid. */
    recheck(): void {
      for (const client of clients) client.recheck();
    },
    close(): void {
      closed = true;
      clearInterval(pings);
      for (const client of clients) client.close();
    },
  };
}
