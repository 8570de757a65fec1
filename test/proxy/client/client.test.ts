import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { promisify } from "node:util";
import type { Browser } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { ApiError, type CallOptions, Client, type ClientOptions } from "../../../proxy/site/client/client.ts";
import { recordTypes } from "../../../proxy/site/client/record-types.ts";
import { clientFiles } from "../../../proxy/site/static-files.ts";
import { endpoints } from "../../../schemas/endpoints.ts";
import { type Instead, type Link, startLink } from "../../helpers/http/link.ts";
import { startTestProxy, type TestProxy } from "../../helpers/http/proxy.ts";
import { bearer } from "../../helpers/http/proxy-client.ts";
import { findChromium, launch } from "../../helpers/servers/chromium.ts";
import { findNode } from "../../helpers/servers/programs.ts";

const root = new URL("../../..", import.meta.url).pathname;
const markets = 300;
let proxy: TestProxy;
let key: string;
let lines: string[];
/** What the exercise finds wherever it runs. */
let expected: object;

beforeAll(async () => {
  proxy = await startTestProxy({ markets });
  key = await proxy.issue();
  const headers = { ...bearer(key), accept: "application/x-ndjson" };
  lines = (await proxy.get("/api/v1/markets/historical", { headers })).text.split("\n").slice(0, -1);
  const head = JSON.parse(String(await proxy.storage.get("commits/0000000001.json")));
  expected = {
    record: true,
    batch: ["nobody"],
    markets,
    walked: true,
    root: { archiveRoot: head.entry.archiveRoot, markets },
    recomputed: [markets / 5, true],
    again: [markets / 5, 1, "entry"],
    proved: [markets / 5, true],
    absent: [markets, "NOT_FOUND 404", "MISMATCH 0"],
    codes: ["INVALID_PARAMETER 400", "UNREACHABLE 0", "Error: as asked"],
  };
});
afterAll(() => proxy?.stop());

describe("the client's file", () => {
  const textOf = async (path: string) => String(await clientFiles.find((file) => file.path === path)?.read());

  test("imports nothing but what recomputes, when it is asked to, and is small", async () => {
    const served = await textOf(endpoints.client.path);
    const imported = [...served.matchAll(/\b(?:import|require)\b\W*"([^"]*)/g)].map(([, name]) => name);
    expect(imported).toEqual(["./recompute.mjs"]);
    expect(served.length).toBeLessThanOrEqual(22_900);
  });

  test("says what everything public does, but for records, whose members say it", async () => {
    const declared = (await textOf(endpoints.clientTypes.path)).split("\n");
    const records = recordTypes().split("\n");
    const public_ = declared.flatMap((line, at) =>
      /^(export (declare (class|function)|interface|type)| {2}(?!constructor)[a-z]\w*\()/.test(line) &&
      !records.includes(line)
        ? [at]
        : [],
    );
    expect(public_.length).toBeGreaterThan(60);
    expect(public_.filter((at) => !declared[at - 1]?.endsWith("*/")).map((at) => declared[at])).toEqual([]);
  });

  test("exports every class and function that its types declare, and no other", async () => {
    const declared = (await textOf(endpoints.clientTypes.path)).matchAll(/^export declare \w+ (\w+)/gm);
    const address = `data:text/javascript,${encodeURIComponent(await textOf(endpoints.clientModule.path))}`;
    const exported = Object.keys(await import(address));
    expect(exported.sort()).toEqual([...declared].map(([, name]) => name).sort());
  });
});

