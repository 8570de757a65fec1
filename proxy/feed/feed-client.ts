import { type RawData, WebSocket } from "ws";
import type { z } from "zod";
import { FeedCommand, type FeedMessage, keyEnded } from "../../schemas/feed.ts";
import type { Identity } from "../access/identity.ts";

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
