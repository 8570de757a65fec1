import { once } from "node:events";
import type { Server, ServerResponse } from "node:http";
import { Server as NetServer } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { Connections } from "./connections.ts";

// A connection without a request for so long has none on its way either.
const quietMilliseconds = 1000;
// Of the event loop; each takes one connection. A bound for when they never stop coming.
const acceptingTurns = 1000;

/**
 * Takes the connections that the kernel holds ready: closing a server resets those that it has not taken. Requests should
 * wait meanwhile, since whoever is answered may connect again. Close in the same turn in which this settles.
 */
export async function takeWaiting(server: Server): Promise<void> {
  let quietTurns = 0;
  const taken = () => (quietTurns = 0);
  server.on("connection", taken);
  // The first turn may be one that had looked for connections before this began.
  for (let turn = 0; turn < acceptingTurns && quietTurns < 2; turn += 1) {
    quietTurns += 1;
    await nextTurn();
  }
  server.off("connection", taken);
}

/**
 * Ends a server without cutting an answer: no new connection is taken, every answer from here on says
 * `Connection: close`, and a connection that stays quiet is closed. What is left after `seconds` is cut off.
 */
export async function drain(
  server: Server,
  { underway, connections }: { underway: Set<ServerResponse>; connections: Connections },
  seconds: number,
): Promise<void> {
  const closed = once(server, "close");
  // Not the HTTP server's own close: it cuts idle connections at once, also one whose next request is on its way.
  NetServer.prototype.close.call(server);
  for (const response of underway) if (!response.headersSent) response.setHeader("Connection", "close");
  const quiet = setInterval(() => server.closeIdleConnections(), quietMilliseconds);
  const end = setTimeout(() => connections.destroyAll(), seconds * 1000);
  await closed;
  clearInterval(quiet);
  clearTimeout(end);
}
