import { once } from "node:events";
import { Agent, request } from "node:http";
import { buffer } from "node:stream/consumers";
import { gunzipSync } from "node:zlib";

/** A server under measurement. */
export interface Target {
  port: number;
  headers: Record<string, string>;
}

/** An answer and how long it took, to its last byte as it was sent. */
export interface Timed {
  milliseconds: number;
  sent: Buffer;
}

/** What an answer says, and how long it took until it was there. */
export interface Asked {
  milliseconds: number;
  answer: ReturnType<typeof JSON.parse>;
}

const oneConnection = new Agent({ keepAlive: true, maxSockets: 1 });

/** One request, over one connection for all or those of an agent. Throws on any status but 200. */
export async function ask({ port, headers }: Target, path: string, agent = oneConnection): Promise<Timed> {
  const start = performance.now();
  const sending = request({
    port,
    host: "127.0.0.1",
    path,
    agent,
    headers: { ...headers, "accept-encoding": "gzip" },
  });
  sending.end();
  const [response] = await once(sending, "response");
  const sent = await buffer(response);
  const milliseconds = performance.now() - start;
  if (response.statusCode === 200) return { milliseconds, sent };
  throw new Error(`${path} on port ${port}: ${response.statusCode} ${sent.toString("utf8").slice(0, 300)}`);
}

/** The JSON of an answer. */
export function jsonOf({ sent }: Timed): ReturnType<typeof JSON.parse> {
  const gzipped = sent[0] === 0x1f && sent[1] === 0x8b;
  return JSON.parse((gzipped ? gunzipSync(sent) : sent).toString("utf8"));
}
