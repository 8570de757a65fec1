import { once } from "node:events";
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import type { ScoreChange } from "../../../schemas/rooms/feed.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { newestCommit, readCommit } from "../../../snapshots/store/log/commits.ts";
import {
  hello,
  type Listener,
  listen,
  listenGreeted,
  startFeedProxy,
  takenUp,
} from "../../helpers/http/live-feed.ts";
import type { TestProxy } from "../../helpers/http/proxy.ts";
import { until } from "../../helpers/http/proxy-client.ts";
import { anotherOverS3 } from "../../helpers/http/proxy-served.ts";
import { type Book, bookOf, changesBetween, publishBook } from "../../helpers/publish/score-books.ts";

/** The scores of a test, of which one protocol is its own: no list and no snapshot is that of another test. */
const booksOf = (own: string) =>
  [
    { aave: 500, curve: 600, lido: 700 },
    { aave: 510, curve: 600, lido: 710 },
    { aave: 520, lido: 710, maker: 800 },
    { aave: 520, curve: 630, lido: 710, maker: 810 },
  ].map((bris) => bookOf({ ...bris, [own]: 1 })) as [Book, Book, Book, Book];
const expired = { type: "error", code: "SNAPSHOT_EXPIRED" };

let proxy: TestProxy;
let tests = 0;
let books: ReturnType<typeof booksOf>;
let key: string;
/** The number of the first commit of a test, ids of its snapshots, and what each changed. */
let first: number;
let ids: string[];
let steps: ScoreChange[][];
let book: Book;
beforeAll(async () => {
  ({ proxy } = await startFeedProxy(bookOf({ aave: 1 })));
});
afterAll(() => proxy.stop());
beforeEach(async () => {
  tests += 1;
  // Listeners of the tests before are still there, and an owner may have a few.
  key = await proxy.issue({ plan: "developer", owner: `test ${tests}` });
  books = booksOf(`test-${tests}`);
  [book] = books;
  ids = [await publishBook(proxy.storage, book)];
  steps = [[]];
  first = (await newestCommit(proxy.storage))!.entry.commit;
  await takenUp(proxy, ids[0]!);
});
async function publish(next: Book, markets = 3): Promise<void> {
  ids.push(await publishBook(proxy.storage, next, { markets }));
  steps.push(await changesBetween(proxy.storage, book, next));
  book = next;
}
/** What who goes on from a snapshot hears. */
const from = async (since: string) => (await listenGreeted(proxy.port, key, { since })).heard;
const stepsFrom = (first: number) => steps.slice(first).flat();
const type = ({ type: name }: { type: string }) => name;

describe("a client", () => {
  test("is greeted with the current snapshot, and told each change of quick publishes once, in order, as who goes on is", async () => {
    const { heard, count } = await listenGreeted(proxy.port, key);
    expect(heard).toEqual([hello(ids[0]!)]);
    await publish(books[1]);
    await publish(books[2]);
    await publish(books[3]);
    const expected = [hello(ids[0]!), ...stepsFrom(1)];
    expect(expected.map(type)).toEqual([
      "hello",
      ...["score.changed", "score.changed"],
      ...["score.changed", "score.removed", "score.added"],
      ...["score.added", "score.changed"],
    ]);
    await count(expected.length);
    expect(heard).toEqual(expected);
    for (const place of [3, 2, 0])
      expect(await from(ids[place]!)).toEqual([...stepsFrom(place + 1), hello(ids[3]!)]);
  });

  test("hears of the slugs alone that it last asked for, and is told of them whatever it asked before", async () => {
    const listener = await listenGreeted(proxy.port, key);
    const told = async (next: Book, ...slugs: string[]) => {
      const before = listener.heard.length;
      const other = await listenGreeted(proxy.port, key);
      await publish(next);
      // A client of all slugs has received the commit's last change. By then this one has received all of its own.
      await other.count(1 + steps.at(-1)!.length);
      other.socket.terminate();
      await listener.count(before + slugs.length);
      expect(listener.heard.slice(before)).toEqual(steps.at(-1)!.filter(({ slug }) => slugs.includes(slug)));
      expect(listener.heard.slice(before)).toHaveLength(slugs.length);
    };
    await listener.subscribe("lido", "nobody", "lido");
    await told(books[1], "lido");
    await listener.subscribe();
    await told(books[2]);
    await listener.subscribe("maker", "curve", "__proto__", "");
    await told(books[3], "curve", "maker");
    await listener.subscribe("aave", "lido");
    await told(books[0], "aave", "lido");
    expect(listener.changes()).toHaveLength(5);
  });

  test("neither misses nor hears twice what is published while it connects", async () => {
    const listeners: Listener[] = [];
    const publishing = (async () => {
      for (let n = 0; n < 14; n += 1) await publish(bookOf({ aave: n, lido: 700 + (n % 2) }));
    })();
    // Five at a time are allowed; each leaves once it has heard of two more commits.
    const follow = async () => {
      while (ids.length < 11) {
        const listener = await listen(proxy.port, key, listeners.length % 2 ? {} : { since: ids[0]! });
        await until("four messages about changes", () => listener.changes().length >= 4);
        listeners.push(listener);
        listener.socket.terminate();
        await listener.closed;
      }
    };
    await Promise.all([publishing, follow(), follow(), follow()]);
    expect(listeners.length).toBeGreaterThan(5);
    for (const { heard, changes } of listeners) {
      const told = changes();
      const start = stepsFrom(0).findIndex((change) => sameChange(change, told[0]!));
      expect(told).toEqual(stepsFrom(0).slice(start, start + told.length));
      const place = heard.findIndex(({ type: name }) => name === "hello");
      const greeting = heard[place];
      if (greeting?.type !== "hello") continue;
      // What comes before the greeting leads up to its snapshot, what comes after begins behind it.
      const next = ids.indexOf(greeting.snapshotId) + 1;
      expect(heard.slice(place + 1)).toEqual(stepsFrom(next).slice(0, heard.length - place - 1));
    }
  });
});

