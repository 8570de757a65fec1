import { once } from "node:events";
import type { Server, ServerResponse } from "node:http";
import { Server as NetServer } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { Connections } from "./connections.ts";

// A connection that has been idle this long probably has no request on its way.
const quietMilliseconds = 1000;
// Turns of the event loop, each of which accepts one connection. Bounds the wait if connections never stop coming.
const acceptingTurns = 1000;

/**
 * Accepts the connections that the kernel has ready, because closing a server resets them. Requests should wait meanwhile:
 * clients that get an answer may connect again. Close the server in the turn in which this settles.
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
 * Ends a server without cutting off answers. It accepts no connection, adds `Connection: close` to every answer, and closes
 * idle connections. What is left after `seconds` is cut off.
 */
export async function drain(
  server: Server,
  { underway, connections }: { underway: Set<ServerResponse>; connections: Connections },
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
