import type { Server } from "node:http";
import type { Socket } from "node:net";

// If a connection is destroyed while its peer still sends, the peer sees a reset and may lose the answer.
const lingerMilliseconds = 500;

/** All connections of a server. Node's HTTP server forgets one that asks for a tunnel or another protocol. */
export type Connections = ReturnType<typeof followConnections>;

/** Follows the connections of a server, and destroys those on which nothing moves for the server's timeout. */
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
    /** Destroys connections without a request. */
    makeRoom(): void {
      server.closeIdleConnections();
      for (const socket of ending) socket.destroy();
    },
    destroyAll(): void {
      for (const socket of open) socket.destroy();
    },
  };
}
