import {
  type CallToolResult,
  createMcpHandler,
  type Tool as ListedTool,
  McpServer,
  ProtocolError,
  ProtocolErrorCode,
} from "@modelcontextprotocol/server";
import { type Endpoint, endpoints } from "../../schemas/endpoints.ts";
import type { MarketPage, ScoreList } from "../../schemas/envelopes.ts";
import { Fault } from "../../schemas/errors.ts";
import { meanings } from "../../schemas/meanings.ts";
import { plans } from "../../schemas/plans.ts";
import type { HistoricalMarket } from "../../schemas/records.ts";
import {
  AgentMessage,
  describeTool,
  instructions,
  inTools,
  notice,
  parametersOf,
  requiredParams,
  type Tool,
  type ToolName,
  toolLimits,
  tools,
} from "../../schemas/rooms/agents.ts";
import { decodeCursor } from "../../snapshots/read/archive/paging.ts";
import { budgets, Memo } from "../../snapshots/read/budgets.ts";
import { invalidParameter, type Parameters, parseFilter } from "../../snapshots/read/parameters.ts";
import type { Exchange, Handler, Request as Incoming, Response as Outgoing } from "../exchange.ts";
import { refusalOf } from "../reply/problem.ts";
import { prepare, type Reply, send, uncachedText } from "../reply/reply.ts";
import type { Answers, Bounded } from "../routes/answers.ts";
import { checksOf } from "../routes/checks.ts";
import type { AppServices } from "../services.ts";

const info = { name: "protocol-risk-scores", title: "Protocol Risk Scores", version: "1" };

/** What a call adds to the head of the answer. */
type CallHead = Pick<Reply, "snapshotId" | "headers">;

const names = Object.keys(tools) as ToolName[];
const list = names.map(describeTool) as ListedTool[];
const toolNamed = (name: string | undefined) => names.find((one) => one === name);

/**
 * Answers POST /mcp: the Model Context Protocol over streamable HTTP, without sessions (INTERFACE 4.13). A call of a
 * tool passes the checks of the request that it stands for, costs the same, and has the same answer.
 */
export function createAgents(
  services: AppServices,
  bounded: Bounded,
  answers: Answers,
): Record<"agents", Handler> {
  const { apiUrl, now, catalog } = services;
  const base = apiUrl?.href.replace(/\/$/, "") ?? "";

  /** A refusal is a result too, which tells the agent why. */
  async function call(name: string, args: Arguments, request: Incoming, response: Outgoing, head: CallHead) {
    const { locals } = response;
    const toolName = toolNamed(name);
    const none = `There is no tool of this name; there are ${names.join(", ")}.`;
    if (!toolName) throw new ProtocolError(ProtocolErrorCode.InvalidParams, none);
    const tool: Tool = tools[toolName];
    const id = (args.proof === true && tool.proof) || tool.endpoint;
    const endpoint: Endpoint = endpoints[id];
    const shape = shapes[toolName];
    const row = { ...endpoint, query: parametersOf(tool) };
    try {
      locals.search = queryOf(args);
      // The arguments came in the body of the request for this call, so it has no body of its own to check.
      for (const check of checksOf({ ...row, body: undefined }, services)) await check(request, locals);
      requireArguments(tool, args);
      const parameters = new Map([...Object.entries(shape.otherwise ?? {}), ...locals.parameters!]);
      const exchange = { ...locals, params: Object.fromEntries(parameters), parameters, body: args };
      const [{ snapshotId = "", etag }, json] = await bounded(row, locals, async () => {
        const reply = await answers[id](exchange, request, response);
        const { body = [], instead = reply } = await reply.content("identity");
        return [instead, Buffer.concat(body).toString()] as const;
      });
      head.snapshotId = snapshotId;
      const isCurrent = snapshotId === catalog.current()?.commit.snapshotId;
      const answered = { args, parameters, json, tag: etag?.("identity") ?? "", snapshotId, isCurrent };
      const data = shape.data ? await shape.data(answered) : JSON.parse(json);
      // The notice must stand before the texts that it is about.
      const result = { notice, snapshotId, page: `${base}/${shape.page(answered)}`, data };
      const text = JSON.stringify(result);
      const bytes = Buffer.byteLength(text);
      if (bytes <= toolLimits.resultBytes)
        return { content: [{ type: "text", text }], structuredContent: result } satisfies CallToolResult;
      const detail = `The result has ${bytes} bytes, and a tool gives at most ${toolLimits.resultBytes}. ${tool.less}`;
      throw new Fault("INVALID_PARAMETER", detail);
    } catch (thrown) {
      const { problem, headers } = await refusalOf(thrown, locals, now());
      if (headers["Retry-After"]) head.headers = { "Retry-After": headers["Retry-After"] };
      return {
        content: [{ type: "text", text: JSON.stringify({ ...problem, detail: inTools(problem.detail) }) }],
        isError: true,
      } satisfies CallToolResult;
    }
  }

  const agents: Handler = async (request, response) => {
    const { locals } = response;
    const head: CallHead = { snapshotId: undefined };
    let fault: Error | undefined;
    const read = AgentMessage.safeParse(locals.body);
    if (locals.bodyBytes! > toolLimits.freeBytes && !isMetered(read.data))
      throw new Fault("BODY_TOO_LARGE", tooLong);
    const { arguments: args = {}, ...params } = read.data?.params ?? {};
    const handler = createMcpHandler(
      () => {
        const agent = new McpServer(info, { capabilities: { tools: { listChanged: false } }, instructions });
        agent.server.setRequestHandler("tools/list", () => ({ tools: list }));
        agent.server.setRequestHandler("tools/call", ({ params: { name } }) =>
          call(name, args, request, response, head),
        );
        return agent;
      },
      {
        // Without sessions, nothing can be sent later.
        maxSubscriptions: 0,
        onerror(error) {
          fault = error;
        },
      },
    );
    const post = { method: "POST", headers: protocolHeaders(request) };
    const protocolRequest = new Request(`http://localhost${endpoints.agents.path}`, post);
    const answer =
      otherOrigin(request, locals) ??
      malformed(locals.body, read) ??
      (await handler.fetch(protocolRequest, { parsedBody: { ...read.data, params } }));
    if (answer.status >= 500 && fault) locals.error = fault;
    const [form, text] = inForm(request, answer, await answer.text());
    const reply = { ...uncachedText(text, undefined, form), ...head };
    const empty = text.length === 0 && { coding: "identity" as const, content: () => ({}) };
    const prepared = await prepare(request, { ...reply, ...empty });
    send(request, response, { ...prepared, status: answer.status }, now());
  };
  return { agents };
}

