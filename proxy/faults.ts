import { randomUUID } from "node:crypto";
import type { IncomingMessage, Server } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { errors, ServiceError } from "../schemas/errors.ts";
import type { Metrics } from "./metrics.ts";
import type { Pipeline } from "./pipelining.ts";
import { problemReply } from "./problem.ts";

/**
 * Answers what never becomes a request, bytes that node's parser refuses and CONNECT, in the service's error
 * shape.
 * `commonHeaders` gives the headers of every response, `finish` ends a connection after an answer under way.
 */
export function answerFaults(
  server: Server,
  {
    commonHeaders,
    finish,
    answered,
  }: { commonHeaders: () => Record<string, string> } & Pick<Pipeline, "finish"> & Pick<Metrics, "answered">,
): void {
  function fail(socket: Duplex, error: ServiceError, method: string): void {
    end(socket, error, commonHeaders());
    const { code } = error;
    answered({ route: "none", method, status: errors[code].status, code, seconds: 0 });
  }

  server.on("clientError", (error: NodeJS.ErrnoException, socket: Socket) => {
    if (!socket.writable || error.code === "ECONNRESET") socket.destroy();
    // In the middle of, or before, another request's answer this one would be taken for that.
    else if (!finish(socket, error.code !== requestTimeout)) fail(socket, faultOf(error.code), "other");
  });
  server.on("connect", (_request: IncomingMessage, socket: Socket) => {
    socket.on("error", () => socket.destroy());
    if (!finish(socket))
      fail(socket, new ServiceError("NOT_FOUND", "This service is no forward proxy."), "CONNECT");
  });
}

const requestTimeout = "ERR_HTTP_REQUEST_TIMEOUT";

function faultOf(parserCode: string | undefined): ServiceError {
  if (parserCode === "HPE_HEADER_OVERFLOW") {
    return new ServiceError("HEADERS_TOO_LARGE", "The request's target and headers are too long.");
  }
  if (parserCode === requestTimeout) {
    return new ServiceError("REQUEST_TIMEOUT", "The request did not arrive in time.");
  }
  return new ServiceError("BAD_REQUEST", "The bytes received are not a well-formed HTTP/1.1 request.");
}

function end(socket: Duplex, error: ServiceError, commonHeaders: Record<string, string>): void {
  const id = randomUUID();
  const { status, headers, body } = problemReply(error, id);
  const fields = Object.entries({ ...commonHeaders, "X-Request-Id": id, ...headers, Connection: "close" });
  const lines = fields.map(([name, value]) => `${name}: ${value}\r\n`).join("");
  socket.end(
    Buffer.concat([Buffer.from(`HTTP/1.1 ${status} ${errors[error.code].title}\r\n${lines}\r\n`), body]),
  );
}
