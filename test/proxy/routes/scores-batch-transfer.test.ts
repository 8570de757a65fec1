import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { answersIn, headerOf } from "../../helpers/attack/wire.ts";
import { type FaultyOrigin, startOriginOf } from "../../helpers/http/faulty-origin.ts";
import { startTestProxy, type TestProxy } from "../../helpers/http/proxy.ts";
import { open, outcome, type RawConnection, until } from "../../helpers/http/proxy-client.ts";

const batch = "/api/v1/scores/batch";
const body = JSON.stringify({ slugs: ["aave", "none"] });
const chunked = "Transfer-Encoding: chunked";
const sized = (length = body.length) => `Content-Length: ${length}`;
const expecting = "Expect: 100-continue";

let proxy: TestProxy;
/** The same, but it waits for no request longer than a second. */
let hurried: TestProxy;
let origin: FaultyOrigin;
let before: number;
beforeAll(async () => {
  origin = await startOriginOf(() => proxy.storage);
  proxy = await startTestProxy({ publicOrigin: origin.url });
  hurried = await proxy.another({ limits: { headSeconds: 1, requestSeconds: 1 } });
});
beforeEach(async () => {
  before = await left();
  proxy.logged.length = 0;
  origin.requests.length = 0;
});
afterAll(async () => {
  await hurried.stop();
  await proxy.stop();
  await origin.stop();
});

const head = (field: string, ...more: string[]) =>
  [`POST ${batch} HTTP/1.1`, "Host: x", "Content-Type: application/json", field, ...more, "", ""].join(
    "\r\n",
  );
const next = "GET /api/v1/scores/lido-dao HTTP/1.1\r\nHost: x\r\n\r\n";

function send(bytes: string, { port } = proxy): RawConnection {
  const opened = open(port, bytes);
  onTestFinished(() => void opened.socket.destroy());
  return opened;
}

/** Status and code, or count, of every answer of a connection. */
const told = (received: string) =>
  answersIn(received).map(({ status, text }) => {
    if (text === "") return String(status);
    const { code, count, slug } = JSON.parse(text);
    return `${status} ${code ?? count ?? slug}`;
  });
const left = async () => (await proxy.get("/api/v1/usage")).json().remaining;

describe("a body that comes in parts", () => {
  test.each([
    ["byte by byte", [head(sized()), ...body]],
    ["cut within its head", [head(sized()).slice(0, 30), head(sized()).slice(30) + body]],
    ["in chunks", [head(chunked), ...[...body].map((byte) => `1\r\n${byte}\r\n`), "0\r\n\r\n"]],
    [
      "in chunks with a trailer",
      [`${head(chunked)}5;x=y\r\n${body.slice(0, 5)}\r\n`, lastChunk(body.slice(5))],
    ],
  ])("%s is read to its end", async (_how, parts) => {
    const { socket, closed } = send("");
    for (const part of parts) await new Promise((written) => socket.write(part, written));
    expect(told(await closed)).toEqual(["200 1"]);
  });

  test("may have 16 KiB in chunks and no byte more", async () => {
    const padded = (bytes: number) =>
      proxy.get(batch, {
        method: "POST",
        headers: { "content-type": "application/json", "transfer-encoding": "chunked" },
        body: body.padEnd(bytes),
      });
    expect(outcome(await padded(16 * 1024))).toBe("200");
    const answer = await padded(16 * 1024 + 1);
    expect([outcome(answer), answer.headers.connection]).toEqual(["413 BODY_TOO_LARGE", "close"]);
  });

  test("that drips is cut off in time, with 408, and keeps its unit", async () => {
    const { socket, closed } = send(head(sized(100_000)), hurried);
    const drip = setInterval(() => socket.writable && socket.write(" "), 20);
    const received = await closed;
    clearInterval(drip);
    expect(told(received)).toEqual(["408 REQUEST_TIMEOUT"]);
    expect(headerOf(answersIn(received)[0]!, "x-ratelimit-remaining")).toBe(`${before - 1}`);
    expect(await left()).toBe(before - 1);
  });

  test("that stops or never begins is answered 408, in the one shape, and the connection ends", async () => {
    const begun = [head(sized()) + body.slice(0, 5), head(sized()), `${head(chunked)}1\r\n{\r\n`];
    for (const received of await Promise.all(begun.map((bytes) => send(bytes, hurried).closed))) {
      expect(told(received)).toEqual(["408 REQUEST_TIMEOUT"]);
      const [answer] = answersIn(received);
      expect(headerOf(answer!, "connection")).toBe("close");
      expect(headerOf(answer!, "access-control-allow-origin")).toBe("*");
      expect(headerOf(answer!, "content-type")).toBe("application/problem+json");
    }
  });

  test("of 2 MB is answered 413 also for a client that reads nothing before it has written all", async () => {
    const { socket, closed } = send(head(sized(2_000_000)));
    socket.pause();
    for (let sent = 0; sent < 2_000_000; sent += 50_000)
      await new Promise((written) => socket.write(Buffer.alloc(50_000, " "), written));
    socket.resume();
    expect(told(await closed)).toEqual(["413 BODY_TOO_LARGE"]);
  });

  test.each([
    ["half way", head(sized()) + body.slice(0, 5)],
    ["before it began", head(sized(), expecting)],
  ])("whose client goes away %s leaves nothing behind", async (_when, bytes) => {
    const sent = send(bytes);
    await until("the batch's unit to be taken", async () => (await left()) === before - 1);
    if (bytes.includes(expecting)) await until("100 Continue", () => sent.received.includes("100 Continue"));
    sent.socket.resetAndDestroy();
    await proxy.logs(batch);
    expect(origin.requests).toEqual([]);
    expect(outcome(await proxy.get("/api/v1/scores/aave"))).toBe("200");
    expect(proxy.logged.filter((line) => /"level":[56]0/.test(line))).toEqual([]);
  });
});

