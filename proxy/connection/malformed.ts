import { randomUUID } from "node:crypto";
import { type IncomingMessage, type Server, STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import { type ErrorCode, Fault } from "../../schemas/errors.ts";
import { type ProblemReply, problemReply } from "../reply/problem.ts";
import type { Connections } from "./connections.ts";
import type { Pipeline } from "./pipelining.ts";

interface MalformedParts extends Pick<Pipeline, "finish"> {
  connections: Connections;
  headersOf: (requestId: string) => Record<string, string>;
  answered: (answer: { method: string; status: number; code: ErrorCode }) => void;
}

/**
 * Answers what never becomes a request, namely CONNECT and bytes that Node's parser refuses, with a problem that ends
 * the connection.
 */
export function answerMalformed(
  server: Server,
  { headersOf, connections, finish, answered }: MalformedParts,
): void {
  function fail(socket: Socket, error: Fault<ErrorCode>, method: string): void {
    const id = randomUUID();
    const { headers, ...reply } = problemReply(error, id);
    connections.end(socket, bytesOf({ ...reply, headers: { ...headersOf(id), ...headers } }));
    answered({ method, status: reply.status, code: error.code });
  }

  server.on("clientError", (error: NodeJS.ErrnoException, socket: Socket) => {
    // Bytes after the last answer of a connection are read only so that the answer arrives.
    if (connections.isEnding(socket)) return;
    if (!socket.writable || error.code === "ECONNRESET") socket.destroy();
    // If it were written here, it would be read as the answer to the previous pipelined request.
    else if (!finish(socket, error.code !== requestTimeout)) fail(socket, faultOf(error.code), "other");
  });
  server.on("connect", (_request: IncomingMessage, socket: Socket) => {
    if (!finish(socket))
      fail(
        socket,
        new Fault("NOT_FOUND", "This service does not forward requests to other servers."),
        "CONNECT",
      );
  });
}

const requestTimeout = "ERR_HTTP_REQUEST_TIMEOUT";

function faultOf(parserCode: string | undefined): Fault<ErrorCode> {
  if (parserCode === "HPE_HEADER_OVERFLOW")
    return new Fault("HEADERS_TOO_LARGE", "The request's target and headers are too long.");
  if (parserCode === requestTimeout)
    return new Fault("REQUEST_TIMEOUT", "The request did not arrive in time.");
  return new Fault("BAD_REQUEST", "The bytes received are not a well-formed HTTP/1.1 request.");
}

/** A problem as the bytes of a whole response, the last of its connection. */
export function bytesOf({ status, headers, body }: ProblemReply): Buffer {
  const fields = { Date: new Date().toUTCString(), ...headers, Connection: "close" };
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`);
  return Buffer.concat([
    Buffer.from(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join("")}\r\n`),
    body,
  ]);
}