const sameChange = (one: ScoreChange, other: ScoreChange) =>
  one.slug === other.slug && one.snapshotId === other.snapshotId;

describe("a client that asks for snapshots", () => {
  const published = (place: number, changes: object | null) => ({
    type: "snapshot.published",
    snapshotId: ids[place]!,
    commit: first + place,
    publishedAt: expect.any(String),
    counts: { markets: expect.any(Number), protocols: expect.any(Number) },
    changes,
  });

  test("hears of each behind its scores what it changed in the archive, and of none once it asks no more", async () => {
    const { heard, count, say, socket } = await listenGreeted(proxy.port, key);
    const ask = async (command: object) => {
      say({ type: "subscribe", ...command });
      socket.ping();
      await once(socket, "pong");
    };
    await ask({ snapshots: true, slugs: [] });
    await publish(books[1], 5);
    await count(2);
    expect(heard.slice(1)).toEqual([published(1, { added: 2, changed: 0, removed: 0 })]);
    await ask({ snapshots: true });
    await publish(books[2], 5);
    await count(3 + steps[2]!.length);
    expect(heard.slice(2)).toEqual([...steps[2]!, published(2, { added: 0, changed: 0, removed: 0 })]);
    await ask({ snapshots: false });
    await publish(books[3], 5);
    await count(3 + steps[2]!.length + steps[3]!.length);
    await publish(books[0], 5);
    await count(3 + stepsFrom(2).length);
    expect(heard.filter(({ type }) => type === "snapshot.published")).toHaveLength(2);
  });
});

describe("a client that goes on from a snapshot", () => {
  test("that is unknown, or no longer kept, hears that, is greeted, and told what follows", async () => {
    await publish(books[1]);
    await publish(books[2]);
    await takenUp(proxy, ids[2]!);
    const { manifest } = (await readCommit(proxy.storage, first))!;
    await proxy.storage.delete(layout.manifest(manifest.hash));
    // This one has the collected snapshot still in memory.
    await using other = await proxy.another();
    const [unknown, gone] = [
      await listenGreeted(proxy.port, key, { since: "0".repeat(64) }),
      await listenGreeted(other.port, key, { since: ids[0]! }),
    ];
    await publish(books[3]);
    for (const { heard, count } of [unknown, gone]) {
      await count(2 + steps[3]!.length);
      expect(heard).toEqual([expired, hello(ids[2]!), ...steps[3]!]);
    }
  });

  test("that another process has already taken up is greeted with it, and told what follows once", async () => {
    const other = await failing(layout.segment.prefix);
    // No other test has so many markets, and with them this segment.
    await publish(books[1], 6);
    await takenUp(proxy, ids[1]!);
    const { heard, count } = await listenGreeted(other.port, key, { since: ids[1]! });
    expect(heard).toEqual([hello(ids[1]!)]);
    expect((await other.get("/healthz")).headers["x-snapshot-id"]).toBe(ids[0]);
    other.fails = false;
    await publish(books[2], 6);
    await count(1 + steps[2]!.length);
    expect(heard).toEqual([hello(ids[1]!), ...steps[2]!]);
  });

  test("goes on through a restart of the proxy, and over to another one", async () => {
    const ending = await proxy.another();
    const { heard, closed, count } = await listenGreeted(ending.port, key);
    await publish(books[1]);
    await count(1 + steps[1]!.length);
    await ending.stop();
    expect(await closed).toBe(1001);
    await publish(books[2]);
    const others = [await proxy.another(), await proxy.another()];
    for (const { stop } of others) onTestFinished(stop);
    await publish(books[3]);
    const listeners = await Promise.all(
      [proxy, ...others].map(({ port }) => listen(port, key, { since: ids[1]! })),
    );
    for (const again of listeners) {
      await again.count(steps[2]!.length + steps[3]!.length + 1);
      expect([...heard.slice(1), ...again.changes()]).toEqual(stepsFrom(1));
    }
  });
});

/** A proxy that has taken up the first snapshot, and for which the store then fails at these objects. */
async function failing(prefix: string) {
  const state = { fails: false };
  const denied = { status: 403, code: "AccessDenied" };
  const other = await anotherOverS3(proxy, (_, name) =>
    state.fails && name.startsWith(prefix) ? denied : undefined,
  );
  await takenUp(other, ids[0]!);
  state.fails = true;
  return Object.assign(state, other);
}

test("while the store fails nothing is told, and afterwards all of it", async () => {
  const other = await failing(layout.publicObject.prefix);
  const failed = () => other.logged.filter((line) => line.includes("the live feed could not go on")).length;
  const { heard, count } = await listenGreeted(other.port, key);
  await publish(books[1]);
  await publish(books[2]);
  await until("two failed polls", () => failed() > 1);
  await publish(books[3]);
  expect(heard).toEqual([hello(ids[0]!)]);
  other.fails = false;
  await count(1 + stepsFrom(1).length);
  expect(heard).toEqual([hello(ids[0]!), ...stepsFrom(1)]);
});
