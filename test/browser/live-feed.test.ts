import { createServer, type Server } from "node:http";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { FeedMessage, type ScoreChange } from "../../schemas/rooms/feed.ts";
import { connections, feedPath, hello, startFeedProxy } from "../helpers/http/live-feed.ts";
import type { TestProxy } from "../helpers/http/proxy.ts";
import { until } from "../helpers/http/proxy-client.ts";
import { bookOf, changesBetween, publishBook } from "../helpers/publish/score-books.ts";
import { findChromium, launch } from "../helpers/servers/chromium.ts";
import { listenLocally } from "../helpers/servers/programs.ts";

const chromium = findChromium();
const Feed = z.object({ protocol: z.string(), heard: z.array(z.string()), events: z.array(z.string()) });

describe.skipIf(!chromium)("a page of another origin in Chromium", () => {
  let proxy: TestProxy;
  let first: string;
  let key: string;
  let site: Server;
  let browser: Browser;
  let page: Page;
  const books = [
    bookOf({ aave: 500, lido: 700 }),
    bookOf({ aave: 501, lido: 700, maker: 1 }),
    bookOf({ lido: 702, maker: 1 }),
  ] as const;

  beforeAll(async () => {
    ({ proxy, first, key } = await startFeedProxy(books[0], { pollSeconds: 0.1 }));
    site = createServer((_request, response) => response.end("<!doctype html><title>A dashboard</title>"));
    const port = await listenLocally(site);
    browser = await launch(chromium!);
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

  /** Opens the feed in the page, under a name there. */
  const open = (name: string, protocols: string[]) => {
    const address = `ws://127.0.0.1:${proxy.port}${feedPath}`;
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

  test("opens the feed with its key as a subprotocol, and hears each change of two quick publishes once", async () => {
    await open("one", ["scores.v1", `bearer.${key}`]);
    await until("the page to hear the hello", async () => (await heard("one")).length === 1);
    expect(await feed("one")).toMatchObject({ protocol: "scores.v1", events: ["open"] });
    const changes: ScoreChange[] = [];
    for (const place of [0, 1]) {
      const [before, after] = [books[place]!, books[place + 1]!];
      await publishBook(proxy.storage, after);
      changes.push(...(await changesBetween(proxy.storage, before, after)));
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
    await until("the proxy to count no connection", async () => (await connections(proxy)) === 0);
  });

  test.each([
    ["a wrong key", () => ["scores.v1", `bearer.${key.slice(0, -1)}`]],
    ["no key", () => ["scores.v1"]],
    ["no subprotocol of the feed", () => [`bearer.${key}`]],
  ])("does not get in with %s, and is told once that it failed", async (_what, protocols) => {
    await open("other", protocols());
    await until("the other page's feed to be closed", async () => (await feed("other")).events.length >= 2);
    expect(await feed("other")).toEqual({ protocol: "", heard: [], events: ["error", "close 1006"] });
    await until("the proxy to count no connection", async () => (await connections(proxy)) === 0);
  });
});
