import { describe, expect, test } from "vitest";
import { clientAccount, presentedKey } from "../../../proxy/access/identity.ts";
import { newExchange } from "../../../proxy/exchange.ts";
import { archiveParameters } from "../../../schemas/query.ts";
import { ProtocolSlug } from "../../../schemas/records.ts";
import { isWellFormedKey } from "../../../snapshots/keys/keys.ts";
import { decodeCursor } from "../../../snapshots/read/archive/paging.ts";
import { archiveQuery } from "../../helpers/archive/query.ts";
import { answerOf, answersIn } from "../../helpers/attack/wire.ts";
import { outcome } from "../../helpers/http/proxy-client.ts";
import { serveTestProxy } from "../../helpers/http/proxy-served.ts";

const kibibyte = 1024;

const proxy = serveTestProxy();

test("17 requests at once with garbage behind them get whole answers in order, or a closed connection", async () => {
  const key = await proxy.issue();
  const heads = Array.from({ length: 17 }, (_, place) =>
    [`GET /api/v1/markets/historical?pageSize=${place + 1} HTTP/1.1`, "Host: x", `x-api-key: ${key}`].join(
      "\r\n",
    ),
  );
  const received = await proxy.raw([...heads, "garbage", ""].join("\r\n\r\n"));
  const answers = answersIn(received).map(answerOf);
  // The garbage ends the connection: of several, the last may be cut.
  for (const [place, answer] of answers.slice(0, Math.max(1, answers.length - 1)).entries()) {
    expect(answer.headers["content-length"]).toBe(`${answer.body.length}`);
    expect(answer.json().pageSize).toBe(place + 1);
  }
  expect(outcome(await proxy.get("/healthz"))).toBe("200");
});

/** What is repeated between two texts: patterns with two ways to match take the square of its length, or worse. */
const hostile = [
  ...["|1|", "|0|x", "|a|!", "a| |\u0001", "|+|x", "|%41|", "|%41|%", "|&|", "|=|", "|tier=RAW&|", "|2026-|"],
  ...[
    "2026-01-01T00:00:00.|0|",
    "|2026-01-01T00:00:00+00:00|",
    "|/|%",
    "|a.|%",
    '"|"|',
    "|,|",
    "|10.0.0.1,|",
  ],
  // The last one is many opening brackets in Base64.
  ...["|:|", "|Bearer |", "prs_live_|0|", "|W1tb|"],
].map((kind) => {
  const [begin = "", piece = "", end = ""] = kind.split("|");
  const text = (length: number) => begin + piece.repeat(length / piece.length) + end;
  return { kind, short: text(4 * kibibyte), long: text(256 * kibibyte) };
});

const exchangeOf = (target: string) => newExchange(target, { current: () => undefined });

/** Everything that reads what a caller sent; a refusal is as good as an answer. */
const readers: Record<string, (text: string) => unknown> = {
  "the query": archiveQuery,
  ...Object.fromEntries(
    archiveParameters.map(({ name }) => [
      `parameter ${name}`,
      (text: string) => archiveQuery(`${name}=${text}`),
    ]),
  ),
  "a cursor": decodeCursor,
  "a path": exchangeOf,
  "a path of a score": (text) => exchangeOf(`/api/v1/scores/${text}`),
  "a slug": (text) => ProtocolSlug.safeParse(text),
  Authorization: (text) => presentedKey(["Authorization", text], false),
  "a bearer": (text) => presentedKey(["Authorization", `Bearer ${text}`], false),
  "a key": isWellFormedKey,
  "X-Forwarded-For": (text) => clientAccount("10.0.0.1", [text], { hops: 99 }),
};

/** Microseconds of processor time that reading a text takes. */
function cost(read: (text: string) => unknown, text: string): number {
  const start = process.threadCpuUsage();
  try {
    read(text);
  } catch {
    // Refused.
  }
  const { user, system } = process.threadCpuUsage(start);
  return user + system;
}

/** How many times as much a text costs as one of a part of its length. The least costs cannot be measured. */
const timesAsMuch = (read: (text: string) => unknown, { short, long }: { short: string; long: string }) =>
  cost(read, long) / Math.max(cost(read, short), 100);

describe("texts made to be slow", () => {
  test.each(Object.entries(readers))("cost %s no more than their length does", (_what, read) => {
    for (const { kind, ...texts } of hostile) {
      // 64 times the length: a square would be 4096 times the cost. Other work of the machine may be measured, too.
      const tries = [1, 2, 3].values().map(() => timesAsMuch(read, texts));
      expect([kind, tries.some((times) => times < 1000)]).toEqual([kind, true]);
    }
  });
});
