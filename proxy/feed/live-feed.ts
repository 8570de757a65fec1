import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { type WebSocket, WebSocketServer } from "ws";
import { feedLimits, feedProtocol } from "../../schemas/feed.ts";
import { ScoreChangeLog } from "../../snapshots/read/score-change-log.ts";
import type { Identity } from "../access/identity.ts";
import { ServiceError } from "../errors/service-error.ts";
import { FeedClient, type FeedSources } from "./feed-client.ts";

/** The commit after which a client begins; `expired` if it asked for one that is gone. */
export interface FeedStart {
  position: number;
  expired: boolean;
}

/** An accepted WebSocket handshake. */
export interface Upgrade {
  request: IncomingMessage;
  socket: Socket;
  /** The bytes after the request's head. */
  head: Buffer;
  /** Headers of the 101 answer. */
  headers: Record<string, string | number>;
}

/** The live feed of score changes (INTERFACE 6) of one process. */
export type LiveFeed = ReturnType<typeof createLiveFeed>;

export function createLiveFeed(parts: Omit<FeedSources, "feed">) {
  const { catalog } = parts;
  let closed = false;
  let told = false;
  /** A store that fails does so for all clients, so it is reported once per round. */
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
    /**
     * Finds where a client begins: after the snapshot `since`, or after the current one. Throws NoSnapshotError, ServiceError
     * SNAPSHOT_UNAVAILABLE, or as the store does.
     */
    async begin(since: string | undefined): Promise<FeedStart> {
      const current = catalog.current()?.commit;
      if (!current)
        throw new ServiceError("SNAPSHOT_UNAVAILABLE", "No snapshot is loaded yet; try again shortly.");
      const known = since === undefined ? current : await sources.feed.commitOf(since);
      return { position: (known ?? current).commit, expired: known === undefined };
    },
    /** Throws ServiceError TOO_MANY_CONNECTIONS or SNAPSHOT_UNAVAILABLE before it touches the socket. */
    open({ request, socket, head, headers }: Upgrade, identity: () => Identity, start: FeedStart): void {
      if (closed) throw new ServiceError("SNAPSHOT_UNAVAILABLE", "The process is ending; connect anew.");
      requireRoom(identity().owner);
      answers.set(request, headers);
      server.handleUpgrade(request, socket, head, (live) => serve(live, identity, start));
    },
    /** Sends all clients what the catalog has taken up. */
    advance(): void {
      told = false;
      for (const client of clients) void client.advance();
    },
    /** Ends connections whose key is no longer valid. */
    recheck(): void {
      for (const client of clients) client.recheck();
    },
    connections: () => clients.size,
    close(): void {
      closed = true;
      clearInterval(pings);
      for (const client of clients) client.close();
    },
  };
}
