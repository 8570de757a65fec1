import { once } from "node:events";
import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import { connect, type Socket } from "node:net";
import { expect } from "vitest";
import { type ClientOptions, WebSocket } from "ws";
import { feedProtocol } from "../../../schemas/headers.ts";
import { FeedMessage, type ScoreChange } from "../../../schemas/rooms/feed.ts";
import { type Book, publishBook } from "../publish/score-books.ts";
import { startTestProxy, type TestProxy, type TestProxyOptions } from "./proxy.ts";
import { bearer, until } from "./proxy-client.ts";

export const feedPath = "/api/v1/ws/scores";

/** Header fields of a correct handshake, for clients that do not speak WebSocket. */
export const handshake = {
  Connection: "Upgrade",
  Upgrade: "websocket",
  "Sec-WebSocket-Version": "13",
  "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
};

/** How a listener differs from one that presents its key in a header and asks for everything from now on. */
export interface ListenChoices extends ClientOptions {
  since?: string;
  protocols?: string[];
}

/** One connection to the live feed. */
export interface Listener {
  socket: WebSocket;
  /** Fields of the answer that opened it. */
  headers: IncomingHttpHeaders;
  /** All that it has heard, checked for its shape. */
  heard: FeedMessage[];
  changes(): ScoreChange[];
  /** Waits until it has heard so many messages. */
  count(messages: number): Promise<void>;
  /** Settles with the close code. */
  closed: Promise<number>;
  /** Sends a command; a text goes out as it is. */
  say(message: object | string): void;
  /** Asks for some slugs, and waits until the server has heard it. */
  subscribe(...slugs: string[]): Promise<void>;
}

/** Opens a connection. Rejects when the handshake fails. */
export async function listen(port: number, key: string, choices: ListenChoices = {}): Promise<Listener> {
  const { since, protocols = [feedProtocol], ...options } = choices;
  const query = since === undefined ? "" : `?since=${since}`;
  const socket = new WebSocket(`ws://127.0.0.1:${port}${feedPath}${query}`, protocols, {
    headers: bearer(key),
    ...options,
  });
  const heard: FeedMessage[] = [];
  socket.on("message", (data) => heard.push(FeedMessage.parse(JSON.parse(String(data)))));
  const closed = new Promise<number>((resolve) => socket.on("close", resolve));
  let headers: IncomingHttpHeaders = {};
  socket.on("upgrade", (response: IncomingMessage) => {
    headers = response.headers;
  });
  await once(socket, "open");
  socket.on("error", () => {});
  const say = (message: object | string) =>
    socket.send(typeof message === "string" ? message : JSON.stringify(message));
  return {
    socket,
    headers,
    heard,
    changes: () => heard.filter((message): message is ScoreChange => message.type.startsWith("score.")),
    count: (messages) => until(`${messages} messages of the feed`, () => heard.length >= messages),
    closed,
    say,
    async subscribe(...slugs) {
      say({ type: "subscribe", slugs });
      socket.ping();
      // The server takes frames in turn, so that the command is obeyed by then.
      await once(socket, "pong");
    },
  };
}

/** The same, once it was greeted. */
export async function listenGreeted(port: number, key: string, choices?: ListenChoices): Promise<Listener> {
  const listener = await listen(port, key, choices);
  await until("the feed's hello", () => listener.heard.some(({ type }) => type === "hello"));
  return listener;
}

/** A greeting at any time. Times matter only where a snapshot is published again. */
export const hello = (snapshotId: string) => ({ type: "hello", snapshotId, publishedAt: expect.any(String) });

/** Starts a proxy over a store with these scores, and issues a key. */
export async function startFeedProxy(book: Book, options: TestProxyOptions = {}): Promise<FeedProxy> {
  const proxy = await startTestProxy({ ...options, empty: true });
  const first = await publishBook(proxy.storage, book);
  await takenUp(proxy, first);
  return { proxy, first, key: await proxy.issue({ plan: "developer" }) };
}

/** A proxy, the id of its first snapshot, and a key on the Developer plan. */
export interface FeedProxy {
  proxy: TestProxy;
  first: string;
  key: string;
}

/** Waits until a proxy serves a snapshot. */
export const takenUp = (proxy: TestProxy, snapshotId: string) =>
  until(
    `the proxy to serve snapshot ${snapshotId}`,
    async () => (await proxy.get("/healthz")).headers["x-snapshot-id"] === snapshotId,
  );

/** Clients of a proxy's feed, as its metrics tell. */
export const connections = ({ measured }: TestProxy): Promise<number> => measured("prs_feed_connections");

/** Closes connections, and waits until the proxy has none left. */
export async function leave(proxy: TestProxy, ...listeners: Listener[]): Promise<void> {
  for (const { socket } of listeners) socket.close();
  await until("the last feed connection to close", async () => (await connections(proxy)) === 0);
}

/** A client that only sends raw bytes. It reads nothing by itself and answers nothing. */
export function rawListener(port: number, key: string, search = ""): Socket {
  const socket = connect(port, "127.0.0.1");
  socket.on("error", () => socket.destroy());
  const fields = Object.entries({ Host: "x", ...handshake, ...bearer(key) });
  const lines = fields.map(([name, value]) => `${name}: ${value}\r\n`).join("");
  socket.write(`GET ${feedPath}${search} HTTP/1.1\r\n${lines}\r\n`);
  return socket;
}
