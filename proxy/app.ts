import express, { type ErrorRequestHandler, type Express } from "express";
import { addressOf } from "../schemas/addresses.ts";
import { type Endpoint, type EndpointId, endpoints } from "../schemas/endpoints.ts";
import { Fault } from "../schemas/errors.ts";
import { preflightHeaders } from "../schemas/headers.ts";
import { createAgents } from "./agents/agents.ts";
import { type Exchange, type Middleware, newExchange, type Request, type Response } from "./exchange.ts";
import { refusalOf } from "./reply/problem.ts";
import { commonHeaders, ownPageHeaders } from "./reply/reply.ts";
import { createAnswers } from "./routes/answers.ts";
import { checked, checksOf, detailOf, requireOneHost, searchOf } from "./routes/checks.ts";
import type { AppServices } from "./services.ts";

const methodsOf = { GET: ["GET", "HEAD"], POST: ["POST"], WS: ["GET"] } as const;
const rows = Object.entries<Endpoint>(endpoints).map(([id, endpoint]) => {
  return { id: id as EndpointId, endpoint, methods: methodsOf[endpoint.method] };
});

const selfAnswered = new Set<string>(
  rows.flatMap(({ endpoint }) => (endpoint.answeredBy === "protocol" ? endpoint.path : [])),
);

/**
 * The Express app: every row of the endpoint table with its checks (routes/checks.ts) and its answer
 * (routes/answers.ts). The table finds the row of an address by itself, since Express would try one after the other.
 */
export function createApp(services: AppServices): Express {
  const { answers, middlewares, bounded } = createAnswers(services);
  const last = {
    ...middlewares,
    ...createAgents(services, bounded, answers),
  };
  const handlers = new Map(
    rows.flatMap(({ id, endpoint, methods }) => {
      const handler = checked(checksOf(endpoint, services), last[id]);
      return methods.map((method) => [`${method} ${endpoint.path}`, handler]);
    }),
  );
  const open = openExchange(services);
  const app = express();
  app.disable("x-powered-by");
  app.use((request, response: Response) => {
    const { locals } = open(request, response);
    requireOneHost(request, locals);
    const address = addressOf(request.path);
    if (!address) throw new Fault("NOT_FOUND", detailOf(request.path));
    locals.route = address.path;
    locals.params = address.params;
    const handler = handlers.get(`${request.method} ${address.path}`) ?? otherMethod;
    return handler(request, response);
  });
  app.use(writeProblem(services));
  return app;
}

// Far more than any program sends. Parsing a list of media types or codings takes time by its length, and in places by
// the square of it.
const longestWeighed = 1024;

/** Opens the exchange of a request, bounds the time to send its answer, and reports it when it is over. */
function openExchange({ catalog, recorder, limits, apiUrl }: AppServices) {
  return (request: Request, response: Response) => {
    const { path, url } = request;
    for (const name of ["accept", "accept-encoding"] as const)
      if (request.headers[name] && request.headers[name].length > longestWeighed)
        delete request.headers[name];
    const exchange = newExchange(searchOf(url), (id) => ({
      ...commonHeaders(catalog, path, id),
      ...(selfAnswered.has(path) && ownPageHeaders(request.headers.origin, apiUrl)),
    }));
    response.locals = exchange;
    const end = recorder.begin(request, exchange);
    exchange.deadline = setTimeout(() => response.destroy(), limits.sendSeconds * 1000);
    response.on("close", () => {
      clearTimeout(exchange.deadline);
      end(response.writableFinished ? response.statusCode : undefined);
    });
    return response;
  };
}

/** Answers OPTIONS, and refuses the methods that a path does not have. */
const otherMethod: Middleware = ({ method }, response) => {
  const { route, commonHeaders } = response.locals;
  const methods = rows.flatMap((row) => (row.endpoint.path === route ? row.methods : []));
  const allow = [...methods, "OPTIONS"].join(", ");
  response.setHeader("Allow", allow);
  if (method !== "OPTIONS") throw new Fault("METHOD_NOT_ALLOWED", `This address answers ${allow}.`);
  const preflight = "Access-Control-Allow-Origin" in commonHeaders && preflightHeaders(allow);
  response.writeHead(204, { ...commonHeaders, ...preflight }).end();
};

/** Answers every error with a problem. If the answer has begun, ends the connection instead. */
function writeProblem({
  now,
}: AppServices): ErrorRequestHandler<unknown, unknown, unknown, unknown, Exchange> {
  return async (thrown: unknown, request, response, _next) => {
    if (response.destroyed) return;
    const { status, headers, body } = await refusalOf(thrown, response.locals, now(), request.path);
    // Half an answer cannot be taken back, but a client can tell that it was cut off.
    if (response.headersSent) return void response.destroy();
    response.writeHead(status, headers).end(request.method === "HEAD" ? undefined : body);
  };
}
