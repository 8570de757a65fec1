import { request as ask, createServer } from "node:http";
import { connect } from "node:net";
import { serveLocally } from "../servers/programs.ts";

/** A forward proxy, which alone knows some hosts. */
export interface ForwardProxy {
  /** For the environment of who has to use it. */
  environment: { http_proxy: string; https_proxy: string; no_proxy: string };
  /** The host of each request or tunnel. */
  asked: string[];
  stop(): Promise<void>;
}

/** Starts one on a free port. `hosts` has the loopback ports of the hosts that it knows. */
export async function startForwardProxy(hosts: Record<string, number>): Promise<ForwardProxy> {
  const asked: string[] = [];
  const portOf = (host: string) => {
    asked.push(host);
    return hosts[host];
  };
  const server = createServer((request, response) => {
    const { hostname, pathname, search } = new URL(request.url ?? "");
    const port = portOf(hostname);
    if (port === undefined) return void response.writeHead(502).end();
    const { method, headers } = request;
    const passed = ask({ host: "127.0.0.1", port, method, path: pathname + search, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.rawHeaders);
      answer.pipe(response);
    });
    request.pipe(passed.on("error", () => response.destroy()));
  });
  server.on("connect", ({ url = "" }, socket) => {
    const port = portOf(url.replace(/:\d+$/, ""));
    if (port === undefined) return void socket.end("HTTP/1.1 502 Bad Gateway\r\n\r\n");
    const target = connect(port, "127.0.0.1", () => {
      socket.write("HTTP/1.1 200 OK\r\n\r\n");
      socket.pipe(target).pipe(socket);
    });
    for (const end of [socket, target])
      end.on("error", () => end.destroy()).on("close", () => [socket, target].map((each) => each.destroy()));
  });
  const { url, stop } = await serveLocally(server);
  return {
    environment: { http_proxy: url, https_proxy: url, no_proxy: "" },
    asked,
    stop,
  };
}