test("what recomputes needs neither Node nor a library, and is served with what its source exports", async () => {
  const source = new URL("../../../proxy/site/client/recompute.ts", import.meta.url);
  const text = String(await clientFiles.find(({ path }) => path === endpoints.recompute.path)?.read());
  expect(text.match(/\bimport\b.{40}|\b(?:Buffer|process|setImmediate)[.(].{40}/g)).toBe(null);
  const served = await import(`data:text/javascript,${encodeURIComponent(text)}`);
  expect(Object.keys(served).sort()).toEqual(Object.keys(await import(source.href)).sort());
});

describe("runs as it is served", () => {
  const run = promisify(execFile);
  const script = join(root, "test/helpers/http/client-exercise.mjs");
  /** The text of its function, for pages. */
  const exercise = /export (async function exercise.*?^\})/ms.exec(readFileSync(script, "utf8"))?.[1];

  const url = () => `http://127.0.0.1:${proxy.port}`;

  const oldest = findNode("20");
  // Of later ones: in Chromium, and wherever tests here use the client.
  test.skipIf(!oldest)("in Node 20", async () => {
    const { stdout, stderr } = await run(oldest!, [script, url(), key]);
    expect([JSON.parse(stdout), stderr]).toEqual([expected, ""]);
  });

  const program = findChromium();
  test.skipIf(!program)("in Chromium, on a page of the service and on another site's", async () => {
    const browser: Browser = await launch(program!);
    try {
      const page = await browser.newPage();
      const here = `(async () => (${exercise})(await import("${url()}/client.js"), "${url()}", "${key}"))()`;
      await page.goto(url());
      // The page's policy lets it ask its own service only.
      expect(await page.evaluate(here)).toEqual(expected);
      await page.goto("about:blank");
      expect(await page.evaluate("isSecureContext")).toBe(false);
      const other = await startLink(proxy.port);
      other.before = () => ({
        status: 200,
        headers: { "Content-Type": "text/html" },
        body: "<p>another site",
      });
      await page.goto(other.url);
      expect(await page.evaluate(here)).toEqual(expected);
      await other.stop();
    } finally {
      await browser.close();
    }
  });
});

describe("a link that fails", () => {
  let link: Link;
  afterEach(() => link?.stop());

  /** The number of a request that has come, from 0. */
  const place = () => link.passed.length - 1;
  /** A client behind a link with these faults. */
  async function behind({
    how,
    ...faults
  }: Partial<Pick<Link, "before" | "cut" | "after">> & { how?: object }) {
    link = Object.assign(await startLink(proxy.port), faults);
    return new Client({ url: link.url, key, ...how });
  }
  /** The same behind a link that always gives this answer. */
  const answered = (instead: Instead, how = {}) => behind({ before: () => instead, how });

  test("does not show in rows: every answer is taken up where it broke off", async () => {
    // A cut makes fetch drop what it has not handed on, so some cuts wait for a line to arrive.
    const cuts = [0, 100, 1_000, 1_500, 4_000, 1_999, 20_000];
    let line = Promise.withResolvers<void>();
    const client = await behind({
      cut: () => cuts[place()],
      after: () => cuts[place()]! >= 4_000 && line.promise,
      how: { retries: cuts.length },
    });
    const rows = client.rows();
    const texts: string[] = [];
    for await (const { text } of rows) {
      texts.push(text);
      line.resolve();
      line = Promise.withResolvers();
    }
    expect(texts).toEqual(lines);
    expect([rows.skip, rows.count, rows.total]).toEqual([markets, markets, markets]);
    expect(place()).toBeGreaterThan(4);
    expect(link.passed.some(({ target }) => /cursor=.*&skip=[1-9]/.test(target))).toBe(true);
  });

  test("does not show in pages, scores and batches", async () => {
    const client = await behind({
      before: () => (["destroy", { status: 503 }] as const)[place() % 4],
      cut: () => (place() % 4 === 2 ? 500 : undefined),
    });
    const ids: string[] = [];
    for await (const page of client.pages({ pageSize: 200 })) {
      ids.push(...page.markets.map(({ id }) => id));
      if (ids.length >= 600) break;
    }
    expect(ids).toEqual(lines.slice(0, 600).map((line) => JSON.parse(line).id));
    expect((await client.batch(["aave"])).count).toBe(1);
    expect(link.passed.filter(({ method }) => method === "POST").length).toBeGreaterThan(1);
  });

  test.each([
    ...[429, 502, 503, 504].map((status) => [status, 3] as const),
    ...[400, 401, 403, 404, 410, 500, 501].map((status) => [status, 1] as const),
  ])(
    "is asked again after some errors, but not for ever: after %i, %i requests",
    async (status, requests) => {
      const headers: Record<string, string> = status % 2 ? { "Retry-After": "0" } : {};
      const client = await answered({ status, headers }, { retries: 2 });
      const error = { name: "ApiError", code: "UNEXPECTED_ANSWER", status };
      await expect(client.scores()).rejects.toMatchObject(error);
      expect(link.passed.length).toBe(requests);
    },
  );

  test("is not waited for longer than allowed", async () => {
    const client = await answered({ status: 429, headers: { "Retry-After": "3600" } });
    await expect(client.scores()).rejects.toMatchObject({ status: 429, retryAfter: 3600 });
    expect(link.passed.length).toBe(1);
  });

  test("ends by deadline, and by the caller's signal with the caller's reason", async () => {
    const unheard = new Client({ url: "http://service.test", timeout: 50, retries: 0, fetch: never });
    await expect(unheard.scores()).rejects.toMatchObject({ code: "TIMEOUT" });
    const client = await answered("destroy", { retries: 1_000 });
    const stop = new AbortController();
    const ended = expect(client.scores({ signal: stop.signal })).rejects.toThrow(/^enough$/);
    stop.abort(new Error("enough"));
    await ended;
  });

  test("gets the key and no other host does", async () => {
    const elsewhere = { status: 302, headers: { Location: "http://127.0.0.1:1/" } };
    const client = await answered(elsewhere, { retries: 0 });
    await expect(client.scores()).rejects.toMatchObject({ code: "UNREACHABLE" });
    expect(link.passed[0]?.headers).toMatchObject(bearer(key));
    expect(() => new Client({ url: link.url, key: "with\nbreak" })).toThrow(ApiError);
  });
});

