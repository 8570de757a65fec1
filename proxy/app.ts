import express, { type ErrorRequestHandler, type Express } from "express";
import { type Endpoint, type EndpointId, endpoints } from "../schemas/endpoints.ts";
import { Fault } from "../schemas/errors.ts";
import { preflightHeaders } from "../schemas/headers.ts";
import { createAgents } from "./agents/agents.ts";
import { type Exchange, type Middleware, newExchange, type Response } from "./exchange.ts";
import { refusalOf } from "./reply/problem.ts";
import { commonHeaders, ownPageHeaders } from "./reply/reply.ts";
import { createAnswers, createBounds } from "./routes/answers.ts";
import { checksOf, detailOf, middleware, requireOneHost, searchOf } from "./routes/checks.ts";
import type { AppServices } from "./services.ts";

type Route = { id: EndpointId; endpoint: Endpoint };
const rows = Object.entries(endpoints).map(([id, endpoint]) => ({ id, endpoint }) as Route);
// Fixed paths come before patterns: `batch` is not a slug (INTERFACE 4.3).
const rowsByPath = [...Map.groupBy(rows, ({ endpoint }) => endpoint.path)].sort(
  ([a], [b]) => Number(a.includes(":")) - Number(b.includes(":")),
);

const selfAnswered = new Set<string>(
  rows.flatMap(({ endpoint }) => (endpoint.answersItself ? endpoint.path : [])),
);

/**
 * The Express app: every row of the endpoint table with its checks (routes/checks.ts) and its answer
 * (routes/answers.ts).
 */
export function createApp(services: AppServices): Express {
  const bounded = createBounds(services);
  const { answers, middlewares } = createAnswers(services, bounded);
  const last = {
    ...middlewares,
    ...createAgents(services, bounded, answers),
  };
  const app = express();
  app.disable("x-powered-by").disable("etag").disable("query parser");
  app.enable("case sensitive routing").enable("strict routing");

  app.use(openExchange(services), middleware(requireOneHost));
  for (const [path, endpointsOfPath] of rowsByPath) {
    const route = app.route(path).all(({ params }, { locals }: Response, next) => {
      locals.route = path;
      locals.params = params;
      next();
    });
    const otherwise = otherMethod(endpointsOfPath);
    // Without this line, Express would pass HEAD to the GET of a WebSocket.
    if (endpointsOfPath.some(({ endpoint }) => endpoint.method === "WS")) route.head(otherwise);
    for (const { id, endpoint } of endpointsOfPath) {
      const checks = middleware(...checksOf(endpoint, services));
      route[endpoint.method === "POST" ? "post" : "get"](checks, last[id]);
    }
    route.all(otherwise);
  }
  app.use(({ path }) => {
    throw new Fault("NOT_FOUND", detailOf(path));
  });
  app.use(writeProblem(services));
  return app;
}

// Far more than any program sends. Parsing a list of media types or codings takes time by its length, and in places by
// the square of it.
const longestWeighed = 1024;

/** Opens the exchange of a request, bounds the time to send its answer, and reports it when it is over. */
function openExchange({ catalog, recorder, limits, apiUrl }: AppServices): Middleware {
  return (request, response, next) => {
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
    next();
  };
}

const methodsOf = { GET: ["GET", "HEAD"], POST: ["POST"], WS: ["GET"] } as const;

/** Answers OPTIONS, and refuses the methods that a path does not have. */
function otherMethod(rowsOfPath: readonly Route[]): Middleware {
  const methods = rowsOfPath.flatMap(({ endpoint }) => methodsOf[endpoint.method]);
  const allow = [...methods, "OPTIONS"].join(", ");
  return ({ method }, response) => {
    response.setHeader("Allow", allow);
    if (method !== "OPTIONS") throw new Fault("METHOD_NOT_ALLOWED", `This address answers ${allow}.`);
    const { commonHeaders } = response.locals;
    const preflight = "Access-Control-Allow-Origin" in commonHeaders && preflightHeaders(allow);
    response.writeHead(204, { ...commonHeaders, ...preflight }).end();
  };
}

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
