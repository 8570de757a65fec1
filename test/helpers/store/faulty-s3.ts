import { once } from "node:events";
import {
  Agent,
  createServer,
  request as httpRequest,
  type IncomingMessage,
  type ServerResponse,
} from "node:http";
import { buffer } from "node:stream/consumers";
import { PutObjectCommand } from "@aws-sdk/client-s3";
import { createS3Client, type S3Environment, type S3Limits } from "../../../snapshots/store/backends/s3.ts";
import { listenLocally } from "../servers/programs.ts";

/** One request as it arrives; a repetition by the client is a request of its own. */
export interface S3Operation {
  /** From 0, in the order of arrival. */
  n: number;
  method: string;
  /** `bucket/prefix/key`; of a listing the bucket. */
  path: string;
  /** The prefix of a listing, else "". */
  listed: string;
}

/**
 * What happens to a request instead of being passed on:
 * - unavailable, conflict, unimplemented: it is answered 503, 409 or 501 and not passed on
 * - reset, hang: its connection ends, or never gets an answer; it is not passed on
 * - cut: it is passed on, and its answer ends in the middle of the body; one without a body is not cut
 * - lost: it is passed on, and its answer gets lost
 * - unconditional: it is carried out as if it had no condition
 * - flipped, shortened: it is passed on, and then what was stored is not what was sent
 */
export type S3Fault =
  | "unavailable"
  | "conflict"
  | "unimplemented"
  | "reset"
  | "hang"
  | "cut"
  | "lost"
  | "unconditional"
  | "flipped"
  | "shortened";

/** Decides what happens to each request as it arrives; undefined passes it on. */
export type FaultPlan = (operation: S3Operation) => S3Fault | undefined | Promise<S3Fault | undefined>;

/** An S3 server that fails as planned, in front of a real one. */
export interface FaultyS3 {
  /** The environment of its clients. */
  environment: S3Environment & { AWS_ENDPOINT_URL_S3: string };
  /** All requests so far. */
  operations: S3Operation[];
  /** Forgets the requests so far and goes on by a plan. */
  follow(plan: FaultPlan): void;
  /** Called once a request whose answer will get lost has been carried out. */
  onLost(told: (operation: S3Operation) => void): void;
  stop(): Promise<void>;
}

const refusals = {
  unavailable: [503, "SlowDown"],
  conflict: [409, "ConditionalRequestConflict"],
  unimplemented: [501, "NotImplemented"],
} as const;

/** Starts one on a free port in front of the server that `real` names, which it asks within `limits` itself. */
export async function startFaultyS3(
  real: S3Environment & { AWS_ENDPOINT_URL_S3: string },
  limits?: S3Limits,
): Promise<FaultyS3> {
  const upstream = new URL(real.AWS_ENDPOINT_URL_S3);
  const agent = new Agent({ keepAlive: true, maxSockets: 32 });
  const client = createS3Client(real, limits);
  let operations: S3Operation[] = [];
  let plan: FaultPlan = () => undefined;
  let lost: (operation: S3Operation) => void = () => {};

  const store = (path: string, body: Buffer) => {
    const [Bucket, ...key] = path.split("/");
    return client.send(new PutObjectCommand({ Bucket, Key: key.join("/"), Body: body }));
  };

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await buffer(request);
    const operation = operationOf(request, operations.length);
    operations.push(operation);
    const fault = await plan(operation);
    if (fault === "hang") return;
    if (fault === "reset") return void request.socket.destroy();
    if (fault === "unavailable" || fault === "conflict" || fault === "unimplemented") {
      const [status, code] = refusals[fault];
      const text = `<?xml version="1.0" encoding="UTF-8"?><Error><Code>${code}</Code></Error>`;
      response.writeHead(status, { "content-type": "application/xml", "content-length": text.length });
      return void response.end(text);
    }
    const passed = await pass(upstream, agent, request, body);
    if (fault === "lost") {
      lost(operation);
      return void request.socket.destroy();
    }
    if (fault === "flipped") await store(operation.path, flipped(body));
    if (fault === "shortened") await store(operation.path, body.subarray(0, -1));
    if (fault === "unconditional" && passed.status === 412) {
      await store(operation.path, body);
      return void response.writeHead(200, { "content-length": 0, etag: '"0"' }).end();
    }
    response.writeHead(passed.status, passed.headers);
    if (fault === "cut" && passed.body.length > 0)
      return void response.write(passed.body.subarray(0, passed.body.length >> 1), () => response.destroy());
    response.end(passed.body);
  }

  const server = createServer((request, response) => {
    answer(request, response).catch(() => request.socket.destroy());
  });
  const port = await listenLocally(server);
  return {
    environment: { ...real, AWS_ENDPOINT_URL_S3: `http://127.0.0.1:${port}` },
    get operations() {
      return operations;
    },
    follow(next) {
      operations = [];
      plan = next;
    },
    onLost(told) {
      lost = told;
    },
    async stop() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
      agent.destroy();
      client.destroy();
    },
  };
}

function operationOf({ method = "", url = "" }: IncomingMessage, n: number): S3Operation {
  const { pathname, searchParams } = new URL(url, "http://store");
  return { n, method, path: decodeURIComponent(pathname.slice(1)), listed: searchParams.get("prefix") ?? "" };
}

/** Passes a request on with the very headers it came with: its signature covers the Host that the client sees. */
async function pass(upstream: URL, agent: Agent, request: IncomingMessage, body: Buffer) {
  const { method, url: path, rawHeaders: headers } = request;
  const { hostname: host, port } = upstream;
  const passed = httpRequest({ host, port, method, path, headers, agent });
  passed.end(body);
  const [response] = await once(passed, "response");
  const { statusCode: status, rawHeaders } = response;
  return { status, headers: rawHeaders, body: await buffer(response) };
}

function flipped(body: Buffer): Buffer {
  const copy = Buffer.from(body);
  copy[copy.length >> 1]! ^= 1;
  return copy;
}