test.each([
  ...["localhost:8080", "api.example.org", "/api/v1", "ftp://api.example.org", "https://", "", undefined],
  ...["https://api.example.org:99999", "https://api example.org", "https://api.example.org?key=1"],
  ...["https://api.example.org/#docs", "https://name:word@api.example.org"],
])("what is no address of a service is refused at once: %s", (url) => {
  const made = () => new Client({ url: url as string, fetch: never });
  const message = `url must be an address as https://HOST, and is ${String(url).replace(/\/+$|name:word@/, "")}.`;
  expect(made).toThrow(ApiError);
  expect(made).toThrow(expect.objectContaining({ code: "INVALID_URL", message }));
});

test.each([
  ...["http://127.0.0.1:8080", "https://api.example.org/", "https://api.example.org/prs/api/v1"],
  ...["HTTP://[::1]:8080", new URL("https://xn--bcher-kva.example/a@b")],
])("an address of a service is taken: %s", async (url) => {
  const asked: string[] = [];
  const fetch = async (address: unknown) => {
    asked.push(String(address));
    return new Response("{}");
  };
  await new Client({ url, fetch: fetch as typeof globalThis.fetch }).status();
  const origin = String(url)
    .replace(/\/+$/, "")
    .replace(/\/api\/v1$/, "");
  expect(asked).toEqual([`${origin}/api/v1/status`]);
});

/** A fetch that is never answered. */
const never = ((_address: unknown, { signal }: RequestInit = {}) =>
  new Promise((_resolve, reject) => {
    signal?.addEventListener("abort", () => reject(signal.reason));
  })) as typeof fetch;

