import {
  type CallToolResult,
  createMcpHandler,
  type Tool as ListedTool,
  localhostAllowedOrigins,
  McpServer,
  originValidationResponse,
  ProtocolError,
  ProtocolErrorCode,
} from "@modelcontextprotocol/server";
import { type Endpoint, endpoints } from "../../schemas/endpoints.ts";
import {
  describeTool,
  instructions,
  notice,
  parametersOf,
  type Tool,
  type ToolName,
  toolLimits,
  tools,
} from "../../schemas/tools.ts";
import { InvalidParameterError } from "../../snapshots/read/errors.ts";
import { ServiceError } from "../errors/service-error.ts";
import type { Exchange, Request as Incoming, Middleware } from "../exchange.ts";
import type { AppParts } from "../parts.ts";
import { rateLimitHeaders } from "../quota/quota.ts";
import { compress, preferredCoding } from "../reply/coding.ts";
import { refusalOf } from "../reply/problem.ts";
import type { Bounded } from "../routes/answers.ts";
import { checksOf } from "../routes/checks.ts";
import { type Arguments, readers } from "./readers.ts";

const info = { name: "protocol-risk-scores", title: "Protocol Risk Scores", version: "1" };

/** Headers that a call adds to the answer. */
type Told = Record<string, string | number>;

const names = Object.keys(tools) as ToolName[];
const list = names.map(describeTool) as ListedTool[];

/**
 * Answers POST /mcp: the Model Context Protocol over streamable HTTP, without sessions (INTERFACE 4.13). A call of a
 * tool passes the checks of the request that it stands for, and costs the same.
 */
export function createAgents(parts: AppParts, bounded: Bounded): Middleware {
  const { apiUrl, now } = parts;
  const base = apiUrl?.href.replace(/\/$/, "") ?? "";
  const origins = [...localhostAllowedOrigins(), ...(apiUrl ? [apiUrl.hostname] : [])];

  /** Calls a tool. What is refused is a result too, which tells the agent why. */
  async function call(name: string, given: Arguments, request: Incoming, locals: Exchange, told: Told) {
    const known = names.find((one) => one === name);
    const none = `There is no tool of this name; there are ${names.join(", ")}.`;
    if (!known) throw new ProtocolError(ProtocolErrorCode.InvalidParams, none);
    const tool: Tool = tools[known];
    const endpoint: Endpoint = endpoints[(given.proof === true && tool.proof) || tool.endpoint];
    const row = { ...endpoint, query: parametersOf(tool).map((parameter) => parameter.name) };
    try {
      locals.search = queryOf(given);
      // The arguments came in the body of the request for this call.
      for (const check of checksOf({ ...row, body: undefined }, parts)) await check(request, locals);
      requireArguments(tool, given);
      const { snapshotId, page, data } = await bounded(row, locals, () =>
        readers[known](parts, locals, given),
      );
      told["X-Snapshot-Id"] = snapshotId;
      // The notice stands before what it is about.
      const result = { notice, snapshotId, page: `${base}/${page}`, data };
      const text = JSON.stringify(result);
      const bytes = Buffer.byteLength(text);
      if (bytes <= toolLimits.resultBytes)
        return { content: [{ type: "text", text }], structuredContent: result } satisfies CallToolResult;
      const detail = `The result has ${bytes} bytes, and a tool gives at most ${toolLimits.resultBytes}. ${tool.less}`;
      throw new ServiceError("INVALID_PARAMETER", detail);
    } catch (thrown) {
      const { problem, headers } = await refusalOf(thrown, locals, now(), "");
      if (headers["Retry-After"]) told["Retry-After"] = headers["Retry-After"];
      return {
        content: [{ type: "text", text: JSON.stringify(problem) }],
        isError: true,
      } satisfies CallToolResult;
    }
  }

  return async (request, response) => {
    const { locals } = response;
    const told: Told = {};
    let fault: Error | undefined;
    const handler = createMcpHandler(
      () => {
        const agent = new McpServer(info, { capabilities: { tools: { listChanged: false } }, instructions });
        agent.server.setRequestHandler("tools/list", () => ({ tools: list }));
        agent.server.setRequestHandler("tools/call", ({ params }) =>
          call(params.name, params.arguments ?? {}, request, locals, told),
        );
        return agent;
      },
      {
        // Nothing is sent later, because there are no sessions.
        maxSubscriptions: 0,
        onerror(error) {
          fault = error;
        },
      },
    );
    const asked = new Request(`http://localhost${endpoints.agents.path}`, {
      method: "POST",
      headers: protocolHeaders(request),
    });
    const answer =
      otherOrigin(asked, origins) ??
      severalAtOnce(locals.body) ??
      (await handler.fetch(asked, { parsedBody: locals.body }));
    if (answer.status >= 500 && fault) locals.error = fault;
    const gzip = preferredCoding(request) === "gzip";
    const text = Buffer.from(await answer.arrayBuffer());
    const body = gzip && text.length > 0 ? await compress(text) : text;
    response.writeHead(answer.status, {
      ...locals.commonHeaders,
      ...(locals.receipt && rateLimitHeaders(locals.receipt, now())),
      "Cache-Control": "no-store",
      ...(text.length > 0 && { "Content-Type": answer.headers.get("content-type") ?? "application/json" }),
      ...(gzip && text.length > 0 && { "Content-Encoding": "gzip" }),
      "Content-Length": body.length,
      ...told,
    });
    response.end(body);
  };
}

