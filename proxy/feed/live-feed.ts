import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { type WebSocket, WebSocketServer } from "ws";
import { feedLimits, feedProtocol } from "../../schemas/feed.ts";
import { ScoreChangeLog } from "../../snapshots/read/score-change-log.ts";
import type { Identity } from "../access/identity.ts";
import { ServiceError } from "../reply/service-error.ts";
import { FeedClient, type FeedSources } from "./feed-client.ts";

/** Where a client begins: behind a commit; `expired` when that is not the one it asked for. */
export interface FeedStart {
  position: number;
  expired: boolean;
}

/** A WebSocket handshake that is to open a live connection. */
export interface Upgrade {
  request: IncomingMessage;
  socket: Socket;
  /** What came behind the request's head. */
  head: Buffer;
  /** Of the answer. */
  headers: Record<string, string | number>;
}

/** The live feed of score changes (INTERFACE 6) of one process. */
export interface LiveFeed {
  /**
   * Finds where a client begins: behind the snapshot `since`, or else behind the current one. Throws ServiceError
   * SNAPSHOT_UNAVAILABLE, or as the store does.
   */
  begin(since: string | undefined): Promise<FeedStart>;
  /** Throws ServiceError TOO_MANY_CONNECTIONS, and has touched nothing then. */
  open(upgrade: Upgrade, identity: () => Identity, start: FeedStart): void;
  /** Tells everyone what the catalog has taken up. */
  advance(): void;
  /** Ends connections whose key no longer counts. */
  recheck(): void;
  connections(): number;
  close(): void;
}

export function createLiveFeed(parts: Omit<FeedSources, "feed">): LiveFeed {
  const { catalog } = parts;
  let closed = false;
  let told = false;
  /** A store that fails, fails for all clients: it is told once a round. */
  function failed(error: unknown): void {
    if (!told) parts.failed(error);
    told = true;
  }
  const sources = { ...parts, failed, feed: new ScoreChangeLog(catalog) };
  const clients = new Set<FeedClient>();
  const server = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    maxPayload: feedLimits.messageBytes,
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
    const held = [...clients].filter((client) => client.owner === owner).length;
    if (held < feedLimits.connectionsPerOwner) return;
    const detail = `One owner may hold ${feedLimits.connectionsPerOwner} live connections; close one first.`;
    throw new ServiceError("TOO_MANY_CONNECTIONS", detail);
  }

  function serve(socket: WebSocket, identity: () => Identity, { position, expired }: FeedStart): void {
    const client = new FeedClient(socket, identity, position, sources);
    clients.add(client);
    socket.on("close", () => clients.delete(client));
    if (expired) void client.expired();
    void client.advance();
  }

  return {
    async begin(since) {
      const current = catalog.current()?.commit;
      if (!current)
        throw new ServiceError("SNAPSHOT_UNAVAILABLE", "No snapshot is loaded yet; try again shortly.");
      const known = since === undefined ? current : await sources.feed.commitOf(since);
      return { position: (known ?? current).commit, expired: known === undefined };
    },
    open({ request, socket, head, headers }, identity, start) {
      if (closed) throw new ServiceError("SNAPSHOT_UNAVAILABLE", "The process is ending; connect anew.");
      requireRoom(identity().owner);
      answers.set(request, headers);
      server.handleUpgrade(request, socket, head, (live) => serve(live, identity, start));
    },
    advance() {
      told = false;
      for (const client of clients) void client.advance();
    },
    recheck() {
      for (const client of clients) client.recheck();
    },
    connections: () => clients.size,
    close() {
      closed = true;
      clearInterval(pings);
      for (const client of clients) client.close();
    },
  };
}