function lastChunk(rest: string): string {
  return `${rest.length.toString(16).toUpperCase()}\r\n${rest}\r\n0\r\nX-Api-Key: late\r\n\r\n`;
}

describe("a body that is asked for", () => {
  test("comes after 100 Continue", async () => {
    const sent = send(head(sized(), expecting));
    await until("the head of the answer", () => sent.received.includes("\r\n\r\n"));
    expect(sent.received).toBe("HTTP/1.1 100 Continue\r\n\r\n");
    sent.socket.write(body);
    expect(told(await sent.closed)).toEqual(["100", "200 1"]);
  });

  test("is not asked for once the quota is spent", async () => {
    const key = await proxy.issue({ quota: 1 });
    const bytes = head(sized(), expecting, `X-Api-Key: ${key}`);
    expect(told(await send(bytes + body).closed)).toEqual(["100", "200 1"]);
    expect(told(await send(bytes).closed)).toEqual(["429 QUOTA_EXCEEDED"]);
  });
});

// What is wrong before a body is asked for is in test/proxy/corpus.txt.
const old = head(sized(), expecting).replace("HTTP/1.1", "HTTP/1.0");
test.each<[what: string, bytes: string, units: number, ...told: string[]]>([
  ["that is never asked for of HTTP/1.0, which does not know of that,", old + body, 1, "200 1"],
  ["of a length, whatever follows,", head(sized()) + body + next + next, 1, "200 1"],
  ["in chunks, whatever follows,", head(chunked) + lastChunk(body) + next, 1, "200 1"],
  ["that is refused, whatever follows,", `${head(sized(2))}[]${next}`, 1, "400 INVALID_BODY"],
  ["that smuggles a request", head(sized(next.length)) + next, 1, "400 INVALID_BODY"],
  ["behind another request", next + head(sized()) + body, 2, "200 lido-dao", "200 1"],
])("a body %s is answered, and counted", async (_what, bytes, units, ...expected) => {
  const received = await send(bytes).closed;
  expect(told(received)).toEqual(expected);
  expect(headerOf(answersIn(received).at(-1)!, "connection")).toBe("close");
  expect(await left()).toBe(before - units);
});

test("a body behind other requests is read when its turn comes, also when it comes later", async () => {
  const sent = send(next + next + head(sized()));
  await until("the second answer", () => sent.received.split('"slug":"lido-dao"').length > 2);
  sent.socket.write(body);
  expect(told(await sent.closed)).toEqual(["200 lido-dao", "200 lido-dao", "200 1"]);
});

test("a batch goes on while the origin is away, since its records come from the store", async () => {
  origin.behave = (socket) => socket.resetAndDestroy();
  const answer = await proxy.get(batch, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ slugs: ["aave", "aave", "../../secret", "lido-dao"] }),
  });
  expect([outcome(answer), answer.json().count, origin.requests]).toEqual(["200", 2, []]);
});
