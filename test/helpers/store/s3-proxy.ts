import { once } from "node:events";
import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from "node:http";
import { serveLocally } from "../servers/programs.ts";

/** One answer that went through the proxy. */
export interface Passed {
  method: string;
  /** With the query. */
  target: string;
  status: number;
  /** Of the body, as far as it came. */
  bytes: number;
}

/** A reverse proxy in front of an S3 server. It counts answers and can disturb them. */
export interface S3Proxy {
  url: string;
  passed: Passed[];
  /** GETs of objects that were answered with a body. */
  fetched(): Passed[];
  /** Called before a request goes on; `handled` when it answered itself. */
  before: (request: IncomingMessage, response: ServerResponse) => Promise<"handled" | undefined>;
  /** How many bytes of an answer's body to pass before the connection is cut; undefined for all. */
  cut: (target: string) => number | undefined;
  /** Called when an answer has gone back but for its last piece. */
  after: (target: string) => Promise<void>;
  stop(): Promise<void>;
}

/** Starts the proxy on a free port; requests pass with the Host they came with, which is signed. */
export async function startS3Proxy(endpoint: string): Promise<S3Proxy> {
  const server = createServer((request, response) => {
    pass(request, response).catch(() => response.destroy());
  });

  async function pass(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = "", url: target = "", headers } = request;
    if ((await proxy.before(request, response)) === "handled") return;
    const onward = httpRequest(new URL(target, endpoint), { method, headers, agent: false });
    request.pipe(onward);
    const [answer]: [IncomingMessage] = (await once(onward, "response")) as [IncomingMessage];
    const entry: Passed = { method, target, status: answer.statusCode ?? 0, bytes: 0 };
    proxy.passed.push(entry);
    response.writeHead(entry.status, answer.rawHeaders);
    const limit = proxy.cut(target);
    // The last piece waits for `after`: a client takes an answer for whole once it has all bytes.
    let last: Buffer | undefined;
    for await (const chunk of answer as AsyncIterable<Buffer>) {
      if (last) response.write(last);
      last = limit === undefined ? chunk : chunk.subarray(0, limit - entry.bytes);
      entry.bytes += last.length;
    }
    if (limit !== undefined) {
      // Lets the bytes already written go out first.
      await new Promise<void>((flushed) => response.write(last ?? "", () => flushed()));
      response.destroy();
      return;
    }
    await proxy.after(target);
    response.end(last);
  }

  const { url, stop } = await serveLocally(server);
  const proxy: S3Proxy = {
    url,
    passed: [],
    fetched: () =>
      proxy.passed.filter(
        ({ method, target, status }) => method === "GET" && status === 200 && !/[?&]list-type=/.test(target),
      ),
    before: async () => undefined,
    cut: () => undefined,
    after: async () => {},
    stop,
  };
  return proxy;
}
