import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { Gauge, type Registry } from "prom-client";
import { type WebSocket, WebSocketServer } from "ws";
import { Fault } from "../../schemas/errors.ts";
import { feedProtocol } from "../../schemas/headers.ts";
import { feedLimits } from "../../schemas/rooms/feed.ts";
import { type ReaderStart, ScoreChangeLog, scoreReader } from "../../snapshots/read/feed/score-change-log.ts";
import type { Identity } from "../access/identity.ts";
import type { AppServices } from "../services.ts";
import { boundFrames, type FeedClient, feedClient } from "./feed-client.ts";

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

export interface LiveFeedServices extends Pick<AppServices, "catalog" | "now" | "limits" | "log"> {
  metrics: Registry;
}

export type LiveFeed = ReturnType<typeof createLiveFeed>;

export function createLiveFeed({ catalog, now, limits, log, metrics }: LiveFeedServices) {
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
