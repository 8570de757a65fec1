import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { expect, onTestFinished, test, vi } from "vitest";
import { type FaultyOrigin, good, startOriginOf } from "../../helpers/http/faulty-origin.ts";
import { takenUp } from "../../helpers/http/live-feed.ts";
import { patient, startTestProxy, type TestProxy } from "../../helpers/http/proxy.ts";
import { outcome, until } from "../../helpers/http/proxy-client.ts";
import { bookOf, publishBook } from "../../helpers/publish/score-books.ts";
import { bytesInUse } from "../../helpers/servers/memory.ts";

const [clients, rounds] = [200, 7];
// The connections that the proxy opens to an origin, those of them that it keeps, and more records than either.
const [connections, kept, protocols] = [64, 16, 150];
const list = "/api/v1/scores";
const slugOf = (n: number) => `protocol-${n % protocols}`;

/** Sockets of this process, which has both ends of every connection. */
const sockets = () => process.getActiveResourcesInfo().filter((kind) => kind === "TCPSocketWrap").length;

test(`of ${clients} clients that go away again and again, amid their answers or unanswered, nothing stays`, async () => {
  const origin: FaultyOrigin = await startOriginOf(() => proxy.storage);
  onTestFinished(origin.stop);
  // It keeps no answer, so that every score needs the origin. Only this test lets its deadline pass.
  const limits = { originSeconds: patient.originSeconds / 2 };
  const how = { empty: true, publicOrigin: origin.url, logLevel: "silent", cacheBytes: 8, limits } as const;
  const proxy: TestProxy = await startTestProxy(how);
  onTestFinished(proxy.stop);
  const bris = Array.from({ length: protocols }, (_, n) => [slugOf(n), 500]);
  await takenUp(proxy, await publishBook(proxy.storage, bookOf(Object.fromEntries(bris)), { markets: 60 }));
  const key = await proxy.issue({ quota: 1_000_000 });
  const head = (path: string) => `GET ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\n\r\n`;
  const page = head("/api/v1/markets/historical?pageSize=60");
  const whole = (await proxy.raw(page.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"))).length;
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());

  /** A client goes away, politely or not, amid a page or once every connection to the origin is taken. */
  async function leave(client: number, taken: Promise<void>): Promise<void> {
    const socket = connect(proxy.port, "127.0.0.1");
    // More than there are connections ask for a score.
    const unanswered = client % 4 < 2;
    socket.write(unanswered ? head(`${list}/${slugOf(client)}`) : page);
    if (unanswered) await taken;
    else {
      const [first] = await once(socket, "data");
      expect(first.toString()).toMatch(/^HTTP\/1\.1 200 /);
      expect(first.length).toBeLessThan(whole);
    }
    const closed = once(socket, "close");
    if (client % 2) socket.destroy();
    else socket.resetAndDestroy();
    await closed;
  }

  async function round(): Promise<void> {
    const owed: { socket: Socket; answer: () => void }[] = [];
    origin.behave = (socket, body, target) => owed.push({ socket, answer: () => good(socket, body, target) });
    // A request of the round before may arrive here after its client went away.
    const open = () => owed.filter(({ socket }) => !socket.destroyed).length;
    const taken = until("every connection to the origin to be taken", () => open() === connections);
    await Promise.all(Array.from({ length: clients }, (_, client) => leave(client, taken)));
    // Those that wait for a connection are answered as soon as they have one.
    origin.behave = good;
    const [answered, never] = [0, 1].map((half) => owed.filter((_, place) => place % 2 === half));
    for (const { answer } of answered!) answer();
    vi.advanceTimersByTime(limits.originSeconds * 1000);
    // Had one of them kept its connection or its place in the queue, the pool would be smaller for ever.
    await until("the connections that are not answered to be destroyed", () =>
      never!.every(({ socket }) => socket.destroyed),
    );
    // After so many failures the origin is left alone for a second.
    await until("the proxy to answer again", async () => (await proxy.get(list)).status === 200);
  }

  const socketsBefore = sockets();
  const inUse: number[] = [];
  for (let count = 0; count < rounds; count += 1) {
    await round();
    await until(
      "every connection and socket to be given back",
      async () => (await proxy.measured("http_connections")) === 0 && sockets() <= socketsBefore + 2 * kept,
    );
    origin.requests.length = 0;
    // The first rounds warm up the engine.
    if (count >= 2) inUse.push(await bytesInUse());
  }
  // What stays of a client is added by every round, and what the engine keeps for itself only by some. A kilobyte of
  // each client would be twice as much.
  const added = inUse.slice(1).map((bytes, place) => bytes - (inUse[place] ?? 0));
  expect(Math.min(...added)).toBeLessThan((clients * 1024) / 2);
  expect(outcome(await proxy.get(list))).toBe("200");
});
