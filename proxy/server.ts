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
import express, { type Express } from "express";
import { type Endpoint, type EndpointId, endpoints } from "../schemas/endpoints.ts";
import { type ErrorCode, Fault } from "../schemas/errors.ts";
import { preflightHeaders } from "../schemas/headers.ts";
import { createAgents } from "./agents/agents.ts";
import { acceptPending, type Connections, followConnections } from "./connection/connections.ts";
import { newExchange, type Request, type Response } from "./exchange.ts";
import { type ProblemReply, problemReply, refusalOf } from "./reply/problem.ts";
import { exchangeHeaders, ownPageHeaders, writeHead } from "./reply/reply.ts";
import { createAnswers } from "./routes/answers.ts";
import { checksOf, noSuchAddress, requireOneHost } from "./routes/checks.ts";
import type { AppServices, Companion, ProxyServices } from "./services.ts";
import { createRecorder, registerGauges } from "./telemetry/telemetry.ts";

const maxHeadBytes = 16 * 1024;
/** Handles what the app leaves, which is nothing. Without it Express would make such a handler for each request. */
const finalHandler = () => {};
// Balancers may send a request on an idle connection that is just being closed, so few are closed at a time.
const spareShare = 1 / 32;

/** Joins the app, its companions, and the connections that carry both. */
export function createProxyServer(proxy: ProxyServices) {
  const { limits, metrics, log, trustProxy } = proxy;
  const spare = Math.ceil(limits.connections * spareShare);
  const record = createRecorder(log, metrics, trustProxy);
  const services = { ...proxy, record, listening: () => server.listening };
  const app = createApp(services);
  const companions = Object.values(proxy.companions).map((create) => create(services));
  const companionOf = (request: IncomingMessage) =>
    companions.find(({ isHandshake }) => isHandshake(request));
  const server = boundedServer(proxy, {
    ...messagesOf(app),
    // Requests for any other upgrade are answered as plain requests.
    shouldUpgradeCallback: (request) => companionOf(request) !== undefined,
  });
  registerGauges(proxy, promisify(server.getConnections.bind(server)));

  const answer: RequestListener = (request, response) => {
    if (!server.listening) response.setHeader("Connection", "close");
    openExchange(services, request as Request, response as Response);
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
    const refusal = await companionOf(request)!.takeOver(request, socket, head);
    if (refusal) connections.end(socket, bytesOf(refusal));
  });
  answerMalformed(server, proxy, connections);

  return {
    server,
    polled(what: keyof Companion["polled"]): void {
      for (const companion of companions) companion.polled[what]();
    },
    /** Requests in progress get at most `seconds` to finish. */
    async drain(seconds: number): Promise<void> {
      for (const companion of companions) companion.close();
      closing = acceptPending(server);
      await closing;
      await connections.drain(seconds);
    },
  };
}

const methodsOf = { GET: ["GET", "HEAD"], POST: ["POST"], WS: ["GET"] } as const;
const rows = Object.entries<Endpoint>(endpoints).map(([id, endpoint]) => {
  return { id: id as EndpointId, endpoint, methods: methodsOf[endpoint.method] };
});

const protocolPaths = new Set<string>(
  rows.filter(({ endpoint }) => endpoint.answeredBy === "protocol").map(({ endpoint }) => endpoint.path),
);

/**
 * The Express app: every row of the endpoint table with its checks (routes/checks.ts) and its answer
 * (routes/answers.ts). The table finds the row of an address by itself, since Express would try one after the other.
 */
