import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";

type Listener = (request: IncomingMessage, response: ServerResponse) => void;

/** The requests of connections, taken so that one at a time is answered on each. */
export interface Pipeline {
  take: Listener;
  /** Takes no more requests of a connection, and ends it once it has its answer; false when none is due. */
  finish(socket: Socket): boolean;
}

/**
 * Answers the requests of one connection one after the other. Node would have them all answered at once and
 * keep all answers in memory until the first is taken.
 * A request with a body is the last of its connection: the body is not read, and one peer's body may be the
 * next one's request.
 */
export function pipeline(answer: Listener): Pipeline {
  /** Connections with a request under way, and what waits behind it. */
  const waiting = new WeakMap<Socket, (() => void)[]>();
  const finished = new WeakSet<Socket>();

  function begin(request: IncomingMessage, response: ServerResponse): void {
    const { socket } = request;
    if (hasBody(request)) finished.add(socket);
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
    finish(socket) {
      finished.add(socket);
      return waiting.has(socket);
    },
  };
}

function hasBody({ headers }: IncomingMessage): boolean {
  const length = headers["content-length"];
  return headers["transfer-encoding"] !== undefined || (length !== undefined && length !== "0");
}
