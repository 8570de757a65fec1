import {
  createServer,
  IncomingMessage,
  type RequestListener,
  type Server,
  type ServerOptions,
  ServerResponse,
  STATUS_CODES,
} from "node:http";
import type { Socket } from "node:net";
import { promisify } from "node:util";
import type { Express } from "express";
import { type ErrorCode, Fault } from "../schemas/errors.ts";
import { createApp } from "./app.ts";
import { acceptPending, type Connections, followConnections } from "./connection/connections.ts";
import { newExchange, type Request, type Response } from "./exchange.ts";
import { type ProblemReply, problemReply } from "./reply/problem.ts";
import { exchangeHeaders, headersAt } from "./reply/reply.ts";
import { canonicalTarget } from "./routes/checks.ts";
import type { ProxyServices } from "./services.ts";
import { createRecorder, registerGauges } from "./telemetry/telemetry.ts";

const maxHeadBytes = 16 * 1024;
/** Handles what the app leaves, which is nothing. Without it Express would make such a handler for each request. */
const finalHandler = () => {};
// Balancers may send a request on an idle connection that is just being closed, so few are closed at a time.
const spareShare = 1 / 32;

/** Joins the app, its companions, and the connections that carry both. */
export function createProxyServer(proxy: ProxyServices) {
  const { limits, metrics, log, trustProxy } = proxy;
  const companions = Object.values(proxy.companions);
  const spare = Math.ceil(limits.connections * spareShare);
  const recorder = createRecorder(log, metrics, trustProxy);
  const services = { ...proxy, recorder, listening: () => server.listening };
  const app = createApp(services);
  const server = boundedServer(proxy, messagesOf(app));
  const takeOver = new Map(companions.map((each) => [each, each.takeOver(services)]));
  registerGauges(metrics.registry, proxy, promisify(server.getConnections.bind(server)));

  const answer: RequestListener = (request, response) => {
    if (!server.listening) response.setHeader("Connection", "close");
    request.url = canonicalTarget(request.url ?? "");
    app(request as Request, response as Response, finalHandler);
  };
  /** Set once the server is told to end; settles when the pending connections are accepted. */
  let closing: Promise<void> | undefined;
  const connections = followConnections(server, limits.sendSeconds, (request, response) => {
    if (closing) void closing.then(() => answer(request, response));
    else answer(request, response);
  });
  server.on("connection", () => {
    if (connections.count() > limits.connections - spare) connections.makeRoom(spare);
  });
  server.on("drop", () => {
    metrics.dropped.inc();
    connections.makeRoom(spare);
  });
  // Endpoints that read a body handle Expect themselves. The others answer without a 100 Continue.
  for (const event of ["request", "checkContinue", "checkExpectation"]) server.on(event, connections.take);
  server.on("upgrade", async (request, socket: Socket, head) => {
    // The connection cannot change its protocol while another request is answered on it.
    if (connections.finish(socket)) return;
    const companion = companions.find(({ isHandshake }) => isHandshake(request))!;
    const refusal = await takeOver.get(companion)!(request, socket, head);
    if (refusal) connections.end(socket, bytesOf(refusal));
  });
  answerMalformed(server, proxy, connections);

  return {
    server,
    /** Ends the server. Requests in progress get at most `seconds` to finish. */
    async drain(seconds: number): Promise<void> {
      for (const companion of companions) companion.close();
      closing = acceptPending(server);
      await closing;
      await connections.drain(seconds);
    },
  };
}

type Messages = Pick<ServerOptions, "IncomingMessage" | "ServerResponse">;

/** The part of Node's responses, a private API, that joins the head from its status line on. */
interface HeadWriter {
  _storeHeader(this: Pick<Response, "headText">, statusLine: string, fields: unknown): void;
}

/**
 * Requests and responses that have Express's prototypes from the start. Otherwise Express would change the prototypes
 * of both, which takes longer than finding the route. The head of a response begins with its `headText`.
 */
function messagesOf(app: Express): Messages {
  class AppRequest extends IncomingMessage {}
  class AppResponse<R extends IncomingMessage> extends ServerResponse<R> {}
  const { _storeHeader } = ServerResponse.prototype as unknown as HeadWriter;
  // Without it, every answer would lack the headers of its text, and nobody might notice.
  if (!_storeHeader) throw new Error(`the proxy does not run on Node ${process.version}; use Node 24`);
  (AppResponse.prototype as unknown as HeadWriter)._storeHeader = function (statusLine, fields) {
    _storeHeader.call(this, statusLine + (this.headText ?? ""), fields);
  };
  Object.setPrototypeOf(AppRequest.prototype, app.request);
  Object.setPrototypeOf(AppResponse.prototype, app.response);
  Object.assign(app, { request: AppRequest.prototype, response: AppResponse.prototype });
  return { IncomingMessage: AppRequest, ServerResponse: AppResponse };
}

function boundedServer({ limits, keepAliveSeconds, companions }: ProxyServices, messages: Messages): Server {
  const server = createServer({
    ...messages,
    maxHeaderSize: maxHeadBytes,
    headersTimeout: limits.headSeconds * 1000,
    requestTimeout: limits.requestSeconds * 1000,
    keepAliveTimeout: keepAliveSeconds * 1000,
    // How often the two timeouts above are checked. Node's default is half a minute.
    connectionsCheckingInterval: 1000,
    // Requests for any other upgrade are answered as plain requests.
    shouldUpgradeCallback: (request) =>
      Object.values(companions).some(({ isHandshake }) => isHandshake(request)),
    // The app refuses a missing Host with a problem.
    requireHostHeader: false,
  });
  // The size of the head bounds their number. Node would silently drop those beyond its own bound.
  server.maxHeadersCount = 0;
  server.timeout = limits.stalledSeconds * 1000;
  server.maxConnections = limits.connections;
  return server;
}

/**
 * Answers what never becomes a request, namely CONNECT and bytes that Node's parser refuses, with a problem that ends
 * the connection.
 */
function answerMalformed(
  server: Server,
  { catalog, metrics, now }: ProxyServices,
  connections: Connections,
): void {
  function fail(socket: Socket, error: Fault<ErrorCode>, method: string): void {
    const exchange = newExchange("", catalog, headersAt(""));
    const { headers, ...reply } = problemReply(error, exchange.id);
    const all = { ...exchangeHeaders(exchange, now()), ...headers };
    connections.end(socket, bytesOf({ ...reply, headers: all }));
    metrics.answered({ route: "none", method, status: reply.status, code: error.code, seconds: 0 });
  }

  server.on("clientError", (error: NodeJS.ErrnoException, socket: Socket) => {
    // Bytes after the last answer of a connection are read only so that the answer arrives.
    if (connections.isEnding(socket)) return;
    if (!socket.writable || error.code === "ECONNRESET") socket.destroy();
    // If it were written here, it would be read as the answer to the previous pipelined request.
    else if (!connections.finish(socket, error.code !== requestTimeout))
      fail(socket, faultOf(error.code), "other");
  });
  server.on("connect", (_request: IncomingMessage, socket: Socket) => {
    if (!connections.finish(socket))
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
function bytesOf({ status, headers, body }: ProblemReply): Buffer {
  const fields = { Date: new Date().toUTCString(), ...headers, Connection: "close" };
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`);
  return Buffer.concat([
    Buffer.from(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join("")}\r\n`),
    body,
  ]);
}
