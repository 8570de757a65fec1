import type { IncomingMessage } from "node:http";
import { endpoints } from "../../schemas/endpoints.ts";
import { hasBody } from "../connection/pipelining.ts";
import { pathOf } from "../routes/target.ts";

/** Whether a request is a WebSocket handshake with the live feed (RFC 6455, 4.1), whoever sends it. */
export function isHandshake(request: IncomingMessage): boolean {
  const { url = "", method, headers } = request;
  const { "sec-websocket-version": version, "sec-websocket-key": nonce = "" } = headers;
  return (
    method === "GET" &&
    !hasBody(request) &&
    pathOf(url) === endpoints.scoreFeed.path &&
    /^websocket$/i.test(headers.upgrade ?? "") &&
    version === "13" &&
    /^[+/0-9A-Za-z]{22}==$/.test(nonce) &&
    areTokens(headers["sec-websocket-protocol"])
  );
}

/** Whether offered subprotocols are distinct tokens. */
function areTokens(offered: string | undefined): boolean {
  const names = offered?.split(",").map((name) => name.trim()) ?? [];
  return (
    new Set(names).size === names.length && names.every((name) => /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name))
  );
}
