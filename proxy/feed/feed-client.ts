import type { Socket } from "node:net";
import { type RawData, WebSocket } from "ws";
import type { z } from "zod";
import { FeedCommand, type FeedMessage, feedLimits, keyEnded } from "../../schemas/rooms/feed.ts";
import type { Identity } from "../access/identity.ts";

const { framesPerSecond, burstFrames } = feedLimits;

/**
 * Closes a connection on which a client sends more frames than it may, fragments, pings and pongs included. They are
 * counted before the library gets them: it would report whole messages alone, and would handle everything it has read
 * even after the connection has ended.
 */
export function boundFrames(socket: Socket, live: WebSocket, now: () => number): void {
  const begun = frameCounter();
  let left: number = burstFrames;
  let counted = now();
  const [receive] = socket.listeners("data");
  socket.removeAllListeners("data").on("data", (bytes: Buffer) => {
    const seconds = Math.max(0, now() - counted) / 1000;
    counted = now();
    // Once the connection closes, bytes that begin no frame count too: they could go on for ever.
    const frames = begun(bytes) || Number(live.readyState !== WebSocket.OPEN);
    left = Math.min(burstFrames, left + seconds * framesPerSecond) - frames;
    if (left >= 0) return void receive?.call(socket, bytes);
    left = Number.NEGATIVE_INFINITY;
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

// Beyond this many unread bytes the feed waits for the client.
const unreadBytes = 64 * 1024;

export interface FeedClientParts {
  /** Returns the holder of the connection. Throws once the key is no longer valid. */
  identify: () => Identity;
  /** Yields the messages that are due. */
  pending: () => AsyncIterable<FeedMessage>;
  /** How long a client may take to read when too much is unread. */
  stalledSeconds: number;
  /** Called with the reason why a client got no changes. It gets them in the next round. */
  failed: (error: unknown) => void;
}

export type FeedClient = ReturnType<typeof feedClient>;

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

  /** Sends a message. If much is unread, waits for the client, and cuts it off if it does not read. */
  async function send(message: FeedMessage): Promise<void> {
    const sent = Promise.withResolvers<void>();
    socket.send(JSON.stringify(message), () => sent.resolve());
    if (socket.bufferedAmount <= unreadBytes) return;
    const timer = setTimeout(() => socket.terminate(), stalledSeconds * 1000);
    await sent.promise;
    clearTimeout(timer);
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
    /** Ends the connection because the process ends. */
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
