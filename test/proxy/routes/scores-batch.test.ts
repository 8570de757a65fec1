import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { ScoreBatch } from "../../../schemas/envelopes.ts";
import { startTestProxy, type TestProxy } from "../../helpers/http/proxy.ts";
import { type Answer, bearer, outcome } from "../../helpers/http/proxy-client.ts";
import { slugs } from "../../helpers/publish/records.ts";

const batch = "/api/v1/scores/batch";
const limit = 16 * 1024;
const jsonType = { "content-type": "application/json" };
const batchBody = (asked: readonly string[]) => JSON.stringify({ slugs: asked });

let proxy: TestProxy;
let key: string;
beforeAll(async () => {
  proxy = await startTestProxy();
});
afterAll(() => proxy.stop());
// Each test has a quota of its own.
let owners = 0;
beforeEach(async () => {
  owners += 1;
  key = await proxy.issue({ plan: "developer", owner: `owner ${owners}` });
});

const ask = (body: string, headers: Record<string, string> = {}) =>
  proxy.get(batch, { method: "POST", body, headers: { ...jsonType, ...bearer(key), ...headers } });
const scoresOf = async (asked: readonly string[]) => ScoreBatch.parse((await ask(batchBody(asked))).json());
const remaining = (answer: Answer) => Number(answer.headers["x-ratelimit-remaining"]);
const unknown = (count: number) => Array.from({ length: count }, (_, index) => `unknown-${index}`);

describe("the answer", () => {
  test("to no slug is no score", async () => {
    expect((await ask(batchBody([]))).text).toBe('{"count":0,"scores":[],"notFound":[]}');
  });

  test.each([1, 50])("to %i slugs names each, in the order asked", async (count) => {
    const asked = ["lido-dao", ...unknown(46), "curve.fi", "aave", "constructor"].slice(0, count);
    const { count: told, scores, notFound } = await scoresOf(asked);
    expect(told).toBe(scores.length);
    const known = asked.filter((slug) => !slug.startsWith("unknown"));
    expect(scores.map(({ slug }) => slug)).toEqual(known);
    expect(notFound).toEqual(asked.filter((slug) => slug.startsWith("unknown")));
  });

  test("holds each record byte for byte as GET /scores/:slug sends it", async () => {
    const records = await Promise.all(
      slugs.map(async (slug) => (await proxy.get(`/api/v1/scores/${slug}`)).text),
    );
    for (const order of [slugs, slugs.toReversed()]) {
      const parts = order.map((slug) => records[slugs.indexOf(slug)]);
      const expected = `{"count":4,"scores":[${parts.join(",")}],"notFound":["none"]}`;
      expect((await ask(batchBody([...order, "none"]))).text).toBe(expected);
    }
  });

  test("names a slug once that was asked for again and again", async () => {
    const { count, scores, notFound } = await scoresOf(["none", "aave", "none", "lido-dao", "aave", "none"]);
    expect([count, scores.map(({ slug }) => slug), notFound]).toEqual([2, ["aave", "lido-dao"], ["none"]]);
    expect((await scoresOf(Array(50).fill("aave"))).count).toBe(1);
  });

  const hostile = [
    ...["__proto__", "toString", "hasOwnProperty", "valueOf", "prototype", "batch", "", " ", "AAVE", "aave "],
    ...[
      "../..",
      "..%2f..",
      "aave/history",
      "/etc/passwd",
      "a\0b",
      "\ud800",
      "\udc00x",
      "\u202eaave",
      "1e999",
    ],
    "x".repeat(10_000),
  ];
  test("gives hostile slugs back as they came, found nowhere", async () => {
    const body = JSON.stringify({ slugs: [...hostile, "constructor"] });
    const answer = await ask(body);
    const { scores, notFound } = ScoreBatch.parse(answer.json());
    expect(notFound).toEqual(hostile);
    expect(scores.map(({ slug }) => slug)).toEqual(["constructor"]);
    expect(answer.headers["content-type"]).toBe("application/json");
  });
});

test("a body in chunks may have 16 KiB and no byte more", async () => {
  const padded = (bytes: number) =>
    ask(batchBody(["aave"]).padEnd(bytes, " "), { "transfer-encoding": "chunked" });
  expect(outcome(await padded(limit))).toBe("200");
  const answer = await padded(limit + 1);
  expect([outcome(answer), answer.headers.connection]).toEqual(["413 BODY_TOO_LARGE", "close"]);
});

test("nothing of a body is told in the error, nor in the log", async () => {
  const answer = await ask('{"slugs":["CANARY"],"CANARY":"prs_live_CANARY"}');
  expect(answer.text).not.toContain("CANARY");
  expect((await ask(batchBody(["CANARY"]))).status).toBe(200);
  expect(proxy.logged.join("")).not.toContain("CANARY");
});

describe("the quota", () => {
  test("is one unit a batch, whatever is in it, and also when the body is refused", async () => {
    const left: number[] = [];
    const bodies = [batchBody(slugs), batchBody([]), "{", batchBody(unknown(51)), "".padEnd(limit + 1)];
    for (const body of bodies) left.push(remaining(await ask(body)));
    left.push(remaining(await ask("{}", { "content-type": "text/plain" })));
    expect(left).toEqual([49_999, 49_998, 49_997, 49_996, 49_995, 49_994]);
    expect(await proxy.left(key)).toBe(49_994);
  });
});
