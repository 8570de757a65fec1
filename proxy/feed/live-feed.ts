import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { type RawData, WebSocket, WebSocketServer } from "ws";
import type { z } from "zod";
import { endpoints } from "../../schemas/endpoints.ts";
import { Fault } from "../../schemas/errors.ts";
import { feedProtocol } from "../../schemas/headers.ts";
import { FeedCommand, type FeedMessage, feedLimits, keyEnded } from "../../schemas/rooms/feed.ts";
import { type ReaderStart, scoreChangeLog, scoreReader } from "../../snapshots/read/feed/score-change-log.ts";
import { snapshotIdOf } from "../../snapshots/read/parameters.ts";
import { within } from "../../snapshots/store/deadline.ts";
import type { Identity } from "../access/identity.ts";
import { hasBody } from "../connection/connections.ts";
import { newExchange, pathOf } from "../exchange.ts";
import type { Receipt } from "../quota/quota.ts";
import { refusalOf } from "../reply/problem.ts";
import { exchangeHeaders } from "../reply/reply.ts";
import { checksOf, requireOneHost } from "../routes/checks.ts";
import type { AppServices, Companion } from "../services.ts";

// A key that has ended closes its connections within POLL_SECONDS, of which this is the least.
const recheckMilliseconds = 1000;

/** The live feed of score changes (INTERFACE 6): its clients, and the handshakes of those who come. */
export function liveFeed(services: AppServices): Companion {
  const { catalog, record, metrics, limits, now, log } = services;
  const checks = [requireOneHost, ...checksOf(endpoints.scoreFeed, services)];
  const changes = scoreChangeLog(catalog);
  const clients = new Set<FeedClient>();
  let closed = false;
  let reported = false;
  /** A store that fails does so for all clients, so it is reported once per round. */
  function failed(error: unknown): void {
    if (!reported) log.error({ err: error }, "the live feed could not go on");
    reported = true;
  }
  metrics.gauge("prs_feed_connections", "Clients of the live feed", "sum", () => clients.size);
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
  /** Headers of the 101 answers. */
  const answers = new WeakMap<IncomingMessage, Record<string, string>>();
  server.on("headers", (lines, request) => {
    const headers = Object.entries(answers.get(request) ?? {});
    lines.push(...headers.map(([name, value]) => `${name}: ${value}`));
  });
  const pings = setInterval(() => {
    for (const client of clients) client.ping();
  }, feedLimits.pingSeconds * 1000).unref();
  const recheck = () => {
    for (const client of clients) client.recheck();
  };
  // Keys also end by their time, and a poll of the keys may hang with the store.
  const rechecks = setInterval(recheck, recheckMilliseconds).unref();

  function requireRoom(owner: string): void {
    if (closed) throw new Fault("SNAPSHOT_UNAVAILABLE", "The process is ending; connect anew.");
    const held = [...clients].filter((client) => client.owner === owner).length;
    if (held < feedLimits.connectionsPerOwner) return;
    const detail = `One owner may hold ${feedLimits.connectionsPerOwner} live connections; close one first.`;
    throw new Fault("TOO_MANY_CONNECTIONS", detail);
  }

  return {
    isHandshake,
    async takeOver(request, socket, head) {
      const exchange = newExchange(request.url ?? "", catalog);
      const end = record(request, exchange);
      let resuming: Receipt | undefined;
      try {
        for (const check of checks) await check(request, exchange);
        const since = snapshotIdOf(exchange.parameters!, "since");
        const identify = exchange.identify!;
        requireRoom(identify().owner);
        const start = await within(limits.answerSeconds, () => changes.start(since));
        resuming = await payFor(start, exchange.receipt!);
        // The key may have ended meanwhile, and others may have connected.
        requireRoom(identify().owner);
        answers.set(request, exchangeHeaders(exchange, now()));
        server.handleUpgrade(request, socket, head, (live) => {
          boundFrames(socket, live, now);
          const pending = scoreReader(changes, start);
          const { stalledSeconds } = limits;
          const client = feedClient(live, { identify, pending, stalledSeconds, failed });
          clients.add(client);
          live.on("close", () => clients.delete(client));
          void client.advance();
        });
        end(socket.destroyed ? undefined : 101);
        return undefined;
      } catch (thrown) {
        await resuming?.giveBack();
        if (resuming) exchange.receipt!.remaining = resuming.remaining;
        const refusal = await refusalOf(thrown, exchange, now());
        end(socket.destroyed ? undefined : refusal.status);
        return refusal;
      }
    },
    polled: {
      /** Sends all clients the changes that the catalog has taken up. */
      snapshot() {
        reported = false;
        for (const client of clients) void client.advance();
      },
      keys: recheck,
    },
    close() {
      closed = true;
      clearInterval(pings);
      clearInterval(rechecks);
      for (const client of clients) client.close();
    },
  };
}

