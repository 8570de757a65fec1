import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { afterEach, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { directoryStorage } from "../../../snapshots/store/backends/directory.ts";
import { type FaultyOrigin, good, startOriginOf } from "../../helpers/http/faulty-origin.ts";
import { patient, startTestProxy, type TestProxy, type TestProxyOptions } from "../../helpers/http/proxy.ts";
import { outcome, until } from "../../helpers/http/proxy-client.ts";
import { bookOf, publishBook } from "../../helpers/publish/score-books.ts";
import { bytesInUse } from "../../helpers/servers/bytes-in-use.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";

const [clients, rounds] = [200, 5];
// The connections that the proxy opens to an origin, those of them that it keeps, and more records than either.
const [connections, kept, protocols] = [64, 16, 150];
const folder = testFolder();
const store = join(folder, "store");
const list = "/api/v1/scores";

let proxy: TestProxy;
let origin: FaultyOrigin;
let key: string;
beforeAll(async () => {
  const bris = Object.fromEntries(Array.from({ length: protocols }, (_, n) => [`protocol-${n}`, 500]));
  await publishBook(directoryStorage(store), bookOf(bris), { markets: 60 });
});
afterEach(() => void vi.useRealTimers());

async function start(options: TestProxyOptions): Promise<void> {
  origin = await startOriginOf(() => proxy.storage);
  onTestFinished(origin.stop);
  const usual = { empty: true, snapshotStore: store, publicOrigin: origin.url, logLevel: "silent" } as const;
  proxy = await startTestProxy({ ...options, ...usual });
  onTestFinished(proxy.stop);
  key = await proxy.issue({ quota: 1_000_000 });
}

const head = (path: string) => `GET ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\n\r\n`;

/** Every client sends requests and goes away, politely or not, once `enough` settles. */
async function allLeave(heads: (client: number) => string, enough: (socket: Socket) => Promise<unknown>) {
  const leave = async (_: unknown, client: number) => {
    const socket = connect(proxy.port, "127.0.0.1");
    socket.write(heads(client));
    await enough(socket);
    const closed = once(socket, "close");
    if (client % 2) socket.destroy();
    else socket.resetAndDestroy();
    await closed;
  };
  await Promise.all(Array.from({ length: clients }, leave));
}

/** Sockets of this process, which has both ends of every connection. */
const sockets = () => process.getActiveResourcesInfo().filter((kind) => kind === "TCPSocketWrap").length;

/** Runs a round again and again: no connection and no memory stays of it, and the proxy goes on. */
async function nothingStays(round: () => Promise<void>): Promise<void> {
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
  const added = inUse.slice(1).map((bytes, round) => bytes - (inUse[round] ?? 0));
  expect(Math.min(...added)).toBeLessThan((clients * 1024) / 2);
  expect(outcome(await proxy.get(list))).toBe("200");
}

/** Starts a proxy that keeps no answer: every request needs the origin. Only a test lets its deadline pass. */
async function startForgetful() {
  const originSeconds = patient.originSeconds / 2;
  await start({ cacheBytes: 8, limits: { originSeconds } });
  const slugs: string[] = (await proxy.get(list)).json().scores.map((row: { slug: string }) => row.slug);
  expect(slugs).toHaveLength(protocols);
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  return { slugs, passDeadline: () => vi.advanceTimersByTime(originSeconds * 1000) };
}

test("fetches that the origin leaves hanging, or that wait for a free connection, end with their deadline", async () => {
  const { slugs, passDeadline } = await startForgetful();
  origin.behave = () => {};
  const asked = connections + 10;
  const waiting = slugs.slice(0, asked).map((slug) => proxy.as(key)(`${list}/${slug}`));
  const left = 1_000_000 - asked;
  await until("all to wait", async () => (await proxy.left(key)) === left && origin.open() === connections);
  passDeadline();
  expect(new Set((await Promise.all(waiting)).map(outcome))).toEqual(new Set(["504 UPSTREAM_TIMEOUT"]));
  // Had one of them kept its connection or its place in the queue, the pool would be smaller for ever.
  await until("the connections to the origin to be destroyed", () => origin.open() === 0);
});

describe(`${clients} clients that go away again and again`, () => {
  test("in the middle of their answers", async () => {
    await start({});
    const request = head("/api/v1/markets/historical?pageSize=60");
    const whole = (await proxy.raw(request.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"))).length;
    await nothingStays(() =>
      allLeave(
        () => request,
        async (socket) => {
          const [first] = await once(socket, "data");
          expect(first.toString()).toMatch(/^HTTP\/1\.1 200 /);
          expect(first.length).toBeLessThan(whole);
        },
      ),
    );
  });

  test("unanswered, every connection to the origin taken, of which half are answered and half never", async () => {
    const { slugs, passDeadline } = await startForgetful();
    await nothingStays(async () => {
      const owed: { socket: Socket; answer: () => void }[] = [];
      origin.behave = (socket, body, target) =>
        owed.push({ socket, answer: () => good(socket, body, target) });
      // A request of the round before may arrive here after its client went away.
      const open = () => owed.filter(({ socket }) => !socket.destroyed).length;
      const taken = until("every connection to the origin to be taken", () => open() === connections);
      await allLeave(
        (client) => head(`${list}/${slugs[client % protocols]}`),
        () => taken,
      );
      // Those that wait for a connection are answered as soon as they have one.
      origin.behave = good;
      const [answered, never] = [0, 1].map((half) => owed.filter((_, place) => place % 2 === half));
      for (const { answer } of answered!) answer();
      passDeadline();
      await until("the connections that are not answered to be destroyed", () =>
        never!.every(({ socket }) => socket.destroyed),
      );
      // After so many failures the origin is left alone for a second.
      await until("the proxy to answer again", async () => (await proxy.get(list)).status === 200);
    });
  });
});
