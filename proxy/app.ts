import express, { type Express } from "express";
import { addressOf } from "../schemas/addresses.ts";
import { type Endpoint, type EndpointId, endpoints } from "../schemas/endpoints.ts";
import { Fault } from "../schemas/errors.ts";
import { preflightHeaders } from "../schemas/headers.ts";
import { createAgents } from "./agents/agents.ts";
import { newExchange, type Request, type Response } from "./exchange.ts";
import { refusalOf } from "./reply/problem.ts";
import { headersAt, ownPageHeaders, writeHead } from "./reply/reply.ts";
import { createAnswers } from "./routes/answers.ts";
import { checksOf, notFoundDetail, requireOneHost, searchOf } from "./routes/checks.ts";
import type { AppServices } from "./services.ts";

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
export function createApp(services: AppServices): Express {
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
  const open = openExchange(services);
  return express()
    .disable("x-powered-by")
    .use(async (request, response: Response) => {
      const exchange = open(request, response);
      try {
        requireOneHost(request, exchange);
        const address = addressOf(request.path);
        if (!address) throw new Fault("NOT_FOUND", notFoundDetail(request.path));
        exchange.route = address.path;
        exchange.params = address.params;
        const row = table.get(`${request.method} ${address.path}`);
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

// A longer field is far more than any program sends, and is passed over. Parsing a list of media types or codings takes
// time by its length, and in places by the square of it.
const maxAcceptLength = 1024;

/** Opens the exchange of a request, and reports it when it is over. */
function openExchange({ catalog, recorder, apiUrl }: AppServices) {
  return (request: Request, response: Response) => {
    const { path, url } = request;
    for (const name of ["accept", "accept-encoding"] as const)
      if (request.headers[name] && request.headers[name].length > maxAcceptLength)
        delete request.headers[name];
    const exchange = newExchange(searchOf(url), catalog, headersAt(path));
    const own = protocolPaths.has(path) && ownPageHeaders(request.headers.origin, apiUrl);
    if (own) exchange.addressHeaders = { ...exchange.addressHeaders, ...own };
    response.locals = exchange;
    const end = recorder.begin(request, exchange);
    response.on("close", () => end(response.writableFinished ? response.statusCode : undefined));
    return exchange;
  };
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
  const { status, headers, body } = await refusalOf(thrown, response.locals, now, request.path);
  // Half an answer cannot be taken back, but a client can tell that it was cut off.
  if (response.headersSent) return void response.destroy();
  // A head that failed may have set it, and these are all headers.
  response.headText = undefined;
  response.writeHead(status, headers).end(request.method === "HEAD" ? undefined : body);
}
