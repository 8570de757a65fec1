import { createServer, type Socket } from "node:net";
import type { Storage } from "../../../snapshots/store/storage.ts";
import { serveLocally } from "../servers/programs.ts";

/** What a faulty origin does with a request for `target`, given the bytes a good one would send. */
export type Behaviour = (socket: Socket, body: Buffer, target: string) => void;

/** An origin that behaves as told. */
export interface FaultyOrigin {
  url: URL;
  /** The heads of all requests received. */
  requests: string[];
  connections: number;
  /** Connections that are open now. */
  open(): number;
  behave: Behaviour;
  stop(): Promise<void>;
}

/** Starts an origin; `bodyOf` gives the true bytes of a target. */
export async function startFaultyOrigin(bodyOf: (target: string) => Promise<Buffer>): Promise<FaultyOrigin> {
  const server = createServer((socket) => {
    origin.connections += 1;
    let received = "";
    socket.on("data", async (chunk) => {
      received += chunk.toString("latin1");
      while (received.includes("\r\n\r\n")) {
        const head = received.slice(0, received.indexOf("\r\n\r\n"));
        received = received.slice(head.length + 4);
        const target = head.split(" ")[1] ?? "";
        const body = await bodyOf(target);
        // In the same turn, so that a test that sees the request can rely on `behave` having run.
        origin.requests.push(head);
        origin.behave(socket, body, target);
      }
    });
  });
  const { url, open, stop } = await serveLocally(server);
  const at = new URL("/cdn/", url);
  const origin: FaultyOrigin = {
    url: at,
    requests: [],
    connections: 0,
    open,
    behave: good,
    stop,
  };
  return origin;
}

/** Starts an origin in front of a store, which may be made after it. */
export const startOriginOf = (storage: () => Storage): Promise<FaultyOrigin> =>
  startFaultyOrigin(async (target) => (await storage().get(target.slice("/cdn/".length))) ?? Buffer.alloc(0));

/** Sends a whole answer. */
export const respond = (socket: Socket, status: string, headers: string[], body: Buffer | string) => {
  const head = [`HTTP/1.1 ${status}`, ...headers, `Content-Length: ${Buffer.byteLength(body)}`];
  socket.write(Buffer.concat([Buffer.from(`${head.join("\r\n")}\r\n\r\n`), Buffer.from(body)]));
};

/** An origin as it should be, with headers nobody should see. */
export const good: Behaviour = (socket, body) =>
  respond(
    socket,
    "200 OK",
    ["Content-Type: text/html", "Server: origin", "Set-Cookie: a=b", "X-Amz-Id: 1"],
    body,
  );
