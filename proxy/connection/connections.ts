import type { Server } from "node:http";
import type { Socket } from "node:net";

// A peer that still sends when its connection is destroyed is reset, and may lose its answer.
const lingerMilliseconds = 500;

/** All connections of a server. Node's HTTP server forgets one that asks for a tunnel or another protocol. */
export interface Connections {
  /** Sends the last bytes of a connection, and destroys it within a second, whatever its peer does. */
  end(socket: Socket, bytes: Buffer): void;
  isEnding(socket: Socket): boolean;
  /** Destroys those that ask nothing. */
  makeRoom(): void;
  destroyAll(): void;
}

/** Follows the connections of a server, and destroys each on which nothing moves for its timeout. */
export function followConnections(server: Server): Connections {
  const open = new Set<Socket>();
  const ending = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    open.add(socket);
    socket.on("close", () => {
      open.delete(socket);
      ending.delete(socket);
    });
    // Node takes its own listeners away from a socket that it forgets; the timeout goes on.
    socket.on("timeout", () => socket.destroy());
    socket.on("error", () => socket.destroy());
  });
  return {
    end(socket, bytes) {
      ending.add(socket);
      socket.end(bytes);
      // What is not read keeps the end of the connection from being seen.
      socket.resume();
      const timer = setTimeout(() => socket.destroy(), lingerMilliseconds);
      socket.once("close", () => clearTimeout(timer));
    },
    isEnding: (socket) => ending.has(socket),
    makeRoom() {
      server.closeIdleConnections();
      for (const socket of ending) socket.destroy();
    },
    destroyAll() {
      for (const socket of open) socket.destroy();
    },
  };
}