const [json, events] = ["application/json", "text/event-stream"] as const;

/**
 * The media type and the bytes of an answer: the one message that the protocol's package made, in the form that the
 * caller accepts.
 */
function inForm(request: Incoming, { status }: Response, text: string): [form: string, bytes: Buffer] {
  const message = text.slice(text.indexOf("{")).trimEnd();
  const form = (status === 200 && request.accepts([json, events])) || json;
  return [form, Buffer.from(form === json ? message : `event: message\ndata: ${message}\n\n`)];
}

/** Refuses requests from pages of other sites. */
function otherOrigin({ headers }: Incoming, { addressHeaders }: Exchange): Response | undefined {
  if (!headers.origin || "Access-Control-Allow-Origin" in addressHeaders) return undefined;
  const message =
    "Pages may call /mcp from loopback addresses and from API_URL, which the operator sets; programs send no Origin.";
  return Response.json({ jsonrpc: "2.0", id: null, error: { code: -32000, message } }, { status: 403 });
}

/** The headers that the protocol knows. A key is none of them, and `Accept` is handled here. */
function protocolHeaders({ headers }: Incoming): Headers {
  const picked = new Headers({ accept: `${json}, ${events}` });
  for (const name of ["content-type", "mcp-protocol-version", "mcp-method", "mcp-name"])
    if (headers[name] !== undefined) picked.set(name, String(headers[name]));
  return picked;
}

const tooLong = `A message that costs no unit may have at most ${toolLimits.freeBytes} bytes.`;
const Id = AgentMessage.pick({ id: true });

function isMetered(message: AgentMessage | undefined): boolean {
  const tool = message?.method === "tools/call" && toolNamed(message.params.name);
  return Boolean(tool && endpoints[tools[tool].endpoint].metered);
}

/** Refuses a body that is not a message, or that lacks what its method needs. */
function malformed(body: unknown, { data, error }: ReturnType<typeof AgentMessage.safeParse>) {
  const missing = data && requiredParams.get(data.method)?.find((name) => !data.params[name]);
  if (data && !missing) return undefined;
  const path = missing ? ["params", missing] : error!.issues[0]!.path;
  const { InvalidParams, InvalidRequest, ParseError } = ProtocolErrorCode;
  let [code, message] = [InvalidRequest, "Send one message of JSON-RPC 2.0: a request or a notification."];
  if (body === undefined) [code, message] = [ParseError, "The body is not JSON."];
  if (path[0] === "params") [code, message] = [InvalidParams, `${path.join(".")} is missing or wrong.`];
  const id = Id.safeParse(body).data?.id ?? null;
  return Response.json({ jsonrpc: "2.0", id, error: { code, message } }, { status: 400 });
}

