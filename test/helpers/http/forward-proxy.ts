import { connect, createServer } from "node:net";
import { pipeline } from "node:stream";
import { serveLocally } from "../servers/programs.ts";

/** A forward proxy, which alone knows some hosts. */
export interface ForwardProxy {
  /** For the environment of who has to use it. */
  environment: { http_proxy: string; https_proxy: string; no_proxy: string };
  /** The host of each tunnel, or of what came first on a connection. */
  asked: string[];
  stop(): Promise<void>;
}

/** Starts one on a free port. `hosts` has the loopback ports of the hosts that it knows. */
export async function startForwardProxy(hosts: Record<string, number>): Promise<ForwardProxy> {
  const asked: string[] = [];
  const server = createServer((socket) => {
    socket.once("data", (first) => {
      const [, method, host = ""] = /^(\S+) (?:http:\/\/)?([^:/ ]+)/.exec(String(first)) ?? [];
      asked.push(host);
      const port = hosts[host];
      if (port === undefined) return void socket.end("HTTP/1.1 502 Bad Gateway\r\n\r\n");
      const target = connect(port, "127.0.0.1");
      if (method === "CONNECT") socket.write("HTTP/1.1 200 OK\r\n\r\n");
      else target.write(first);
      pipeline(socket, target, socket, () => {});
    });
  });
  const { url, stop } = await serveLocally(server);
  return { environment: { http_proxy: url, https_proxy: url, no_proxy: "" }, asked, stop };
}