/** Takes what the first unit does not pay for of the changes that a client gets before its greeting. */
async function payFor({ scores }: ReaderStart, receipt: Receipt): Promise<Receipt | undefined> {
  const units = Math.ceil(scores / feedLimits.scoresPerUnit);
  const balance = receipt.remaining + receipt.units;
  const detail =
    `To resume from this snapshot takes ${units} units, more than the ${balance} left of today; connect without ` +
    "since, and read the scores anew.";
  if (units > balance) throw new Fault("QUOTA_EXCEEDED", detail);
  return units > receipt.units ? receipt.more(units - receipt.units) : undefined;
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

// Beyond this many unread bytes the feed waits for the client.
const unreadBytes = 64 * 1024;

interface FeedClientParts {
  /** Returns the holder of the connection. Throws once the key is no longer valid. */
  identify: () => Identity;
  /** Yields the messages that are due. */
  pending: () => AsyncIterable<FeedMessage>;
  /** How long a client may take to read a message. */
  stalledSeconds: number;
  /** Called with the reason why a client got no changes. It gets them in the next round. */
  failed: (error: unknown) => void;
}

type FeedClient = ReturnType<typeof feedClient>;

export function feedClient(socket: WebSocket, parts: FeedClientParts) {
  const { identify, pending, stalledSeconds, failed } = parts;
  /** The subscribed slugs; undefined for all. */
  let slugs: ReadonlySet<string> | undefined;
  let snapshots = false;
  let busy = false;
  let alive = true;

  const wants = (message: FeedMessage) =>
    message.type === "snapshot.published"
      ? snapshots
      : !slugs || !("slug" in message) || slugs.has(message.slug);

  /** Sends a message, and cuts the client off if it does not read. If much is unread, waits for the client. */
  async function send(message: FeedMessage): Promise<void> {
    const sent = Promise.withResolvers<void>();
    const timer = setTimeout(() => socket.terminate(), stalledSeconds * 1000);
    socket.send(JSON.stringify(message), () => {
      clearTimeout(timer);
      sent.resolve();
    });
    if (socket.bufferedAmount > unreadBytes) await sent.promise;
  }

  socket.on("message", (data, binary) => {
    const command = binary ? undefined : commandOf(data);
    if (command) {
      slugs = command.slugs && new Set(command.slugs);
      snapshots = command.snapshots ?? false;
      return;
    }
    void send({ type: "error", code: "INVALID_MESSAGE" });
    // A client that sends without reading must not fill the memory with answers.
    if (socket.bufferedAmount > unreadBytes) socket.terminate();
  });
  socket.on("pong", () => (alive = true));
  // A `close` event follows.
  socket.on("error", () => {});

  return {
    owner: identify().owner,
    /** Sends what is due, unless that is already in progress. Never rejects. */
    async advance(): Promise<void> {
      if (busy) return;
      busy = true;
      try {
        for await (const message of pending()) {
          if (socket.readyState !== WebSocket.OPEN) return;
          if (wants(message)) await send(message);
        }
      } catch (error) {
        failed(error);
      } finally {
        busy = false;
      }
    },
    /** Ends the connection if its key is no longer valid. */
    recheck(): void {
      try {
        identify();
      } catch {
        socket.close(keyEnded.code, keyEnded.title);
      }
    },
    /** Sends a ping, or ends the connection if the last one was not answered. */
    ping(): void {
      if (alive) socket.ping();
      else socket.terminate();
      alive = false;
    },
    close: () => socket.close(1001),
  };
}

function commandOf(data: RawData): z.infer<typeof FeedCommand> | undefined {
  try {
    return FeedCommand.safeParse(JSON.parse(String(data))).data;
  } catch {
    return undefined;
  }
}

const { framesPerSecond, burstFrames } = feedLimits;

/**
 * Closes a connection on which a client sends more frames than it may, fragments, pings and pongs included. They are
 * counted before the library gets them: it would report whole messages alone, and would handle everything it has read
 * even after the connection has ended.
 */
function boundFrames(socket: Socket, live: WebSocket, now: () => number): void {
  const begun = frameCounter();
  let tokens: number = burstFrames;
  let counted = now();
  const [receive] = socket.listeners("data");
  socket.removeAllListeners("data").on("data", (bytes: Buffer) => {
    const seconds = Math.max(0, now() - counted) / 1000;
    counted = now();
    // Once the connection closes, bytes that begin no frame count too: they could go on for ever.
    const frames = begun(bytes) || Number(live.readyState !== WebSocket.OPEN);
    tokens = Math.min(burstFrames, tokens + seconds * framesPerSecond) - frames;
    if (tokens >= 0) return void receive?.call(socket, bytes);
    tokens = Number.NEGATIVE_INFINITY;
    live.pause();
    // Without this, the library would still handle what was read until then.
    socket.prependOnceListener("close", () => socket.read());
    live.close(1008, "too many messages");
  });
}

/** Returns a function that counts the frames that begin in a client's bytes, which come piece by piece. */
function frameCounter(): (bytes: Buffer) => number {
  let head = Buffer.alloc(0);
  let rest = 0;
  return (piece) => {
    const bytes = Buffer.concat([head, piece]);
    let [at, frames] = [rest, 0];
    for (let size = frameBytes(bytes, at); size > 0; size = frameBytes(bytes, at)) {
      at += size;
      frames += 1;
    }
    head = Buffer.from(bytes.subarray(at));
    rest = Math.max(0, at - bytes.length);
    return frames;
  };
}

/** The size of the masked frame that begins at an offset (RFC 6455, 5.2); 0 when the bytes do not tell it yet. */
function frameBytes(bytes: Buffer, at: number): number {
  const short = (bytes[at + 1] ?? 0) & 0x7f;
  const extended = { 126: 2, 127: 8 }[short] ?? 0;
  if (at + 2 + extended > bytes.length) return 0;
  const length = extended === 0 ? short : Number(`0x${bytes.toString("hex", at + 2, at + 2 + extended)}`);
  return 2 + extended + 4 + length;
}