function createApp(services: AppServices): Express {
  const { answers, handlers, bounded } = createAnswers(services);
  const handlerOf = {
    ...handlers,
    ...createAgents(services, bounded, answers),
  };
  const table = new Map(
    rows.flatMap(({ id, endpoint, methods }) => {
      const row = { checks: checksOf(endpoint, services), handle: handlerOf[id] };
      return methods.map((method) => [`${method} ${endpoint.path}`, row]);
    }),
  );
  const { now } = services;
  return express()
    .disable("x-powered-by")
    .use(async (request, response: Response) => {
      const exchange = response.locals;
      try {
        requireOneHost(request, exchange);
        if (exchange.route === undefined) throw noSuchAddress(exchange.path);
        const row = table.get(`${request.method} ${exchange.route}`);
        if (!row) return otherMethod(request, response, now());
        for (const check of row.checks) {
          // Most checks need not wait for anything.
          const checking = check(request, exchange, response);
          if (checking) await checking;
        }
        await row.handle(request, response);
      } catch (thrown) {
        await writeProblem(thrown, request, response, now());
      }
    });
}

// Longer fields are ignored, since no program needs them. Parsing a list of media types or codings takes time in
// proportion to its length, and in places to the square of it.
const maxAcceptLength = 1024;

/** Opens the exchange of a request, and reports it when it is over. Express never sees a path of another spelling. */
function openExchange({ catalog, record, apiUrl }: AppServices, request: Request, response: Response): void {
  const exchange = newExchange(request.url, catalog);
  const { path, route } = exchange;
  // It could not parse some of them. No spelling is normalised: two readers could do that differently, and then
  // disagree on who may have what.
  if (route === undefined) request.url = "/";
  for (const name of ["accept", "accept-encoding"] as const)
    if (request.headers[name] && request.headers[name].length > maxAcceptLength) delete request.headers[name];
  const own = protocolPaths.has(path) && ownPageHeaders(request.headers.origin, apiUrl);
  if (own) exchange.addressHeaders = { ...exchange.addressHeaders, ...own };
  response.locals = exchange;
  const end = record(request, exchange);
  response.on("close", () => end(response.writableFinished ? response.statusCode : undefined));
}

/** Answers OPTIONS, and refuses the methods that a path does not have. */
function otherMethod({ method }: Request, response: Response, now: number): void {
  const { route, addressHeaders } = response.locals;
  const methods = rows.flatMap((row) => (row.endpoint.path === route ? row.methods : []));
  const allow = [...methods, "OPTIONS"].join(", ");
  response.setHeader("Allow", allow);
  if (method !== "OPTIONS") throw new Fault("METHOD_NOT_ALLOWED", `This address answers ${allow}.`);
  const preflight = "Access-Control-Allow-Origin" in addressHeaders && preflightHeaders(allow);
  writeHead(response, { status: 204, headers: { ...preflight } }, now);
  response.end();
}

/** Answers an error with a problem. If the answer has begun, ends the connection instead. */
async function writeProblem(thrown: unknown, request: Request, response: Response, now: number) {
  if (response.destroyed) return;
  const { status, headers, body } = await refusalOf(thrown, response.locals, now);
  // Half an answer cannot be taken back, but a client can tell that it was cut off.
  if (response.headersSent) return void response.destroy();
  // A head that failed may have set it, and these are all headers.
  response.headText = undefined;
  response.writeHead(status, headers).end(request.method === "HEAD" ? undefined : body);
}

/** The part of Node's responses, a private API, that joins the head from its status line on. */
interface HeadWriter {
  _storeHeader(this: Pick<Response, "headText">, statusLine: string, fields: unknown): void;
}

/**
 * Requests and responses that have Express's prototypes from the start. Otherwise Express would change the prototypes
 * of both, which takes longer than finding the route. The head of a response begins with its `headText`.
 */
function messagesOf(app: Express): Pick<ServerOptions, "IncomingMessage" | "ServerResponse"> {
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

function boundedServer({ limits, keepAliveSeconds }: ProxyServices, options: ServerOptions): Server {
  const server = createServer({
    ...options,
    maxHeaderSize: maxHeadBytes,
    headersTimeout: limits.headSeconds * 1000,
    requestTimeout: limits.requestSeconds * 1000,
    keepAliveTimeout: keepAliveSeconds * 1000,
    // How often the two timeouts above are checked. Node's default is half a minute.
    connectionsCheckingInterval: 1000,
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
    const exchange = newExchange("", catalog);
    const { headers, ...reply } = problemReply(error, exchange);
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
