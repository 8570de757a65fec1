import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { ScoreBatch } from "../../../schemas/envelopes.ts";
import { startTestProxy, type TestProxy } from "../../helpers/http/proxy.ts";
import { type Answer, bearer, type Call, outcome, problemOf } from "../../helpers/http/proxy-client.ts";
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

const post = (body: string | Buffer, headers: NonNullable<Call["headers"]>, search = "", to = proxy) =>
  to.get(`${batch}${search}`, { method: "POST", body, headers });
const ask = (body: string | Buffer, headers: Record<string, string> = {}) =>
  post(body, { ...jsonType, ...bearer(key), ...headers });
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

  test.each([
    ["the same ones", Array(51).fill("aave")],
    ["known and unknown ones", ["aave", ...unknown(50)]],
  ])("to 51 is refused, also for %s", async (_what, asked) => {
    const answer = await ask(batchBody(asked));
    expect(outcome(answer)).toBe("400 BATCH_TOO_LARGE");
    expect(problemOf(answer).detail).toMatch(/at most 50/);
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

describe("the type of the body", () => {
  const good = [
    ...[
      "application/json",
      "Application/JSON",
      "application/json; charset=utf-8",
      "application/json;charset=UTF-8",
    ],
    ...['application/json; charset="utf-8"', "application/json ; charset=utf-8"],
  ];
  test.each(good)("%s is taken", async (type) => {
    expect(outcome(await ask(batchBody(["aave"]), { "content-type": type }))).toBe("200");
  });

  const json = ["content-type", "application/json"];
  const wrong: [string, string[]][] = [
    ["none", []],
    ["an empty one", ["content-type", ""]],
    ["text/plain", ["content-type", "text/plain"]],
    ["a form", ["content-type", "application/x-www-form-urlencoded"]],
    ["a kind of JSON", ["content-type", "application/problem+json"]],
    ["JSON and more", ["content-type", "application/jsonp"]],
    ["another charset", ["content-type", "application/json; charset=iso-8859-1"]],
    ["UTF-16", ["content-type", "application/json; charset=utf-16"]],
    ["another parameter", ["content-type", "application/json; boundary=x"]],
    ["two in one", ["content-type", "application/json, application/json"]],
    ["two", [...json, ...json]],
    ["two that differ", [...json, "Content-Type", "text/plain"]],
    ["gzip", [...json, "content-encoding", "gzip"]],
    ["gzip beside identity", [...json, "content-encoding", "identity", "content-encoding", "gzip"]],
  ];
  test.each(wrong)("%s is refused", async (_what, fields) => {
    const body = fields.includes("gzip") ? gzipSync(batchBody(["aave"])) : batchBody(["aave"]);
    const answer = await post(body, [...fields, "x-api-key", key]);
    expect(outcome(answer)).toBe("415 UNSUPPORTED_MEDIA_TYPE");
    expect(problemOf(answer).detail).toContain("application/json");
  });

  test("identity as a coding is none", async () => {
    expect(outcome(await ask(batchBody(["aave"]), { "content-encoding": "identity" }))).toBe("200");
  });
});

describe("the size of the body", () => {
  const padded = (bytes: number) => batchBody(["aave"]).padEnd(bytes, " ");

  test.each(["declared", "chunked"] as const)("may be 16 KiB and no byte more, %s", async (how) => {
    const headers: Record<string, string> = how === "chunked" ? { "transfer-encoding": "chunked" } : {};
    expect(outcome(await ask(padded(limit), headers))).toBe("200");
    const answer = await ask(padded(limit + 1), headers);
    expect(outcome(answer)).toBe("413 BODY_TOO_LARGE");
    expect(problemOf(answer).detail).toContain(String(limit));
    expect(answer.headers.connection).toBe("close");
  });
});

describe("what the body says", () => {
  const wrong: [string, string | Buffer][] = [
    ["nothing", ""],
    ["no JSON", "slugs=aave"],
    ["JSON cut short", '{"slugs":["aave"]'],
    ["JSON and more", '{"slugs":["aave"]}{}'],
    ["a comment", '{"slugs":["aave"]/**/}'],
    ["a comma too many", '{"slugs":["aave",]}'],
    ["NaN", '{"slugs":[NaN]}'],
    ["null", "null"],
    ["a list", '["aave"]'],
    ["a text", '"aave"'],
    ["no slugs", "{}"],
    ["slugs null", '{"slugs":null}'],
    ["one slug", '{"slugs":"aave"}'],
    ["an object of slugs", '{"slugs":{"0":"aave","length":1}}'],
    ["a number among them", '{"slugs":["aave",1]}'],
    ["null among them", '{"slugs":["aave",null]}'],
    ["a list among them", '{"slugs":[["aave"]]}'],
    ["another member", '{"slugs":["aave"],"plan":"aegis"}'],
    ["another member's case", '{"Slugs":["aave"]}'],
    ["__proto__ in its place", '{"__proto__":{"slugs":["aave"]}}'],
    ["__proto__ beside it", '{"slugs":["aave"],"__proto__":{"x":1}}'],
    ["a byte that is not UTF-8", Buffer.from('{"slugs":["aa\xff"]}', "latin1")],
    ["a lone surrogate in UTF-8", Buffer.from('{"slugs":["\xed\xa0\x80"]}', "latin1")],
    ["an overlong slash", Buffer.from('{"slugs":["\xc0\xaf"]}', "latin1")],
    ["UTF-16", Buffer.from(batchBody(["aave"]), "utf16le")],
    ["a NUL within", '{"slugs":["a\0b"]}'],
    ["very deep lists", `{"slugs":${"[".repeat(8000)}${"]".repeat(8000)}}`],
  ];
  test.each(wrong)("%s is refused, with the shape that is wanted", async (_what, body) => {
    const answer = await ask(body);
    expect(outcome(answer)).toBe("400 INVALID_BODY");
    expect(problemOf(answer).detail).toContain('{"slugs": ["…", …]}');
  });

  test("nothing of it is told in the error, nor in the log", async () => {
    const answer = await ask('{"slugs":["CANARY"],"CANARY":"prs_live_CANARY"}');
    expect(answer.text).not.toContain("CANARY");
    expect((await ask(batchBody(["CANARY"]))).status).toBe(200);
    expect(proxy.logged.join("")).not.toContain("CANARY");
  });
});

describe("each fault is answered before those behind it", () => {
  const large = batchBody(unknown(51)).padEnd(limit + 1);
  const text = { "content-type": "text/plain" };

  test("credentials, quota, type, size, shape, parameters", async () => {
    const spent = bearer(await proxy.issue({ owner: "spent", quota: 1 }));
    await ask(batchBody([]), spent);
    const of = async (body: string, headers: Record<string, string>, search = "") =>
      outcome(await post(body, { ...jsonType, ...bearer(key), ...headers }, search));
    expect(await of(large, { ...text, "x-api-key": "wrong" }, "?x=1")).toBe("400 CONFLICTING_CREDENTIALS");
    expect(await of(large, { ...text, ...bearer("wrong") }, "?x=1")).toBe("401 INVALID_API_KEY");
    expect(await of(large, { ...text, ...spent }, "?x=1")).toBe("429 QUOTA_EXCEEDED");
    expect(await of(large, text, "?x=1")).toBe("415 UNSUPPORTED_MEDIA_TYPE");
    expect(await of(large, {}, "?x=1")).toBe("413 BODY_TOO_LARGE");
    expect(await of(batchBody(unknown(51)), {}, "?x=1")).toBe("400 BATCH_TOO_LARGE");
    expect(await of("{}", {}, "?x=1")).toBe("400 INVALID_BODY");
    expect(await of(batchBody([]), {}, "?x=1")).toBe("400 INVALID_PARAMETER");
    expect(await of(batchBody([]), {})).toBe("200");
  });
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
