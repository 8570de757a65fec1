import { readFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { headersOf, layout } from "../../../snapshots/store/layout.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import { listenLocally } from "./programs.ts";

const deployed = (name: string) => {
  const file = new URL(`../../../.github/deploy/cdn-${name}-headers.json`, import.meta.url);
  const { SecurityHeadersConfig: security } = JSON.parse(readFileSync(file, "utf8"));
  return {
    "Content-Security-Policy": security.ContentSecurityPolicy.ContentSecurityPolicy,
    ...(security.FrameOptions && { "X-Frame-Options": security.FrameOptions.FrameOption }),
  };
};

/** A server of a public tree, its address below a folder, and the paths that it was asked for and does not have. */
export interface ServedTree {
  server: Server;
  home: string;
  refused: string[];
}

/** Serves the public tree of a store below a folder, as a CDN would. */
export async function serveTree(storage: Storage, folder: string): Promise<ServedTree> {
  const refused: string[] = [];
  const server = createServer(async ({ url = "" }, response) => {
    const key = url.replace(folder, "public/").replace(/\?.*/, "");
    const bytes = key.startsWith("public/") ? await storage.get(key) : undefined;
    if (!bytes) refused.push(url);
    const { contentType, cacheControl } = headersOf(key);
    // The policy of the others would have to name the API that a test starts.
    const policy = key.startsWith(layout.embed.prefix) ? deployed("embed") : deployed("response");
    const security = /\/(embed|protocols)\//.test(key) && policy;
    const headers = { "Content-Type": contentType, "Cache-Control": cacheControl, ...security };
    response.writeHead(bytes ? 200 : 404, headers);
    response.end(bytes);
  });
  const home = `http://127.0.0.1:${await listenLocally(server)}${folder}`;
  return { server, home, refused };
}
