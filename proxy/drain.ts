import { once } from "node:events";
import type { Server, ServerResponse } from "node:http";
import { Server as NetServer } from "node:net";

// A connection without a request for so long has none on its way either.
const quietMilliseconds = 1000;

/**
 * Ends a server without cutting an answer: no new connection is taken, every answer from here on says
 * `Connection: close`, and a connection that stays quiet is closed. What is left after `seconds` is cut off.
 */
export async function drain(server: Server, underway: Set<ServerResponse>, seconds: number): Promise<void> {
  const closed = once(server, "close");
  // Not the HTTP server's own close: it cuts idle connections at once, also one whose next request is on its way.
  NetServer.prototype.close.call(server);
  for (const response of underway) if (!response.headersSent) response.setHeader("Connection", "close");
  const quiet = setInterval(() => server.closeIdleConnections(), quietMilliseconds);
  const end = setTimeout(() => server.closeAllConnections(), seconds * 1000);
  await closed;
  clearInterval(quiet);
  clearTimeout(end);
}
