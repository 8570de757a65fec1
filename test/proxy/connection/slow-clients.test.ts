import type { Socket } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import type { Limits } from "../../../proxy/config.ts";
import { startTestProxy, type TestProxy, type TestProxyOptions } from "../../helpers/http/proxy.ts";
import { bearer, open, type RawConnection, until } from "../../helpers/http/proxy-client.ts";

const archive = "/api/v1/markets/historical?pageSize=500";
const list = "/api/v1/scores";

let proxy: TestProxy;
const start = async (limits: Partial<Limits>, options: TestProxyOptions = {}) => {
  proxy = await startTestProxy({ ...options, limits, trustProxy: { hops: 1 } });
  onTestFinished(proxy.stop);
};

/** Opens a connection and sends the beginning of something. */
function begin(bytes: string): RawConnection {
  const opened = open(proxy.port, bytes);
  onTestFinished(() => void opened.socket.destroy());
  return opened;
}

const many = <T>(count: number, make: (index: number) => T) =>
  Array.from({ length: count }, (_, i) => make(i));
/** Others are answered too; one whose own head or answer waits for a busy machine is cut off and asks again. */
const othersAreAnswered = () =>
  until("another client to be answered", () =>
    proxy.get(list).then(
      ({ status }) => status === 200,
      () => false,
    ),
  );
const head = (path: string, ...fields: string[]) =>
  `GET ${path} HTTP/1.1\r\nHost: x\r\n${fields.map((field) => `${field}\r\n`).join("")}\r\n`;

describe("slow clients", () => {
  test("500 that never end their heads are cut off, with 408, while others are answered", async () => {
    await start({ headSeconds: 1, requestSeconds: 2 });
    const halves = many(500, (index) => begin(`GET ${list} HTTP/1.1\r\nHost: x\r\nX-Half: ${index}`));
    for (const _ of many(20, String)) await othersAreAnswered();
    const answers = await Promise.all(halves.map(({ closed }) => closed));
    for (const answer of answers) expect(answer).toMatch(/^HTTP\/1\.1 408 .*"code":"REQUEST_TIMEOUT"/s);
    await othersAreAnswered();
  });

  test("one that adds a header field now and then is cut off all the same", async () => {
    await start({ headSeconds: 1, requestSeconds: 2 });
    const { socket, closed } = begin(`GET ${list} HTTP/1.1\r\nHost: x\r\n`);
    const drip = setInterval(() => socket.writable && socket.write("X-Drip: 1\r\n"), 50);
    expect(await closed).toMatch(/^HTTP\/1\.1 408 /);
    clearInterval(drip);
  });

  test("50 that announce a body and never send it hold nothing: they are answered and closed", async () => {
    await start({});
    const slow = many(50, () => begin(`POST ${list} HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n{`));
    for (const { closed } of slow) expect(await closed).toMatch(/^HTTP\/1\.1 405 .*Connection: close/s);
  });

  const readers: [string, Partial<Limits>][] = [
    ["nothing moves for a while", { stalledSeconds: 1 }],
    ["the answer is not taken in time, whatever moves", { sendSeconds: 1 }],
  ];
  test.each(readers)("40 that do not read their answers are cut off when %s", async (_when, limits) => {
    await start(limits, { markets: 500 });
    const key = await proxy.issue();
    // Far more than the buffers of both ends hold.
    const requests = head(archive, `x-api-key: ${key}`).repeat(17);
    const slow = many(40, () => begin(requests));
    for (const { socket } of slow) socket.pause();
    for (const _ of many(10, String)) await othersAreAnswered();
    // Under load one may be cut off before its request was read, so answers broken off are not counted one by one.
    await until("the last connection to close", async () => (await proxy.measured("http_connections")) === 0);
    expect(proxy.logged.some((line) => line.includes("aborted"))).toBe(true);
    for (const { socket, closed } of slow) {
      socket.resume();
      await closed;
    }
    await until("a whole page", () =>
      proxy.get(archive, { headers: bearer(key) }).then(
        (page) => page.json().count === 500,
        () => false,
      ),
    );
  });
});

test("connections beyond the limit are turned away; those that were idle for longest make room before", async () => {
  await start({ connections: 20 }, { keepAliveSeconds: 620 });
  const answered = ({ socket }: { socket: Socket }, bytes = 0) =>
    until("an answer", () => socket.bytesRead > bytes);
  const idle = many(10, () => begin(head("/healthz")));
  for (const each of idle) await answered(each);
  const { socket, closed } = idle[0]!;
  const before = socket.bytesRead;
  socket.write(head("/healthz"));
  await answered(idle[0]!, before);
  const turnedAway = () => proxy.measured("http_connections_dropped_total");
  const busy: RawConnection[] = [];
  for (const _ of many(19, String)) {
    const one = begin(`GET ${list} HTTP/1.1\r\n`);
    await until("a connection to be made", () => !one.socket.connecting);
    busy.push(one);
    // The tenth is the twentieth in all. From then on there is always room for one more.
    const ended = Math.max(0, busy.length - 9);
    for (const { closed } of idle.slice(1, 1 + ended)) expect(await closed).toMatch(/^HTTP\/1\.1 200 /);
    if (ended < 10) expect(socket.closed).toBe(false);
  }
  expect(await closed).toMatch(/^keep-alive: timeout=620\r$/im);
  expect(await turnedAway()).toBe(0);
  busy.push(begin(`GET ${list} HTTP/1.1\r\n`));
  await until("the last connection to be made", () => !busy.at(-1)!.socket.connecting);
  expect(await begin(head("/healthz")).closed).toBe("");
  expect(await turnedAway()).toBe(1);
  for (const { socket } of busy) socket.write(`Host: x\r\nConnection: close\r\n\r\n`);
  for (const { closed } of busy) expect(await closed).toMatch(/^HTTP\/1\.1 200 /);
});