/** The refusal of a request that a page of another site sends. */
function otherOrigin(asked: Request, hostnames: string[]): Response | undefined {
  if (!originValidationResponse(asked, hostnames)) return undefined;
  const message =
    "Pages from this Origin may not call /mcp. Those from loopback addresses may, and those from the address " +
    "that the operator sets as API_URL; programs send no Origin.";
  return Response.json({ jsonrpc: "2.0", id: null, error: { code: -32000, message } }, { status: 403 });
}

/** The headers of a request that the protocol knows. A key is none of them. */
function protocolHeaders({ headers }: Incoming): [string, string][] {
  const known = Object.entries(headers).filter(([name]) =>
    /^(accept|content-type|origin|mcp-.*)$/.test(name),
  );
  return known.map(([name, value]) => [name, String(value)]);
}

/** The refusal of several messages in one body, of which each could be a call. */
function severalAtOnce(body: unknown): Response | undefined {
  if (!Array.isArray(body)) return undefined;
  const error = { code: ProtocolErrorCode.InvalidRequest, message: "Send one message per request." };
  return Response.json({ jsonrpc: "2.0", id: null, error }, { status: 400 });
}

/** The arguments of a call as the text of a query. What has no text there is empty, which every query refuses. */
function queryOf(given: Arguments): string {
  const text = (value: unknown) => (typeof value === "object" ? "" : String(value).toWellFormed());
  const pairs = Object.entries(given).map(([name, value]) => [
    name.toWellFormed(),
    Array.isArray(value) ? value.map(text).join() : text(value),
  ]);
  return pairs.map((pair) => pair.map(encodeURIComponent).join("=")).join("&");
}

/**
 * Throws InvalidParameterError unless the call has every argument that the tool requires, and each of its own and each
 * list is as it says. The others are read as those of a request.
 */
function requireArguments(tool: Tool, given: Arguments): void {
  for (const row of parametersOf(tool)) {
    const { name, type, schema, required } = row;
    const value = given[name];
    const strict = Array.isArray(value) || tool.own?.includes(row);
    if (value === undefined ? !required : !strict || schema.safeParse(value).success) continue;
    const fault = value === undefined ? "is missing" : "is wrong";
    throw new InvalidParameterError(name, `${name} ${fault}; it takes ${type}.`);
  }
}
