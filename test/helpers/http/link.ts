import { once } from "node:events";
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  request as requestOnward,
  type ServerResponse,
} from "node:http";
import { buffer } from "node:stream/consumers";
import { type LocalServer, serveLocally } from "../servers/programs.ts";

/** An answer on its way to a client. */
export interface PassingAnswer {
  status: number;
  headers: Record<string, string>;
  body: string;
}

/** A request that came, and what went back so far. */
export interface Passed {
  method: string;
  /** With the query. */
  target: string;
  headers: IncomingHttpHeaders;
  /** 0 as long as the server behind has not answered. */
  status: number;
  /** Of the body. */
  bytes: number;
}

/** Answers a request in the place of the server behind, or destroys its connection. */
export type Instead = { status: number; headers?: object; body?: string | Buffer } | "destroy" | undefined;

/** A server between a client and another server, which counts what passes and can disturb it. */
export interface Link extends LocalServer {
  passed: Passed[];
  /** Called before a request goes on. */
  before: (asked: Passed) => Instead | Promise<Instead>;
  /** What becomes of an answer, as text. Undefined leaves it as it is. */
  alter?: ((target: string, answer: PassingAnswer) => PassingAnswer | undefined) | undefined;
  /** How many bytes of an answer's body to pass before the connection is cut; undefined for all. */
  cut: (asked: Passed) => number | undefined;
  /** Called when an answer has gone back but for its last piece, or has to be cut. */
  after: (asked: Passed) => unknown;
}

/** Starts a link to a port of this machine. Requests pass with the Host they came with, which may be signed. */
export async function startLink(port: number): Promise<Link> {
  async function pass(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = "", url: target = "" } = request;
    // Answers are altered as text, so none is asked for in a coding.
    const { "accept-encoding": _, ...headers } = request.headers;
    const asked: Passed = { method, target, headers, status: 0, bytes: 0 };
    link.passed.push(asked);
    const instead = await link.before(asked);
    if (instead === "destroy") return void request.socket.destroy();
    if (instead) return void response.writeHead(instead.status, { ...instead.headers }).end(instead.body);
    const onward = requestOnward({ port, host: "127.0.0.1", path: target, method, headers, agent: false });
    request.pipe(onward);
    const [answer] = (await once(onward, "response")) as [IncomingMessage];
    asked.status = answer.statusCode ?? 0;
    const pieces = link.alter ? await altered(asked, answer, response) : answer;
    if (!response.headersSent) response.writeHead(asked.status, answer.rawHeaders);
    const limit = link.cut(asked);
    // The last piece waits for `after`: a client takes an answer for whole once it has all bytes.
    let last: Buffer | undefined;
    for await (const piece of pieces as AsyncIterable<Buffer>) {
      if (last) response.write(last);
      last = limit === undefined ? piece : piece.subarray(0, limit - asked.bytes);
      asked.bytes += last.length;
      if (asked.bytes === limit) break;
    }
    if (limit !== undefined) {
      // Lets the bytes already written go out first.
      await new Promise<void>((flushed) => response.write(last ?? "", () => flushed()));
      await link.after(asked);
      return void response.destroy();
    }
    await link.after(asked);
    response.end(last);
  }

  /** Writes the head of an altered answer, and returns its body. */
  async function altered({ target, status }: Passed, answer: IncomingMessage, response: ServerResponse) {
    const passing = Object.entries(answer.headers).filter(
      ([name]) => !["connection", "content-length", "transfer-encoding", "keep-alive"].includes(name),
    );
    const headers = Object.fromEntries(passing.map(([name, value]) => [name, String(value)]));
    const content = await buffer(answer);
    const other = link.alter?.(target, { status, headers, body: content.toString() });
    response.writeHead(other?.status ?? status, other?.headers ?? headers);
    // What is not text is passed on as it is.
    return [other ? Buffer.from(other.body) : content];
  }

  const server = createServer((request, response) => {
    pass(request, response).catch(() => response.destroy());
  });
  const link: Link = {
    ...(await serveLocally(server)),
    passed: [],
    before: () => undefined,
    cut: () => undefined,
    after: () => {},
  };
  return link;
}