/**
 * The arguments of a call as the text of a query. A value that cannot be text becomes empty, which every query refuses.
 */
function queryOf(args: Arguments): string {
  const text = (value: unknown) => (typeof value === "object" ? "" : String(value).toWellFormed());
  const pairs = Object.entries(args).map(([name, value]) => [
    name.toWellFormed(),
    Array.isArray(value) ? value.map(text).join() : text(value),
  ]);
  return pairs.map((pair) => pair.map(encodeURIComponent).join("=")).join("&");
}

/**
 * Refuses a call that lacks a required argument, or whose list or own argument of the tool is wrong. The checks of the
 * request read the other arguments.
 */
function requireArguments(tool: Tool, args: Arguments): void {
  for (const row of parametersOf(tool)) {
    const { name, type, schema, required } = row;
    const value = args[name];
    const strict = Array.isArray(value) || tool.own?.includes(row);
    if (value === undefined ? !required : !strict || schema.safeParse(value).success) continue;
    const fault = value === undefined ? "is missing" : "is wrong";
    throw invalidParameter(name, `${name} ${fault}; it takes ${type}.`);
  }
}

type Arguments = Readonly<Record<string, unknown>>;

/** A call of a tool, and the answer of the endpoint that it stands for. */
interface Answered {
  args: Arguments;
  parameters: Parameters;
  json: string;
  /** The entity tag of the JSON, or "". */
  tag: string;
  snapshotId: string;
  isCurrent: boolean;
}

/** How a tool shows the answer of its endpoint. */
interface Shape {
  /** Defaults of parameters, where they differ from the endpoint's. */
  otherwise?: Readonly<Record<string, string>>;
  /** As described in the tool's `result`; the whole JSON if left out. */
  data?: (answered: Answered) => unknown;
  /** The address of the site's page about it, from the `#` on. */
  page: (answered: Answered) => string;
}

const overview = () => "#/";
const protocol = ({ args }: Answered) => `#/protocols/${args.slug}`;
const archive = (answered: Answered) => filteredPage("#/archive", answered);

/** The site's page at an address with the filter of a query. It names the snapshot unless that is the current one. */
function filteredPage(address: string, { parameters, snapshotId, isCurrent }: Answered): string {
  const cursor = parameters.get("cursor");
  const { canonical } = cursor === undefined ? parseFilter(parameters) : decodeCursor(cursor).filter;
  const query = new URLSearchParams(canonical);
  if (!isCurrent) query.set("asOf", snapshotId);
  return query.size > 0 ? `${address}?${query}` : address;
}

/** A record, or the proof of one, which has its text as a member. */
const recordAs =
  (member: "score" | "market") =>
  ({ args, json }: Answered) => {
    const answer = JSON.parse(json);
    return args.proof === true ? { record: JSON.parse(answer[member]), proof: answer } : { record: answer };
  };

/** A market of a list: the scores of its dimensions by key, and no evidence. */
function listedMarket({ dimensions, ...market }: HistoricalMarket) {
  return { ...market, dimensions: Object.fromEntries(dimensions.map(({ key, score }) => [key, score])) };
}

const quotas = Object.entries(plans).map(([plan, { dailyQuota }]) => ({ plan, unitsPerDay: dailyQuota }));

/** By entity tag. */
const lists = new Memo<ScoreList>(budgets.scoreLists);

export const shapes: Record<ToolName, Shape> = {
  explain_numbers: { page: overview, data: () => ({ meanings: Object.values(meanings), plans: quotas }) },
  list_scores: {
    page: overview,
    async data({ args: { limit = toolLimits.scores.otherwise, skip = 0 }, json, tag }) {
      const list = await lists.get(tag, async () => JSON.parse(json));
      return { ...list, scores: list.scores.slice(Number(skip), Number(skip) + Number(limit)) };
    },
  },
  get_score: { page: protocol, data: recordAs("score") },
  compare_protocols: { page: overview },
  score_history: { page: protocol },
  score_dimensions: { page: protocol },
  search_markets: {
    otherwise: { pageSize: String(toolLimits.markets.otherwise) },
    page: archive,
    data({ json }) {
      const page: MarketPage = JSON.parse(json);
      return { ...page, markets: page.markets.map(listedMarket) };
    },
  },
  count_markets: { page: archive },
  get_market: {
    page: (answered) => filteredPage(`#/markets/${answered.args.id}`, answered),
    data: recordAs("market"),
  },
};
