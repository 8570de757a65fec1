import { once } from "node:events";
import { createServer, request as httpRequest, type IncomingMessage } from "node:http";
import { buffer } from "node:stream/consumers";
import { setTimeout as pause } from "node:timers/promises";
import { type LocalServer, serveLocally } from "../servers/programs.ts";

/** An answer on its way from the service to a client. */
export interface PassingAnswer {
  status: number;
  headers: Record<string, string>;
  body: string;
}

/** What a request asks for: its path and query. */
export type Alteration = (target: string, answer: PassingAnswer) => PassingAnswer | undefined;

/** A server between a client and the service that may change what the service says. */
export interface AlteringLink extends LocalServer {
  /** Targets that were asked for. */
  asked: string[];
  /** What becomes of answers. Undefined leaves an answer as it is. */
  alter: Alteration;
  /** Pieces of so many bytes leave every 5 ms, so that a download takes a while. 0: at once. */
  pieceBytes: number;
}

/** Starts such a server before a port of this machine. */
export async function startAlteringLink(port: number): Promise<AlteringLink> {
  const server = createServer(async (request, response) => {
    try {
      const { url: target = "", headers } = request;
      const { "accept-encoding": _, host: __, ...sent } = headers;
      const onward = httpRequest({
        port,
        host: "127.0.0.1",
        path: target,
        headers: sent,
        agent: false,
      });
      onward.end();
      const [came] = (await once(onward, "response")) as [IncomingMessage];
      const passed = Object.entries(came.headers).filter(
        ([name]) => !["connection", "content-length", "transfer-encoding", "keep-alive"].includes(name),
      );
      const content = await buffer(came);
      const real = {
        status: came.statusCode ?? 0,
        headers: Object.fromEntries(passed.map(([name, value]) => [name, String(value)])),
        body: content.toString(),
      };
      link.asked.push(target);
      const altered = link.alter(target, real);
      const { status, headers: told } = altered ?? real;
      response.writeHead(status, told);
      // What is not text is passed on as it is.
      const bytes = altered ? Buffer.from(altered.body) : content;
      for (let at = 0; at < bytes.length; ) {
        const some = link.pieceBytes || bytes.length;
        response.write(bytes.subarray(at, at + some));
        at += some;
        if (link.pieceBytes > 0) await pause(5);
      }
      response.end();
    } catch {
      response.destroy();
    }
  });
  const own = await serveLocally(server);
  const link: AlteringLink = {
    ...own,
    asked: [],
    alter: () => undefined,
    pieceBytes: 0,
  };
  return link;
}
