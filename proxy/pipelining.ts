import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";

type Listener = (request: IncomingMessage, response: ServerResponse) => void;

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
 * A request with a body is the last of its connection: one peer's body may be the next one's request.
 */
export function pipeline(answer: Listener): Pipeline {
  /** Connections with a request under way, and what waits behind it. */
  const waiting = new WeakMap<Socket, (() => void)[]>();
  const current = new WeakMap<Socket, IncomingMessage>();
  const finished = new WeakSet<Socket>();

  function begin(request: IncomingMessage, response: ServerResponse): void {
    const { socket } = request;
    current.set(socket, request);
    if (hasBody(request)) {
      finished.add(socket);
      // It may have waited behind another one.
      socket.resume();
    }
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
      if (finished.has(socket)) return;
      const queue = waiting.get(socket);
      if (queue) {
        queue.push(() => begin(request, response));
        // What has been read already bounds those that wait.
        socket.pause();
      } else {
        waiting.set(socket, []);
        begin(request, response);
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

function hasBody({ headers }: IncomingMessage): boolean {
  const length = headers["content-length"];
  return headers["transfer-encoding"] !== undefined || (length !== undefined && length !== "0");
}
