import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { answerOf, answersIn } from "../../helpers/attack/wire.ts";
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
let before: number;
beforeAll(async () => {
  proxy = await startTestProxy();
  hurried = await proxy.another({ limits: { headSeconds: 1, requestSeconds: 1 } });
});
beforeEach(async () => {
  before = await left();
  proxy.logged.length = 0;
});
afterAll(async () => {
  await hurried.stop();
  await proxy.stop();
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
  test("byte by byte, or in chunks of one, is read to its end", async () => {
    const chunks = [...body].map((byte) => `1\r\n${byte}\r\n`);
    for (const parts of [
      [head(sized()), ...body],
      [head(chunked), ...chunks, "0\r\n\r\n"],
    ]) {
      const { socket, closed } = send("");
      for (const part of parts) await new Promise((written) => socket.write(part, written));
      expect(told(await closed)).toEqual(["200 1"]);
    }
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

  test("that drips, stops or never begins is cut off in time, with 408 in the one shape, and keeps its unit", async () => {
    const dripping = send(head(sized(100_000)), hurried);
    const drip = setInterval(() => dripping.socket.writable && dripping.socket.write(" "), 20);
    const begun = [head(sized()) + body.slice(0, 5), head(sized()), `${head(chunked)}1\r\n{\r\n`];
    for (const { closed } of [dripping, ...begun.map((bytes) => send(bytes, hurried))]) {
      const [answer, ...others] = answersIn(await closed).map(answerOf);
      expect([outcome(answer!), others]).toEqual(["408 REQUEST_TIMEOUT", []]);
      expect(answer!.headers).toMatchObject({ connection: "close", "access-control-allow-origin": "*" });
    }
    clearInterval(drip);
    expect(await left()).toBe(before - 4);
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
    expect(outcome(await proxy.get("/api/v1/scores/aave"))).toBe("200");
    expect(proxy.logged.filter((line) => /"level":[56]0/.test(line))).toEqual([]);
  });
});

test("a body that is asked for comes after 100 Continue", async () => {
  const sent = send(head(sized(), expecting));
  await until("the head of the answer", () => sent.received.includes("\r\n\r\n"));
  expect(sent.received).toBe("HTTP/1.1 100 Continue\r\n\r\n");
  sent.socket.write(body);
  expect(told(await sent.closed)).toEqual(["100", "200 1"]);
});

// What is wrong before a body is asked for, and what follows one, is in test/proxy/corpus.txt.
test("a body behind other requests is read when its turn comes, also when it comes later", async () => {
  const sent = send(next + next + head(sized()));
  await until("the second answer", () => sent.received.split('"slug":"lido-dao"').length > 2);
  sent.socket.write(body);
  expect(told(await sent.closed)).toEqual(["200 lido-dao", "200 lido-dao", "200 1"]);
});
