import { once } from "node:events";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { Server as NetServer, type Socket } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";

type Listener = (request: IncomingMessage, response: ServerResponse) => void;

/** The part of Node's HTTP parser, a private API, that this file uses. */
interface Parser {
  onIncoming: ((request: IncomingMessage, ...more: unknown[]) => number) | null;
}

// Node's answer to its parser on a change of protocol: the bytes that follow are not HTTP.
const leavesRest = 2;

// A waiting request takes far more memory than its bytes.
const maxWaiting = 16;
// While the server drains, idle connections are closed this often. At once would cut off requests on their way.
const drainMilliseconds = 1000;
// Turns of the event loop, each of which accepts one connection. Bounds the wait if connections never stop coming.
const acceptingTurns = 1000;
// If a connection is destroyed while its peer still sends, the peer sees a reset and may lose the answer.
const lingerMilliseconds = 500;

const brokenRequests = new WeakSet<IncomingMessage>();

/** Whether the rest of a request's body will never come. This may be known before anyone listens for `aborted`. */
export const isBroken = (request: IncomingMessage): boolean => brokenRequests.has(request);

interface Connection {
  response?: ServerResponse | undefined;
  /** Cuts off an answer that takes too long. Each connection has one timer, since one for each answer takes longer. */
  deadline: NodeJS.Timeout;
  /** When its last answer was over, by `performance.now()`. */
  idleSince?: number;
  waiting: (() => void)[];
  /** Whether no more requests are taken. */
  finished: boolean;
  /** Whether its last bytes are being sent. */
  ending: boolean;
}

export type Connections = ReturnType<typeof followConnections>;

/**
 * Follows all connections of a server, because Node's HTTP server forgets one that asks for a tunnel or another
 * protocol, and destroys those on which nothing moves for the server's timeout.
 *
 * The requests of each connection are answered one after the other. Node would answer them all at once and keep the
 * answers in memory until the first is sent. Some requests are the last of their connection: those with a body, since
 * two peers may disagree on where it ends; those that offer another protocol, since a peer may read what follows as
 * that protocol; and those with an Expect header. A connection with more than 16 waiting requests is cut off, and so is
 * one whose answer is not sent in `sendSeconds`, unless the `deadline` of the response is put off.
 */
