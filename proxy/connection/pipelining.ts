import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";

type Listener = (request: IncomingMessage, response: ServerResponse) => void;

/** What Node keeps on a socket to parse its requests. */
interface Parser {
  onIncoming: ((request: IncomingMessage, ...more: unknown[]) => number) | null;
}

// What Node returns to its parser for a change of protocol: what follows is none of HTTP.
const leavesRest = 2;

// A waiting request takes far more memory than its bytes.
const maxWaiting = 16;

const brokenRequests = new WeakSet<IncomingMessage>();

/** Whether the rest of a request's body will never come. This may be known before anyone listens for `aborted`. */
export const isBroken = (request: IncomingMessage): boolean => brokenRequests.has(request);

/** The requests of all connections, answered one at a time on each. */
export type Pipeline = ReturnType<typeof pipeline>;

/**
 * Answers the requests of each connection one after the other. Node would answer them all at once and keep the answers
 * in memory until the first is sent. Some requests are the last of their connection: those with a body, since two peers
 * may disagree on where it ends; those that offer another protocol, since a peer may read what follows as that
 * protocol; and those with an Expect header. A connection with more than 16 waiting requests is cut off.
 */
export function pipeline(answer: Listener) {
  /** Connections with a current request, and the requests that wait behind it. */
  const waiting = new WeakMap<Socket, (() => void)[]>();
  const current = new WeakMap<Socket, IncomingMessage>();
  const finished = new WeakSet<Socket>();
  const underway = new Set<ServerResponse>();

  function begin(request: IncomingMessage, response: ServerResponse): void {
    const { socket } = request;
    current.set(socket, request);
    if (isLast(request)) finished.add(socket);
    // The socket was paused if the request had to wait.
    if (hasBody(request)) socket.resume();
    if (finished.has(socket)) response.setHeader("Connection", "close");
    underway.add(response);
    response.on("close", () => {
      underway.delete(response);
      const next = finished.has(socket) ? undefined : waiting.get(socket)?.shift();
      if (next && !socket.destroyed) return next();
      waiting.delete(socket);
      if (finished.has(socket)) socket.destroySoon();
      else socket.resume();
    });
    answer(request, response);
  }

  const takesNone = (socket: Socket) => socket.destroyed || (finished.has(socket) && !waiting.has(socket));

  return {
    /**
     * Stops the parser of a connection at the first request that is not taken any more. Node would go on with all that
     * it has read, and 64 KiB may hold thousands of requests.
     */
    follow(socket: Socket & { parser?: Parser | null }): void {
      const { parser } = socket;
      const onIncoming = parser?.onIncoming;
      if (onIncoming)
        parser.onIncoming = (...incoming) => (takesNone(socket) ? leavesRest : onIncoming(...incoming));
    },
    /** The responses whose answers are not sent yet. */
    underway,
    take(request: IncomingMessage, response: ServerResponse): void {
      const { socket } = request;
      const queue = waiting.get(socket);
      if (takesNone(socket)) return;
      if (!queue) {
        waiting.set(socket, []);
        begin(request, response);
      } else if (queue.length === maxWaiting) {
        socket.destroy();
      } else {
        // A request behind the last one is queued too, though it is never answered: Node keeps what it has read.
        queue.push(() => begin(request, response));
        socket.pause();
      }
    },
    /**
     * Takes no more requests of a connection and ends it after its answer. Returns false if none is due. `broken` tells
     * the current request that the rest of its body will never come.
     */
    finish(socket: Socket, broken = false): boolean {
      finished.add(socket);
      const request = current.get(socket);
      if (broken && request) {
        brokenRequests.add(request);
        request.emit("aborted");
      }
      return waiting.has(socket);
    },
  };
}

function isLast(request: IncomingMessage): boolean {
  const { upgrade, expect } = request.headers;
  return upgrade !== undefined || expect !== undefined || hasBody(request);
}

/** Whether a body follows a request's head. */
export function hasBody({ headers }: IncomingMessage): boolean {
  const length = headers["content-length"];
  return headers["transfer-encoding"] !== undefined || (length !== undefined && length !== "0");
}
