import { createServer } from "node:http";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { bearer } from "../helpers/http/proxy-client.ts";
import { findChromium } from "../helpers/servers/chromium.ts";
import { listenLocally } from "../helpers/servers/programs.ts";
import { serveSmallSite } from "../helpers/servers/site-served.ts";

const program = findChromium();

describe.skipIf(!program)("a script in a page of another site in Chromium", () => {
  const site = serveSmallSite();
  const elsewhere = createServer((_request, response) => {
    response.setHeader("Content-Type", "text/html");
    response.end("<!doctype html><title>A dashboard</title>");
  });
  let page: Page;
  let key: string;
  beforeAll(async () => {
    key = await site.proxy.issue({ plan: "developer" });
    page = await site.browser.newPage();
    // Another host name beside another port.
    await page.goto(`http://localhost:${await listenLocally(elsewhere)}/`);
  });
  afterAll(() => elsewhere.close().closeAllConnections());

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
      { url: `http://127.0.0.1:${site.proxy.port}${path}`, init: how, names: exposed },
    );
  const exposed = ["x-ratelimit-remaining", "ratelimit", "x-snapshot-id", "x-request-id"];
  const json = { "content-type": "application/json" };
  const batch = "/api/v1/scores/batch";
  const body = JSON.stringify({ slugs: ["aave", "none"] });
  const preflights = () => site.proxy.logged.filter((line) => line.includes('"OPTIONS"')).length;

  test("a batch is asked for after a preflight, which is not metered, and read with its headers", async () => {
    const before = preflights();
    const how = { method: "POST", headers: { ...json, ...bearer(key) }, body };
    const expected = await site.proxy.get(batch, how);
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