export function followConnections(server: Server, sendSeconds: number, answer: Listener) {
  // Changed once per connection. A set of responses would be rebuilt all the time, and each of its tables that V8
  // tenured would keep all later ones, with their responses, until a major collection.
  const open = new Map<Socket, Connection>();

  server.on("connection", (socket: Socket & { parser?: Parser | null }) => {
    const deadline = setTimeout(() => connection.response?.destroy(), sendSeconds * 1000);
    const connection: Connection = { deadline, waiting: [], finished: false, ending: false };
    open.set(socket, connection);
    socket.on("close", () => {
      clearTimeout(deadline);
      open.delete(socket);
    });
    // Node removes its own listeners from a socket that it forgets, but the timeout keeps running.
    socket.on("timeout", () => socket.destroy());
    socket.on("error", () => socket.destroy());
    // Stops the parser at the first request that is not taken any more. Node would go on with all that it has read, and
    // 64 KiB may hold thousands of requests.
    const { parser } = socket;
    const onIncoming = parser?.onIncoming;
    if (onIncoming)
      parser.onIncoming = (...incoming) =>
        takesNone(socket, connection) ? leavesRest : onIncoming(...incoming);
  });

  function begin(connection: Connection, request: IncomingMessage, response: ServerResponse): void {
    const { socket } = request;
    connection.response = response;
    Object.assign(response, { deadline: connection.deadline.refresh() });
    if (isLast(request)) connection.finished = true;
    // The socket was paused if the request had to wait.
    if (hasBody(request)) socket.resume();
    if (connection.finished) response.setHeader("Connection", "close");
    response.on("close", () => {
      const next = connection.finished ? undefined : connection.waiting.shift();
      if (next && !socket.destroyed) return next();
      connection.response = undefined;
      connection.idleSince = performance.now();
      if (connection.finished) socket.destroySoon();
      else socket.resume();
    });
    answer(request, response);
  }

  return {
    count: () => open.size,
    take(request: IncomingMessage, response: ServerResponse): void {
      const { socket } = request;
      const connection = open.get(socket);
      if (!connection || takesNone(socket, connection)) return;
      if (!connection.response) {
        begin(connection, request, response);
      } else if (connection.waiting.length === maxWaiting) {
        socket.destroy();
      } else {
        // A request behind the last one is queued too, though it is never answered: Node keeps what it has read.
        connection.waiting.push(() => begin(connection, request, response));
        socket.pause();
      }
    },
    /**
     * Takes no more requests of a connection and ends it after its answer. Returns false if no answer is due. `broken`
     * tells the current request that the rest of its body will never come.
     */
    finish(socket: Socket, broken = false): boolean {
      const connection = open.get(socket);
      if (!connection) return false;
      connection.finished = true;
      const { response } = connection;
      if (broken && response) {
        brokenRequests.add(response.req);
        response.req.emit("aborted");
      }
      return response !== undefined;
    },
    /** Sends the last bytes of a connection and destroys it within a second, whatever its peer does. */
    end(socket: Socket, bytes: Buffer): void {
      const connection = open.get(socket);
      if (connection) connection.ending = true;
      socket.end(bytes);
      // As long as bytes are unread, the end of the connection is not seen.
      socket.resume();
      const timer = setTimeout(() => socket.destroy(), lingerMilliseconds);
      socket.once("close", () => clearTimeout(timer));
    },
    isEnding: (socket: Socket) => open.get(socket)?.ending === true,
    /**
     * Destroys up to `most` connections that are between two requests, those that have been idle for longest, or, where
     * there are none, those that are ending.
     */
    makeRoom(most: number): void {
      const unused = [...open]
        .filter(([, { idleSince, response, finished }]) => idleSince !== undefined && !response && !finished)
        .sort(([, one], [, other]) => one.idleSince! - other.idleSince!)
        .slice(0, most);
      if (unused.length > 0) for (const [socket] of unused) socket.destroy();
      else for (const [socket, { ending }] of open) if (ending) socket.destroy();
    },
    /**
     * Ends the server without cutting off answers. It accepts no connection, adds `Connection: close` to the answers
     * under way, and closes idle connections. Whatever is left after `seconds` is cut off.
     */
    async drain(seconds: number): Promise<void> {
      const closed = once(server, "close");
      // The HTTP server's own close() would also cut idle connections at once, even if a request is on its way.
      NetServer.prototype.close.call(server);
      for (const { response } of open.values())
        if (response && !response.headersSent) response.setHeader("Connection", "close");
      const quiet = setInterval(() => server.closeIdleConnections(), drainMilliseconds);
      const end = setTimeout(() => {
        for (const socket of open.keys()) socket.destroy();
      }, seconds * 1000);
      await closed;
      clearInterval(quiet);
      clearTimeout(end);
    },
  };
}

/**
 * Accepts the connections that the kernel has ready, because closing a server resets them. Requests should wait
 * meanwhile: clients that get an answer may connect again. Close the server in the turn in which this settles.
 */
export async function acceptPending(server: Server): Promise<void> {
  let quietTurns = 0;
  const taken = () => (quietTurns = 0);
  server.on("connection", taken);
  // The first turn may already have looked for connections.
  for (let turn = 0; turn < acceptingTurns && quietTurns < 2; turn += 1) {
    quietTurns += 1;
    await nextTurn();
  }
  server.off("connection", taken);
}

const takesNone = (socket: Socket, { finished, response }: Connection) =>
  socket.destroyed || (finished && !response);

function isLast(request: IncomingMessage): boolean {
  const { upgrade, expect } = request.headers;
  return upgrade !== undefined || expect !== undefined || hasBody(request);
}

export function hasBody({ headers }: IncomingMessage): boolean {
  const length = headers["content-length"];
  return headers["transfer-encoding"] !== undefined || (length !== undefined && length !== "0");
}
