import { once } from "node:events";
import type { Server, ServerResponse } from "node:http";
import { Server as NetServer, type Socket } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";

// A connection that has been idle this long probably has no request on its way.
const quietMilliseconds = 1000;
// Turns of the event loop, each of which accepts one connection. Bounds the wait if connections never stop coming.
const acceptingTurns = 1000;
// If a connection is destroyed while its peer still sends, the peer sees a reset and may lose the answer.
const lingerMilliseconds = 500;

export type Connections = ReturnType<typeof followConnections>;

/**
 * Follows all connections of a server, because Node's HTTP server forgets one that asks for a tunnel or another
 * protocol. Destroys those on which nothing moves for the server's timeout.
 */
export function followConnections(server: Server) {
  const open = new Set<Socket>();
  const ending = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    open.add(socket);
    socket.on("close", () => {
      open.delete(socket);
      ending.delete(socket);
    });
    // Node removes its own listeners from a socket that it forgets, but the timeout keeps running.
    socket.on("timeout", () => socket.destroy());
    socket.on("error", () => socket.destroy());
  });
  return {
    /** Sends the last bytes of a connection and destroys it within a second, whatever its peer does. */
    end(socket: Socket, bytes: Buffer): void {
      ending.add(socket);
      socket.end(bytes);
      // As long as bytes are unread, the end of the connection is not seen.
      socket.resume();
      const timer = setTimeout(() => socket.destroy(), lingerMilliseconds);
      socket.once("close", () => clearTimeout(timer));
    },
    isEnding: (socket: Socket) => ending.has(socket),
    count: () => open.size,
    /** Destroys idle connections, or, where there are none, those that are ending. */
    makeRoom(idle: readonly Socket[]): void {
      for (const socket of idle.length > 0 ? idle : ending) socket.destroy();
    },
    destroyAll(): void {
      for (const socket of open) socket.destroy();
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

/**
 * Ends a server without cutting off answers. It accepts no connection, adds `Connection: close` to every answer, and
 * closes idle connections. Whatever is left after `seconds` is cut off.
 */
export async function drain(
  server: Server,
  { underway, connections }: { underway: readonly ServerResponse[]; connections: Connections },
  seconds: number,
): Promise<void> {
  const closed = once(server, "close");
  // The HTTP server's own close() would also cut idle connections at once, even if a request is on its way.
  NetServer.prototype.close.call(server);
  for (const response of underway) if (!response.headersSent) response.setHeader("Connection", "close");
  const quiet = setInterval(() => server.closeIdleConnections(), quietMilliseconds);
  const end = setTimeout(() => connections.destroyAll(), seconds * 1000);
  await closed;
  clearInterval(quiet);
  clearTimeout(end);
}
