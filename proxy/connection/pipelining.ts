import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";

type Listener = (request: IncomingMessage, response: ServerResponse) => void;

// Each holds far more memory than the bytes it came in.
const maxWaiting = 16;

const brokenRequests = new WeakSet<IncomingMessage>();

/** Whether the rest of a request's body will never come; it may be known before anyone listens for it. */
export function isBroken(request: IncomingMessage): boolean {
  return brokenRequests.has(request);
}

/** The requests of connections, taken so that one at a time is answered on each. */
export interface Pipeline {
  take: Listener;
  /**
   * Takes no more requests of a connection, and ends it once it has its answer; false when none is due. `broken` tells
   * the request under way that no more of its body will come.
   */
  finish(socket: Socket, broken?: boolean): boolean;
}

/**
 * Answers the requests of one connection one after the other. Node would have them all answered at once and
 * keep all answers in memory until the first is taken.
 * A request with a body is the last of its connection: one peer's body may be the next one's request. So is one that
 * offers another protocol, since a peer may take what follows for that, and one that expects something of the server.
 * A connection on which more than 16 requests wait is cut.
 */
export function pipeline(answer: Listener): Pipeline {
  /** Connections with a request under way, and what waits behind it. */
  const waiting = new WeakMap<Socket, (() => void)[]>();
  const current = new WeakMap<Socket, IncomingMessage>();
  const finished = new WeakSet<Socket>();

  function begin(request: IncomingMessage, response: ServerResponse): void {
    const { socket } = request;
    current.set(socket, request);
    if (isLast(request)) finished.add(socket);
    // It may have waited behind another one.
    if (hasBody(request)) socket.resume();
    if (finished.has(socket)) response.setHeader("Connection", "close");
    response.once("close", () => {
      const next = finished.has(socket) ? undefined : waiting.get(socket)?.shift();
      if (next && !socket.destroyed) return next();
      waiting.delete(socket);
      if (finished.has(socket)) socket.destroySoon();
      else socket.resume();
    });
    answer(request, response);
  }

  return {
    take(request, response) {
      const { socket } = request;
      const queue = waiting.get(socket);
      if (socket.destroyed || (!queue && finished.has(socket))) return;
      if (!queue) {
        waiting.set(socket, []);
        begin(request, response);
      } else if (queue.length === maxWaiting) {
        socket.destroy();
      } else {
        // Also behind the last request, though nobody will answer it: node keeps what it has read.
        queue.push(() => begin(request, response));
        socket.pause();
      }
    },
    finish(socket, broken = false) {
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
