import { createServer } from "node:http";
import { Registry } from "prom-client";
import { listen } from "../proxy/connection/listen.ts";

/**
 * Serves the text of `render` as `GET /metrics` on a loopback port until the process ends. Does nothing without a port. Throws
 * ConfigError when the port cannot be used.
 */
export async function serveMetrics(port: number | undefined, render: () => Promise<string>): Promise<void> {
  if (port === undefined) return;
  const server = createServer(async ({ url, method }, response) => {
    if (url !== "/metrics" || method !== "GET") return void response.writeHead(404).end();
    try {
      const text = await render();
      response.writeHead(200, { "Content-Type": Registry.PROMETHEUS_CONTENT_TYPE }).end(text);
    } catch {
      response.writeHead(500).end();
    }
  });
  server.unref();
  await listen(server, { host: "127.0.0.1", port }, "METRICS_PORT");
}
