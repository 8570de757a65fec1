import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { headersOf } from "../../snapshots/store/layout.ts";
import type { Storage } from "../../snapshots/store/storage.ts";

const publicKey = /^\/(public(?:\/(?!\.{1,2}(?:\/|$))[A-Za-z0-9._-]+)+)$/;

/**
 * Serves the public tree of a store on a free loopback port: the origin of a proxy without a CDN. Answers GET and HEAD only,
 * and nothing outside public/.
 */
export async function startLocalOrigin(storage: Storage): Promise<{ url: URL; close: () => void }> {
  const server = createServer((request, response) => {
    answer(storage, request, response).catch(() => end(response, 502));
  });
  // Without `exclusive` the workers of a cluster would share one port and answer for each other.
  server.listen({ port: 0, host: "127.0.0.1", exclusive: true });
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: new URL(`http://127.0.0.1:${port}`),
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

async function answer(storage: Storage, request: IncomingMessage, response: ServerResponse) {
  if (request.method !== "GET" && request.method !== "HEAD") return end(response, 405);
  const key = publicKey.exec(request.url ?? "")?.[1];
  const body = key && (await storage.get(key));
  if (!body) return end(response, 404);
  const { contentType, cacheControl } = headersOf(key);
  response.writeHead(200, {
    "Content-Type": contentType,
    "Cache-Control": cacheControl,
    "Content-Length": body.length,
  });
  response.end(request.method === "HEAD" ? undefined : body);
}

function end(response: ServerResponse, status: number) {
  response.writeHead(status, { "Content-Length": 0 }).end();
}
