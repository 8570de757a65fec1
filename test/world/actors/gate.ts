import { once } from "node:events";
import { type Server as HttpServer, type IncomingMessage, request } from "node:http";
import { duplexPair } from "node:stream";
import { finished } from "node:stream/promises";
import { pino } from "pino";
import { defaultLimits } from "../../../proxy/config.ts";
import { publicObjects, storeOrigin } from "../../../proxy/origin/origin.ts";
import type { QuotaStore } from "../../../proxy/quota/counters.ts";
import { createQuota } from "../../../proxy/quota/quota.ts";
import { createProxyServer } from "../../../proxy/server.ts";
import { createMetrics } from "../../../proxy/telemetry/telemetry.ts";
import type { Process } from "../kernel/kernel.ts";
import { Unreachable } from "../kernel/network.ts";
import type { Asked } from "../kernel/virtual.ts";
import type { Server, World } from "../world.ts";
import { ask } from "./asking.ts";

/** Where partners find the service. */
export const address = "https://gate.example";

/** Units are counted elsewhere in a world. */
const uncounted: QuotaStore = {
  take: async () => ({ allowed: true, used: 0 }),
  giveBack: async () => {},
  used: async () => 0,
  keeping: async () => ({ store: "sqlite", replica: null }),
  close() {},
};

function gateOf(world: World, { process, catalog, exports, publicLog, keys }: Server): HttpServer {
  const failed = (error: unknown) => world.kernel.note(`${process.name} reports ${error}`);
  return createProxyServer({
    catalog,
    exports,
    publicLog,
    keys,
    quota: createQuota(uncounted, { onFailure: "closed", now: () => Date.now(), failed }),
    objects: publicObjects(1024),
    origin: storeOrigin(world.store.of(process)),
    companions: {},
    pollAge: () => 0,
    metrics: createMetrics(),
    files: [],
    staleAfterSeconds: 1e9,
    keepAliveSeconds: 60,
    limits: defaultLimits,
    now: () => Date.now(),
    log: pino({ level: "silent" }),
  }).server;
}

interface Answered {
  status: number;
  headers: Record<string, string>;
  body: Buffer;
}

/** What a proxy answers to a request, as far as it comes. */
export async function answerOf(
  world: World,
  server: Server,
  path: string,
  headers: Record<string, string>,
): Promise<Answered> {
  server.gate ??= gateOf(world, server);
  const [near, far] = duplexPair();
  const asking = request({
    createConnection: () => near,
    path,
    headers: { ...headers, host: "gate.example" },
  });
  const answered: Promise<[IncomingMessage]> = once(asking.end(), "response") as never;
  server.gate.emit("connection", far);
  const [response] = await answered.catch((cause) => {
    throw new Unreachable("the connection was closed", { cause });
  });
  const parts: Buffer[] = [];
  response.on("data", (part) => parts.push(part));
  await finished(response).catch((error) => world.kernel.note(`${server.process.name} breaks off: ${error}`));
  return {
    status: response.statusCode!,
    headers: response.headers as Record<string, string>,
    body: Buffer.concat(parts),
  };
}

/** Carries a request of a partner to one of the proxies, and its answer back, which may break off. */
export async function fetchFromGate(
  world: World,
  from: Process,
  url: string,
  { headers = {} }: Asked,
): Promise<Response> {
  const target = url.slice(address.length);
  const answer = await ask(world, from, (server) => answerOf(world, server, target, headers)).catch(
    (error) => {
      throw error instanceof Unreachable ? new TypeError("fetch failed", { cause: error }) : error;
    },
  );
  const { body, status } = answer;
  world.kernel.note(`${from.name} is answered ${status} to ${target}`);
  const length = from.draw(20) === 0 ? from.draw(body.length + 1) : body.length;
  let sent = false;
  const stream = new ReadableStream({
    pull(controller) {
      if (!sent) controller.enqueue(new Uint8Array(body.subarray(0, length)));
      else if (length === body.length) controller.close();
      else controller.error(new TypeError("terminated"));
      sent = true;
    },
  });
  return new Response(stream, { status, headers: answer.headers });
}
