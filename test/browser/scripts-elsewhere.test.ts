import { createServer, type Server } from "node:http";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { FeedMessage, type ScoreChange } from "../../schemas/rooms/feed.ts";
import { connections, feedPath, hello, startFeedProxy } from "../helpers/http/live-feed.ts";
import { startTestProxy, type TestProxy } from "../helpers/http/proxy.ts";
import { bearer, until } from "../helpers/http/proxy-client.ts";
import { bookOf, changesBetween, publishBook } from "../helpers/publish/score-books.ts";
import { findChromium, launch } from "../helpers/servers/chromium.ts";
import { listenLocally } from "../helpers/servers/programs.ts";

const program = findChromium();

describe.skipIf(!program)("a script in a page of another site in Chromium", () => {
  let site: Server;
  let browser: Browser;
  let page: Page;
  let proxy: TestProxy;
  beforeAll(async () => {
    site = createServer((_request, response) => {
      response.setHeader("Content-Type", "text/html");
      response.end("<!doctype html><title>A dashboard</title>");
    });
    const port = await listenLocally(site);
    proxy = await startTestProxy({ markets: 200 });
    browser = await launch(program!);
    page = await browser.newPage();
    // Another host name beside another port.
    await page.goto(`http://localhost:${port}/`);
  });
  afterAll(async () => {
    await browser?.close();
    site?.closeAllConnections();
    site?.close();
    await proxy?.stop();
  });

  describe("asks for scores:", () => {
    let key: string;
    beforeAll(async () => {
      key = await proxy.issue({ plan: "developer" });
    });

    /** What a script of the page may see of an answer; `blocked` when the browser keeps it to itself. */
    const ask = (path: string, how: { method?: string; headers?: Record<string, string>; body?: string }) =>
      page.evaluate(
        async ({ url, init, names }) => {
          try {
            const answer = await fetch(url, init);
            const headers = Object.fromEntries(names.map((name) => [name, answer.headers.get(name)]));
            return { status: answer.status, headers, json: await answer.json() };
          } catch {
            return "blocked";
          }
        },
        { url: `http://127.0.0.1:${proxy.port}${path}`, init: how, names: exposed },
      );
    const exposed = ["x-ratelimit-remaining", "ratelimit", "x-snapshot-id", "x-request-id"];
    const json = { "content-type": "application/json" };
    const batch = "/api/v1/scores/batch";
    const body = JSON.stringify({ slugs: ["aave", "none"] });
    const preflights = () => proxy.logged.filter((line) => line.includes('"OPTIONS"')).length;

    test("a batch is asked for after a preflight, which is not metered, and read with its headers", async () => {
      const before = preflights();
      const how = { method: "POST", headers: { ...json, ...bearer(key) }, body };
      const expected = await proxy.get(batch, how);
      expect(await ask(batch, how)).toEqual({
        status: 200,
        json: expected.json(),
        headers: {
          "x-ratelimit-remaining": "49998",
          ratelimit: expect.stringContaining(";r=49998;"),
          "x-snapshot-id": expected.headers["x-snapshot-id"],
          "x-request-id": expect.stringMatching(/^[0-9a-f-]{36}$/),
        },
      });
      expect(preflights()).toBe(before + 1);
    });

    test("so are refusals, of the body and of the key", async () => {
      for (const [headers, sent, status, code] of [
        [json, "{}", 400, "INVALID_BODY"],
        [{ ...json, "x-api-key": "no" }, body, 401, "INVALID_API_KEY"],
        [json, body.padEnd(2_000_000), 413, "BODY_TOO_LARGE"],
        // No preflight: a form's type.
        [{ "content-type": "text/plain" }, body, 415, "UNSUPPORTED_MEDIA_TYPE"],
      ] as const)
        expect(await ask(batch, { method: "POST", headers, body: sent })).toMatchObject({
          status,
          json: { code },
        });
    });

    test("history and dimensions are read with a key", async () => {
      for (const kind of ["history", "dimensions"]) {
        const answer = await ask(`/api/v1/scores/aave/${kind}`, { headers: { "x-api-key": key } });
        expect(answer).toMatchObject({ status: 200, json: { slug: "aave" } });
      }
    });

    test("and whatever programs in pages send along", async () => {
      const sent = {
        ...{
          "if-modified-since": new Date(0).toUTCString(),
          "cache-control": "no-cache",
          pragma: "no-cache",
        },
        ...{ "x-requested-with": "XMLHttpRequest", traceparent: `00-${"1".repeat(32)}-${"2".repeat(16)}-01` },
        ...{ range: "bytes=-8", "if-range": '"x"', "delta-sharing-capabilities": "responseformat=parquet" },
      };
      for (const [path, status] of [
        ["/api/v1/scores", 200],
        ["/openapi.json", 200],
        ["/readyz", 200],
        ["/delta-sharing/shares", 401],
      ] as const)
        expect(await ask(path, { headers: sent })).toMatchObject({ status });
      const headers = { ...bearer(key), ...json, "mcp-protocol-version": "2025-11-25" };
      const message = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list", params: {} });
      expect(await ask("/mcp", { method: "POST", headers, body: message })).toMatchObject({
        status: 200,
        json: { result: { tools: expect.any(Array) } },
      });
    });

    test("what the preflight does not allow, the browser does not send", async () => {
      const headers = { ...json, "x-other": "1" };
      expect(await ask(batch, { method: "POST", headers, body })).toBe("blocked");
      expect(await ask(batch, { method: "PUT", headers: json, body })).toBe("blocked");
    });
  });

  describe("opens the feed:", () => {
    const Feed = z.object({ protocol: z.string(), heard: z.array(z.string()), events: z.array(z.string()) });
    const books = [
      bookOf({ aave: 500, lido: 700 }),
      bookOf({ aave: 501, lido: 700, maker: 1 }),
      bookOf({ lido: 702, maker: 1 }),
    ] as const;

    let feedProxy: TestProxy;
    let first: string;
    let key: string;
    beforeAll(async () => {
      ({ proxy: feedProxy, first, key } = await startFeedProxy(books[0], { pollSeconds: 0.1 }));
    });
    afterAll(() => feedProxy?.stop());

    /** Opens the feed in the page, under a name there. */
    const open = (name: string, protocols: string[]) => {
      const address = `ws://127.0.0.1:${feedProxy.port}${feedPath}`;
      return page.evaluate(`{
      const socket = new WebSocket(${JSON.stringify(address)}, ${JSON.stringify(protocols)});
      const feed = { protocol: "", heard: [], events: [] };
      socket.onopen = () => { feed.protocol = socket.protocol; feed.events.push("open"); };
      socket.onmessage = ({ data }) => feed.heard.push(data);
      socket.onerror = () => feed.events.push("error");
      socket.onclose = ({ code, reason }) => feed.events.push("close " + code + reason);
      window.${name} = { feed, socket };
      undefined;
    }`);
    };
    const feed = async (name: string) => Feed.parse(await page.evaluate(`window.${name}.feed`));
    const heard = async (name: string) =>
      (await feed(name)).heard.map((text) => FeedMessage.parse(JSON.parse(text)));

    test("with its key as a subprotocol, and hears each change of two quick publishes once", async () => {
      await open("one", ["scores.v1", `bearer.${key}`]);
      await until("the page to hear the hello", async () => (await heard("one")).length === 1);
      expect(await feed("one")).toMatchObject({ protocol: "scores.v1", events: ["open"] });
      const changes: ScoreChange[] = [];
      for (const place of [0, 1]) {
        const [before, after] = [books[place]!, books[place + 1]!];
        await publishBook(feedProxy.storage, after);
        changes.push(...(await changesBetween(feedProxy.storage, before, after)));
      }
      expect(changes.map(({ type, slug }) => `${type} ${slug}`)).toEqual([
        ...["score.changed aave", "score.added maker"],
        ...["score.removed aave", "score.changed lido"],
      ]);
      await until(
        "the page to hear every change",
        async () => (await heard("one")).length >= 1 + changes.length,
      );
      await page.evaluate(`window.one.socket.send(JSON.stringify({ type: "subscribe", slugs: ["maker"] }))`);
      await page.evaluate(`window.one.socket.send("{")`);
      await until(
        "the page to hear one more message",
        async () => (await heard("one")).length >= 2 + changes.length,
      );
      const invalid = { type: "error", code: "INVALID_MESSAGE" };
      expect(await heard("one")).toEqual([hello(first), ...changes, invalid]);
      await page.evaluate("window.one.socket.close(1000)");
      await until("the page's feed to be closed", async () => (await feed("one")).events.length === 2);
      expect((await feed("one")).events).toEqual(["open", "close 1000"]);
      await until("the proxy to count no connection", async () => (await connections(feedProxy)) === 0);
    });
  });
});
