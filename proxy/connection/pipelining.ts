import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";

type Listener = (request: IncomingMessage, response: ServerResponse) => void;

/** The part of Node's HTTP parser, a private API, that this file uses. */
interface Parser {
  onIncoming: ((request: IncomingMessage, ...more: unknown[]) => number) | null;
}

// Node's answer to its parser on a change of protocol: the bytes that follow are no HTTP.
const leavesRest = 2;

// A waiting request takes far more memory than its bytes.
const maxWaiting = 16;

const brokenRequests = new WeakSet<IncomingMessage>();

/** Whether the rest of a request's body will never come. This may be known before anyone listens for `aborted`. */
export const isBroken = (request: IncomingMessage): boolean => brokenRequests.has(request);

interface Connection {
  response?: ServerResponse | undefined;
  /** Ends the answer under way by then. One for the connection: making one for each answer takes longer. */
  deadline: NodeJS.Timeout;
  /** When its last answer was over, by `performance.now()`. */
  answered?: number;
  /** The requests that wait behind the current one. */
  waiting: (() => void)[];
  /** Whether no more requests are taken. */
  finished: boolean;
}

export type Pipeline = ReturnType<typeof pipeline>;

/**
 * Answers the requests of each connection one after the other. Node would answer them all at once and keep the answers
 * in memory until the first is sent. Some requests are the last of their connection: those with a body, since two peers
 * may disagree on where it ends; those that offer another protocol, since a peer may read what follows as that
 * protocol; and those with an Expect header. A connection with more than 16 waiting requests is cut off, and so is one
 * whose answer is not sent in `sendSeconds`, unless the `deadline` of the response is put off.
 */
export function pipeline(answer: Listener, sendSeconds: number) {
  // Changed once per connection. A set of responses would be rebuilt all the time, and each of its tables that V8
  // tenured would keep all later ones, with their responses, until a major collection.
  const connections = new Map<Socket, Connection>();

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
      connection.answered = performance.now();
      if (connection.finished) socket.destroySoon();
      else socket.resume();
    });
    answer(request, response);
  }

  return {
    /**
     * Stops the parser of a connection at the first request that is not taken any more. Node would go on with all that
     * it has read, and 64 KiB may hold thousands of requests.
     */
    follow(socket: Socket & { parser?: Parser | null }): void {
      const deadline = setTimeout(() => connection.response?.destroy(), sendSeconds * 1000);
      const connection: Connection = { deadline, waiting: [], finished: false };
      connections.set(socket, connection);
      socket.on("close", () => {
        clearTimeout(deadline);
        connections.delete(socket);
      });
      const { parser } = socket;
      const onIncoming = parser?.onIncoming;
      if (onIncoming)
        parser.onIncoming = (...incoming) =>
          takesNone(socket, connection) ? leavesRest : onIncoming(...incoming);
    },
    underway: () => [...connections.values()].flatMap(({ response = [] }) => response),
    /** Up to `most` connections that are between two requests, those that have been idle for longest. */
    idle: (most: number): Socket[] =>
      [...connections]
        .filter(([, { answered, response, finished }]) => answered !== undefined && !response && !finished)
        .sort(([, one], [, other]) => one.answered! - other.answered!)
        .slice(0, most)
        .map(([socket]) => socket),
    take(request: IncomingMessage, response: ServerResponse): void {
      const { socket } = request;
      const connection = connections.get(socket);
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
      const connection = connections.get(socket);
      if (!connection) return false;
      connection.finished = true;
      const { response } = connection;
      if (broken && response) {
        brokenRequests.add(response.req);
        response.req.emit("aborted");
      }
      return response !== undefined;
    },
  };
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
