import { once } from "node:events";
import { Agent, request } from "node:http";
import { buffer } from "node:stream/consumers";
import { gunzipSync } from "node:zlib";

/** A server under measurement. */
export interface Target {
  port: number;
  headers: Record<string, string>;
}

/** Asked before, and not counted: they compile code and open connections. */
export const warmUps = 30;

/**
 * Asks every side each query, one at a time, and returns how many milliseconds each took. The side that begins changes
 * from query to query. `look` gets the answers.
 */
export async function latencies<Side extends string>(
  queries: readonly string[],
  sides: Record<Side, (query: string, place: number) => Promise<Asked>>,
  look: (answers: Record<Side, Asked["answer"]>, query: string, place: number) => Promise<void> | void,
): Promise<Record<Side, number[]>> {
  const names = Object.keys(sides) as Side[];
  const all = Object.fromEntries(names.map((name) => [name, []])) as unknown as Record<Side, number[]>;
  for (const [place, query] of queries.entries()) {
    const answers = {} as Record<Side, Asked["answer"]>;
    for (const name of place % 2 === 0 ? names : names.toReversed()) {
      const { answer, milliseconds } = await sides[name](query, place);
      answers[name] = answer;
      if (place >= warmUps) all[name].push(milliseconds);
    }
    await look(answers, query, place);
  }
  return all;
}

/** What asks a server for an address that a query gives. */
export const overHttp =
  (target: Target, address: (query: string, place: number) => string) =>
  async (query: string, place: number): Promise<Asked> => {
    const timed = await ask(target, address(query, place));
    return { milliseconds: timed.milliseconds, answer: jsonOf(timed) };
  };

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
