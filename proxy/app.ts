import express, { type ErrorRequestHandler, type Express } from "express";
import { type Endpoint, type EndpointId, endpoints } from "../schemas/endpoints.ts";
import { type Exchange, newExchange, type Step } from "./exchange.ts";
import { serviceErrorOf } from "./reply/errors-of.ts";
import { type CommonHeaders, isApiPath, preflightHeaders } from "./reply/headers.ts";
import { refusalOf } from "./reply/problem.ts";
import { ServiceError } from "./reply/service-error.ts";
import { type AnswerParts, createAnswers } from "./routes/answers.ts";
import { readBody } from "./routes/batch-body.ts";
import { type CheckParts, checksOf, parseQuery, requireOneHost, stepOf } from "./routes/checks.ts";
import type { Recorder } from "./telemetry/recorder.ts";

/** All that the app stands on. */
export interface AppParts extends CheckParts, AnswerParts {
  commonHeaders: CommonHeaders;
  recorder: Recorder;
}

type Row = { id: EndpointId; endpoint: Endpoint };
const rows = Object.entries(endpoints).map(([id, endpoint]) => ({ id, endpoint }) as Row);
// A fixed address before a pattern: `batch` is no slug (INTERFACE 4.3).
const rowsByPath = [...Map.groupBy(rows, ({ endpoint }) => endpoint.path)].sort(
  ([a], [b]) => Number(a.includes(":")) - Number(b.includes(":")),
);

/** The app: each endpoint with its checks in their documented order (INTERFACE 5.3), and its answer. */
export function createApp(parts: AppParts): Express {
  const answers = createAnswers(parts);
  const app = express();
  app.disable("x-powered-by").disable("etag").disable("query parser");
  app.enable("case sensitive routing").enable("strict routing");

  app.use(openExchange(parts), stepOf(requireOneHost));
  for (const [path, routes] of rowsByPath) {
    const route = app.route(path).all(nameRoute(path));
    const otherwise = otherMethod(routes);
    // Express would let HEAD into a WebSocket's GET.
    if (routes.some(({ endpoint }) => endpoint.method === "WS")) route.head(otherwise);
    for (const { id, endpoint } of routes) {
      route[endpoint.method === "POST" ? "post" : "get"](
        ...checksOf(endpoint, parts).map(stepOf),
        ...(endpoint.body ? [readBody(parts.limits)] : []),
        stepOf(parseQuery(endpoint)),
        answers[id],
      );
    }
    route.all(otherwise);
  }
  app.use(refuseAddress);
  app.use(writeProblem(parts));
  return app;
}

/** Gives every response its common headers, a bound on how long it may take to send, and a line in the log. */
function openExchange({ commonHeaders, recorder, limits }: AppParts): Step {
  return (request, response, next) => {
    const exchange = Object.assign(response.locals, newExchange());
    const { end } = recorder.begin(request, exchange);
    response.setHeaders(commonHeaders(request.path, exchange.id));
    const timer = setTimeout(() => response.destroy(), limits.sendSeconds * 1000);
    exchange.prolong = () => timer.refresh();
    response.once("close", () => {
      clearTimeout(timer);
      end(response.writableFinished ? response.statusCode : undefined);
    });
    next();
  };
}

function nameRoute(path: string): Step {
  return (_request, { locals }, next) => {
    locals.route = path;
    next();
  };
}

const methodsOf = { GET: ["GET", "HEAD"], POST: ["POST"], WS: ["GET"] } as const;

/** Answers OPTIONS, and refuses every method that no row of a path has; HEAD goes wherever GET does. */
function otherMethod(routes: readonly Row[]): Step {
  const methods = routes.flatMap(({ endpoint }) => methodsOf[endpoint.method]);
  const allow = [...methods, "OPTIONS"].join(", ");
  return ({ method, path }, response) => {
    response.setHeader("Allow", allow);
    if (method !== "OPTIONS") throw new ServiceError("METHOD_NOT_ALLOWED", `This address answers ${allow}.`);
    if (isApiPath(path)) response.setHeaders(preflightHeaders(allow));
    response.writeHead(204).end();
  };
}

const refuseAddress: Step = () => {
  throw new ServiceError("NOT_FOUND", "There is no such address; paths are matched byte for byte.");
};

/** The one way out for errors: a problem, or the end of the connection where an answer had begun. */
function writeProblem({ now }: AppParts): ErrorRequestHandler<unknown, unknown, unknown, unknown, Exchange> {
  return async (thrown: unknown, request, response, _next) => {
    if (response.destroyed) return;
    const error = serviceErrorOf(thrown);
    const { status, headers, body } = await refusalOf(error, response.locals, now());
    // Half an answer cannot be taken back; cutting it off at least cannot look complete.
    if (response.headersSent) return void response.destroy();
    response.writeHead(status, headers).end(request.method === "HEAD" ? undefined : body);
  };
}
