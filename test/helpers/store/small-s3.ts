import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import { buffer } from "node:stream/consumers";
import { vi } from "vitest";
import { plainTag, type S3Environment } from "../../../snapshots/store/backends/s3.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import { serveLocally } from "../servers/programs.ts";

/**
 * What happens to a request:
 * - hang, reset: nobody carries it out, and it gets no answer, or its connection ends
 * - lost: it is carried out, and its connection ends
 * - cut: its answer ends in the middle of the body; one without a body is not cut
 * - unconditional: it is carried out as if it had no condition
 * - flipped, shortened: what is stored is not what was sent
 * - a status and a code: it is refused
 */
export type SmallFault =
  | ("hang" | "reset" | "lost" | "cut" | "unconditional" | "flipped" | "shortened")
  | { status: number; code: string };

/** Decides over a request, and may let it wait. A listing has the key "" and tells its prefix, else that is "". */
type Plan = (
  method: string,
  key: string,
  headers: IncomingHttpHeaders,
  listed: string,
) => SmallFault | undefined | Promise<SmallFault | undefined>;

/** As much of an S3 server as a store needs, over a storage, with one bucket of the name `bucket`. */
export interface SmallS3 {
  environment: S3Environment & { AWS_ENDPOINT_URL_S3: string };
  /** Decides over each request as it arrives. */
  fault: Plan;
  stop(): Promise<void>;
}

/** Starts one on a free port. */
export async function startSmallS3(storage: Storage): Promise<SmallS3> {
  // They are not looked at, but a client wants to have some.
  for (const name of ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"])
    if (!process.env[name]) vi.stubEnv(name, "test");

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = "", url = "", headers } = request;
    const { pathname, searchParams } = new URL(url, "http://store");
    const key = decodeURIComponent(pathname.replace(/^\/bucket\/?/, ""));
    const sentBody = await buffer(request);
    const listed = searchParams.get("prefix") ?? "";
    const fault = await small.fault(method, key, headers, listed);
    if (fault === "hang") return;
    if (fault === "reset") return void request.socket.destroy();
    if (fault === "unconditional") for (const name of ["if-none-match", "if-match"]) delete headers[name];
    const body = damaged(sentBody, fault);
    if (typeof fault === "object")
      return void response.writeHead(fault.status).end(`<Error><Code>${fault.code}</Code></Error>`);
    const [status, sent] = await carryOut(method, key);
    if (fault === "lost") return void request.socket.destroy();
    const tag = method === "GET" && key !== "" ? await tagOf(storage, key) : undefined;
    response.writeHead(status, { "content-length": sent.length, ...(tag && { etag: `"${tag}"` }) });
    if (fault !== "cut" || sent.length === 0) return void response.end(sent);
    response.write(sent.subarray(0, sent.length >> 1), () => response.destroy());

    async function carryOut(operation: string, name: string): Promise<[number, Buffer]> {
      const nothing = Buffer.alloc(0);
      if (operation === "PUT" && headers["if-none-match"])
        return [(await storage.putIfAbsent(name, body)) ? 200 : 412, nothing];
      if (operation === "PUT" && headers["if-match"]) {
        const tag = plainTag(headers["if-match"]);
        return [(await storage.replace(name, body, tag)) ? 200 : 412, nothing];
      }
      if (operation === "PUT") return storage.put(name, body).then(() => [200, nothing]);
      if (operation === "DELETE") return storage.delete(name).then(() => [204, nothing]);
      if (name === "") return [200, await listing(storage, listed)];
      const found = await storage.get(name);
      const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(headers.range ?? "") ?? [];
      if (found && first) {
        const part = found.subarray(Number(first), Number(last) + 1);
        return part.length > 0 ? [206, part] : [416, Buffer.from("<Error><Code>InvalidRange</Code></Error>")];
      }
      return found ? [200, found] : [404, Buffer.from("<Error><Code>NoSuchKey</Code></Error>")];
    }
  }

  const server = createServer((request, response) => {
    answer(request, response).catch(() => response.destroy());
  });
  const { url, stop } = await serveLocally(server);
  const small: SmallS3 = {
    environment: { AWS_ENDPOINT_URL_S3: url },
    fault: () => undefined,
    stop,
  };
  return small;
}

function damaged(body: Buffer, fault: SmallFault | undefined): Buffer {
  if (fault === "flipped") body[body.length >> 1]! ^= 1;
  return fault === "shortened" ? body.subarray(0, -1) : body;
}

async function tagOf(storage: Storage, wanted: string): Promise<string | undefined> {
  for await (const { key, tag } of storage.list(wanted)) if (key === wanted) return tag;
  return undefined;
}

async function listing(storage: Storage, prefix: string): Promise<Buffer> {
  const entries: string[] = [];
  for await (const { key, bytes, modified, tag } of storage.list(prefix)) {
    const fields = { Key: key, Size: bytes, LastModified: modified.toISOString(), ETag: `"${tag}"` };
    const members = Object.entries(fields).map(([name, value]) => `<${name}>${value}</${name}>`);
    entries.push(`<Contents>${members.join("")}</Contents>`);
  }
  const result = `<ListBucketResult><IsTruncated>false</IsTruncated>${entries.join("")}</ListBucketResult>`;
  return Buffer.from(`<?xml version="1.0" encoding="UTF-8"?>${result}`);
}
