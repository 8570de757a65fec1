import { createServer, type Server } from "node:http";
import { headersOf, layout } from "../../../snapshots/store/layout.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import { deployed } from "../http/deployed.ts";
import { listenLocally } from "./programs.ts";

/** The headers that the CDN adds to an object by its own policies; undefined for one that it does not add. */
export function cdnHeaders(key: string): Record<string, string | undefined> {
  const name = key.startsWith(layout.embed.prefix) ? "embed" : "response";
  const { CorsConfig: cors, SecurityHeadersConfig: security } = JSON.parse(
    deployed(`cdn-${name}-headers.json`),
  );
  return {
    "access-control-allow-origin": cors.AccessControlAllowOrigins.Items.join(", "),
    "access-control-expose-headers": cors.AccessControlExposeHeaders.Items.join(", "),
    "content-security-policy": security.ContentSecurityPolicy.ContentSecurityPolicy,
    "strict-transport-security": `max-age=${security.StrictTransportSecurity.AccessControlMaxAgeSec}`,
    "x-content-type-options": security.ContentTypeOptions && "nosniff",
    "x-frame-options": security.FrameOptions?.FrameOption,
  };
}

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
    const added = Object.entries(/\/(embed|protocols)\//.test(key) ? cdnHeaders(key) : {});
    for (const [name, value] of added) if (value !== undefined) response.setHeader(name, value);
    response.writeHead(bytes ? 200 : 404, { "Content-Type": contentType, "Cache-Control": cacheControl });
    response.end(bytes);
  });
  const home = `http://127.0.0.1:${await listenLocally(server)}${folder}`;
  return { server, home, refused };
}