describe("answers that cannot be right", () => {
  /** A client whose requests get these answers in turn. */
  function answered(
    ...answers: [body: string | Buffer<ArrayBuffer>, headers: Record<string, string>, status?: number][]
  ) {
    let next = 0;
    const fetch = async () => {
      const [body, headers, status = 200] = answers[next++ % answers.length]!;
      return new Response(body, { headers, status });
    };
    const retries = answers.length - 1;
    return new Client({ url: "http://service.test", key: "k", retries, maxBytes: 2 ** 20, fetch });
  }
  const row = (index: number) => `${lines[index]}\n`;
  const snapshot = (letter: string) => letter.repeat(64);
  const head = (count: number, letter = "a") => ({
    "X-Count": String(count),
    "X-Total-Count": "2",
    "X-Cursor": "c",
    "X-Snapshot-Id": snapshot(letter),
  });
  const rowsOf = (client: Client) => Array.fromAsync(client.rows());
  const page = (changes: object) =>
    JSON.stringify({ count: 1, total: 2, nextCursor: "c", markets: [JSON.parse(lines[0]!)], ...changes });
  const pagesOf = (client: Client) => Array.fromAsync(client.pages());
  /** A sound page, and then one with these members, of the snapshot of this letter. */
  const then = (changes: object, letter = "a") =>
    answered([page({}), head(0)], [page(changes), head(0, letter)]);

  test.each([
    ["more rows than counted", "MISMATCH", () => rowsOf(answered([row(0) + row(1), head(1)]))],
    ["fewer rows than counted", "BROKEN_ANSWER", () => rowsOf(answered([row(0), head(2)]))],
    ["a last row without end", "BROKEN_ANSWER", () => rowsOf(answered([row(0) + lines[1], head(2)]))],
    ["no row at all", "MISMATCH", () => rowsOf(answered(["", head(1)]))],
    ["no count of rows", "MISMATCH", () => rowsOf(answered([row(0), { ...head(1), "X-Count": "some" }]))],
    ["bytes that are no text", "BROKEN_ANSWER", () => rowsOf(answered([Buffer.of(0xff, 10), head(1)]))],
    ["other rows", "MISMATCH", () => rowsOf(answered([row(0), head(2)], [row(1), head(1, "b")]))],
    ["a line without end", "MISMATCH", () => rowsOf(answered(["x".repeat(2 ** 20 + 1), head(1)]))],
    ["a page with fewer markets", "BROKEN_ANSWER", () => pagesOf(answered([page({ count: 2 }), head(0)]))],
    ["a body that is no JSON", "BROKEN_ANSWER", () => pagesOf(answered(["{", head(0)]))],
    ["a body that is too long", "UNEXPECTED_ANSWER", () => answered([" ".repeat(2 ** 21), {}]).status()],
    ["a page of another snapshot", "MISMATCH", () => pagesOf(then({ nextCursor: null }, "b"))],
    ["a page with another total", "MISMATCH", () => pagesOf(then({ total: 3 }))],
    ["a walk without end", "MISMATCH", () => pagesOf(then({ count: 0, markets: [] }))],
  ])("%s: %s", async (_what, code, work) => {
    await expect(work()).rejects.toMatchObject({ code });
  });

  describe("tiles of the log", () => {
    const [before, after] = [1, 2].map((size) => `log\n${size}\n${"A".repeat(43)}=\n\n— log AAAAAAA=\n`);
    /** Asks for tiles, which are answered by so many bytes again and again, without an end. */
    function endless(bytes: number, { signal: ends, ...how }: Partial<ClientOptions> & CallOptions = {}) {
      let sent = 0;
      const fetch = async (_address: unknown, { signal }: RequestInit = {}) =>
        new Response(
          new ReadableStream({
            async pull(controller) {
              await setImmediate();
              sent += bytes;
              if (signal?.aborted) controller.error(signal.reason);
              else controller.enqueue(new Uint8Array(bytes));
            },
          }),
        );
      const options = {
        url: "http://service.test",
        retries: 0,
        fetch: fetch as typeof globalThis.fetch,
        ...how,
      };
      const compared = new Client(options).requireSameLog(before!, after!, { signal: ends });
      return compared.then(
        () => expect.unreachable(),
        (error: unknown) => ({ error, sent }),
      );
    }

    test("are cut off where more comes than a tile may have, or than the caller takes", async () => {
      const long = await endless(1_000);
      expect(long.error).toMatchObject({ name: "VerificationError", what: "answer" });
      expect(long.sent).toBeLessThan(12_000);
      const small = await endless(1_000, { maxBytes: 3_000 });
      expect(small.error).toMatchObject({ name: "ApiError", code: "UNEXPECTED_ANSWER" });
      expect(small.sent).toBeLessThan(7_000);
    });

    test("must come whole in time, and until the caller ends the call, with the caller's reason", async () => {
      // Pieces without a byte keep coming.
      expect((await endless(0, { timeout: 50 })).error).toMatchObject({ code: "TIMEOUT" });
      const reason = new Error("enough");
      expect((await endless(0, { signal: AbortSignal.abort(reason) })).error).toBe(reason);
    });
  });

  test("an expired cursor is reported with the way on", async () => {
    const problem = { code: "CURSOR_EXPIRED", title: "t", detail: "d", requestId: "r", resumeCursor: "next" };
    const headers = { "Content-Type": "application/problem+json", "X-Request-Id": "r" };
    const client = answered([JSON.stringify(problem), headers, 410]);
    const told = { message: "d", title: "t", requestId: "r", resumeCursor: "next" };
    await expect(pagesOf(client)).rejects.toMatchObject({ name: "ApiError", status: 410, ...told });
  });
});
