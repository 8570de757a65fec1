import { connect, createServer, type Socket } from "node:net";
import { serveLocally } from "../servers/programs.ts";

/**
 * What happens to a connection. `cut`: it ends after so many bytes of the answer, and after a promise where there is
 * one. `answer`: these bytes come instead of one.
 */
export type LinkFault =
  | { cut: number; after?: Promise<unknown> | undefined }
  | { answer: string }
  | "refuse"
  | undefined;

/** A link between a client and a server, on which connections can be made to fail. */
export interface FaultyLink {
  url: string;
  /** Heads of the requests that came first on each connection. */
  asked: string[];
  stop(): Promise<void>;
}

/** Starts a link to a port of this machine. `fault` tells what becomes of each connection, counted from 0. */
export async function startFaultyLink(
  port: number,
  fault: (connection: number, head: string) => LinkFault,
): Promise<FaultyLink> {
  const asked: string[] = [];
  const server = createServer((socket) => {
    socket.once("data", (first: Buffer) => {
      const head = first.toString("latin1");
      asked.push(head);
      const what = fault(asked.length - 1, head);
      if (what === "refuse") socket.destroy();
      else if (what && "answer" in what) socket.end(what.answer);
      else pass(socket, first, what);
    });
  });

  /** Passes everything on; each connection carries one request, so that each has its own fault. */
  function pass(
    socket: Socket,
    first: Buffer,
    { cut, after }: Extract<LinkFault, { cut: number }> = { cut: Number.POSITIVE_INFINITY },
  ): void {
    const onward = connect(port, "127.0.0.1");
    onward.on("error", () => onward.destroy());
    onward.write(first.toString("latin1").replace("\r\n", "\r\nConnection: close\r\n"), "latin1");
    socket.pipe(onward);
    let left = cut;
    onward.on("data", (bytes: Buffer) => {
      if (left <= 0) return;
      const part = bytes.subarray(0, left);
      left -= part.length;
      socket.write(part, async () => {
        if (left > 0) return;
        await after;
        socket.destroy();
      });
    });
    // A connection that is to be cut ends with its cut only.
    const end = () => left > 0 && socket.end();
    onward.on("end", end);
    onward.on("close", end);
    socket.on("close", () => onward.destroy());
  }

  const { url, stop } = await serveLocally(server);
  return { url, asked, stop };
}

/** An answer that a gateway might give. */
export const gatewayAnswer = (status: number, headers: Record<string, string> = {}, body = "") =>
  [
    `HTTP/1.1 ${status} Some Reason`,
    ...Object.entries({ "Content-Length": String(body.length), Connection: "close", ...headers }).map(
      ([name, value]) => `${name}: ${value}`,
    ),
    "",
    body,
  ].join("\r\n");
