import { once } from "node:events";
import type { Socket } from "node:net";
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { WebSocket } from "ws";
import { feedLimits, keyEnded } from "../../../schemas/rooms/feed.ts";
import type { Commit } from "../../../schemas/store/stored-objects.ts";
import { readKeys, revokeKey } from "../../../snapshots/keys/keys.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { appendCommit, newestCommit } from "../../../snapshots/store/log/commits.ts";
import { found, spellingsOf } from "../../helpers/attack/canaries.ts";
import {
  connections,
  type FeedProxy,
  feedPath,
  handshake,
  hello,
  type Listener,
  leave,
  listen,
  listenGreeted,
  rawListener,
  startFeedProxy,
} from "../../helpers/http/live-feed.ts";
import type { TestProxy } from "../../helpers/http/proxy.ts";
import { bearer, outcome, remaining, until } from "../../helpers/http/proxy-client.ts";
import { anotherOverS3 } from "../../helpers/http/proxy-served.ts";
import { bookOf, publishBook } from "../../helpers/publish/score-books.ts";
import { bytesInUse } from "../../helpers/servers/memory.ts";

let proxy: TestProxy;
let key: string;
let first: string;
beforeAll(async () => {
  ({ proxy, key, first } = await startFeedProxy(bookOf({ aave: 500 })));
});
afterAll(() => proxy.stop());
const invalid = { type: "error", code: "INVALID_MESSAGE" };
const stays = ({ socket }: Listener) => expect(socket.readyState).toBe(WebSocket.OPEN);

test("a key is taken from wherever it is presented, and left in no answer and no log", async () => {
  const spellings = spellingsOf([key]);
  const offered = ["scores.v1", `bearer.${key}`];
  const ways: [headers: Record<string, string>, protocols?: string[]][] = [
    [bearer(key)],
    [{ "x-api-key": key }],
    // As a page of another site sends it.
    [{ origin: "https://dashboard.example" }, offered],
    [{}, [...offered.toReversed(), "x"]],
    [{ ...bearer(key), "x-api-key": key }, offered],
  ];
  for (const [headers, protocols] of ways) {
    const listener = await listenGreeted(proxy.port, key, { headers, ...(protocols && { protocols }) });
    expect(listener.heard).toEqual([hello(first)]);
    expect(listener.socket.protocol).toBe("scores.v1");
    expect(found(spellings, JSON.stringify(listener.headers))).toEqual([]);
    await leave(proxy, listener);
    const logged = JSON.parse(await proxy.logs(String(listener.headers["x-request-id"])));
    expect(logged).toMatchObject({ msg: "went live", res: { status: 101 } });
  }
  for (const each of proxy.logged) expect([each, found(spellings, each)]).toEqual([each, []]);
});

test("a handshake that offers no subprotocol or compression of ours is answered with none", async () => {
  const listener = await listenGreeted(proxy.port, key, { protocols: [], perMessageDeflate: true });
  expect(listener.socket.protocol).toBe("");
  expect(listener.socket.extensions).toBe("");
  await leave(proxy, listener);
  const other = new WebSocket(`ws://127.0.0.1:${proxy.port}${feedPath}`, ["scores.v2"], {
    headers: bearer(key),
  });
  const [error] = await once(other, "error");
  expect(String(error)).toContain("no subprotocol");
  await leave(proxy);
});

describe("the quota", () => {
  test("counts a connection once, whatever is told on it, and refuses the one beyond", async () => {
    const few = await proxy.issue({ owner: "few", quota: 2 });
    const one = await listenGreeted(proxy.port, few);
    expect(remaining(one)).toBe(1);
    await one.subscribe("aave");
    expect(await proxy.left(few)).toBe(1);
    const two = await listenGreeted(proxy.port, few);
    expect(remaining(two)).toBe(0);
    const third = await proxy.as(few)(feedPath, handshake);
    expect(outcome(third)).toBe("429 QUOTA_EXCEEDED");
    expect(Number(third.headers["retry-after"])).toBeGreaterThan(0);
    expect(one.socket.readyState).toBe(WebSocket.OPEN);
    await leave(proxy, one, two);
  });

  test("gets back the unit of a sixth connection of one owner, by whichever key, and others have room", async () => {
    const second = await proxy.issue({ owner: "crowd", plan: "developer" });
    const crowd = await proxy.issue({ owner: "crowd", plan: "aegis" });
    const open = [await listenGreeted(proxy.port, second)];
    for (let n = 0; n < 4; n += 1) open.push(await listenGreeted(proxy.port, crowd));
    const before = [await proxy.left(crowd), await proxy.left(second)];
    for (const each of [crowd, second]) {
      const answer = await proxy.as(each)(feedPath, handshake);
      expect(outcome(answer)).toBe("429 TOO_MANY_CONNECTIONS");
      expect(remaining(answer)).toBe(await proxy.left(each));
    }
    expect([await proxy.left(crowd), await proxy.left(second)]).toEqual(before);
    const other = await listenGreeted(proxy.port, key);
    expect(await connections(proxy)).toBe(6);
    open[0]!.socket.close();
    await until("five feed connections", async () => (await connections(proxy)) === 5);
    open.push(await listenGreeted(proxy.port, crowd));
    await leave(proxy, other, ...open);
  });

  test("gets back the unit of a key that ends before the feed begins", async () => {
    const own = await startFeedProxy(bookOf({ aave: 500 }));
    onTestFinished(own.proxy.stop);
    await publishBook(own.proxy.storage, bookOf({ aave: 501 }));
    // The log is read back to the first commit, which waits until the key has ended.
    const ended = Promise.withResolvers<undefined>();
    const another = await anotherOverS3(own.proxy, (_, name) =>
      name === layout.commit(1) ? ended.promise : undefined,
    );
    const expiresAt = new Date(another.clock.now + 60_000);
    const brief = await another.issue({ expiresAt });
    const lasting = await another.issue();
    const refused = another.as(brief)(`${feedPath}?since=${own.first}`, handshake);
    await until("its unit to be taken", async () => (await another.left(lasting)) === 99_999);
    another.clock.now = expiresAt.getTime();
    ended.resolve(undefined);
    expect(outcome(await refused)).toBe("401 INVALID_API_KEY");
    expect(await another.left(lasting)).toBe(100_000);
  });
});

// What else a client may say is tried by the fuzz target of the feed.
test("what a client sends may have 4 KiB and not a byte more, in however many frames, and must be text", async () => {
  const sized = (bytes: number) => {
    const rest = bytes - JSON.stringify({ type: "subscribe", slugs: [""] }).length;
    return JSON.stringify({ type: "subscribe", slugs: ["x".repeat(rest)] });
  };
  const fits = await listenGreeted(proxy.port, key);
  fits.say(sized(feedLimits.messageBytes));
  await fits.subscribe("aave");
  stays(fits);
  const one = await listenGreeted(proxy.port, key);
  one.say(sized(feedLimits.messageBytes + 1));
  expect(await one.closed).toBe(1009);
  const parts = await listenGreeted(proxy.port, key);
  for (const fin of [false, true]) parts.socket.send("x".repeat(2049), { fin });
  expect(await parts.closed).toBe(1009);
  fits.socket.send(Buffer.from(JSON.stringify({ type: "subscribe", slugs: [] })), { binary: true });
  const command = { type: "subscribe", slugs: ["aave"] };
  const wrong = [
    "{",
    "[]",
    { ...command, type: "Subscribe" },
    { ...command, slugs: [1] },
    { ...command, all: 1 },
  ];
  for (const each of wrong) fits.say(each);
  await fits.count(wrong.length + 2);
  stays(fits);
  expect(fits.heard).toEqual([hello(first), ...[...wrong, "binary"].map(() => invalid)]);
  await leave(proxy, fits);
});

/** A frame of a client with a mask of zeros. */
function frame(first: number, payload: string | Buffer, lengthBytes = 0): Buffer {
  const size = Buffer.alloc(8);
  size.writeBigUInt64BE(BigInt(payload.length));
  const length = { 0: payload.length, 2: 126, 8: 127 }[lengthBytes]!;
  const extended = size.subarray(8 - lengthBytes);
  return Buffer.concat([
    Buffer.from([first, 0x80 | length]),
    extended,
    Buffer.alloc(4),
    Buffer.from(payload),
  ]);
}

/** A client that sends frames by hand. */
function rawClient(by: string) {
  const socket = rawListener(proxy.port, by);
  let bytes = Buffer.alloc(0);
  socket.on("data", (more) => (bytes = Buffer.concat([bytes, more])));
  const frames = () => {
    const found: { opcode: number; payload: Buffer }[] = [];
    let at = bytes.indexOf("\r\n\r\n") + 4;
    while (at >= 4 && at + 2 <= bytes.length) {
      const extended = bytes[at + 1] === 126 ? 2 : 0;
      const size = extended ? bytes.readUInt16BE(at + 2) : bytes[at + 1]!;
      const begin = at + 2 + extended;
      found.push({ opcode: bytes[at]! & 0x0f, payload: bytes.subarray(begin, begin + size) });
      at = begin + size;
    }
    return found;
  };
  return {
    socket,
    /** All that it was told before a close, pongs included. */
    told: () => frames().flatMap(({ opcode, payload }) => (opcode === 0x08 ? [] : [String(payload)])),
    /** The code that it was closed with. */
    code: () =>
      frames()
        .find(({ opcode }) => opcode === 0x08)
        ?.payload.readUInt16BE(0),
  };
}

describe("a client that sends many frames", () => {
  const { burstFrames, framesPerSecond, messageBytes } = feedLimits;
  const subscribe = JSON.stringify({ type: "subscribe", slugs: ["aave"] });
  /** The frame that a flood is of, and what comes before it. */
  const floods: Record<string, { frame: Buffer; first?: Buffer }> = {
    commands: { frame: frame(0x81, subscribe) },
    "commands of 4 KiB": { frame: frame(0x81, subscribe.padEnd(messageBytes), 2) },
    rubbish: { frame: frame(0x81, "{", 8) },
    pings: { frame: frame(0x89, "x") },
    pongs: { frame: frame(0x8a, "") },
    "fragments with a byte": { frame: frame(0x00, "x", 2), first: frame(0x01, "") },
  };
  const forEachFlood = (check: (sent: (count: number) => Buffer, by: string) => Promise<void>) =>
    Promise.all(
      Object.entries(floods).map(async ([owner, { frame: again, first = again }]) => {
        const sent = (count: number) => Buffer.concat([first, ...Array(count - 1).fill(again)]);
        await check(sent, await proxy.issue({ owner }));
      }),
    );

  test("may send a burst, however its bytes come, and is closed for one frame more, or amid a flood that nothing answers", async () => {
    const other = await listenGreeted(proxy.port, key);
    await forEachFlood(async (sent, by) => {
      const burst = Buffer.concat([sent(burstFrames - 1), frame(0x89, "last")]);
      const [whole, byBytes] = [rawClient(by), rawClient(by)];
      whole.socket.write(burst);
      byBytes.socket.setNoDelay();
      for (const byte of burst.subarray(0, 500)) byBytes.socket.write(Buffer.from([byte]));
      byBytes.socket.write(burst.subarray(500));
      for (const { socket, told, code } of [whole, byBytes]) {
        await until("the answer to the last frame", () => told().includes("last"));
        expect(code()).toBeUndefined();
        socket.write(socket === whole.socket ? sent(20_000) : frame(0x8a, ""));
        await until("the connection to be closed", () => code() === 1008);
        const answers = told().filter((text) => text === "x" || text === JSON.stringify(invalid));
        expect(answers.length).toBeLessThanOrEqual(burstFrames);
      }
    });
    stays(other);
    await leave(proxy, other);
  });

  test("is not read on behind its close, or a frame that is too large", async () => {
    const tooLarge = frame(0x81, Buffer.alloc(messageBytes + 1), 8).fill(1, 5, 6);
    for (const begin of [frame(0x88, ""), tooLarge]) {
      const { socket } = rawClient(key);
      socket.write(begin);
      let taken = 0;
      const piece = Buffer.alloc(65_536);
      for (let n = 0; n < 1000; n += 1)
        socket.write(piece, (error) => {
          if (!error) taken += 1;
        });
      await until("the connection to be cut off", () => socket.closed);
      // The buffers on the way hold some megabytes.
      expect(taken).toBeLessThan(500);
    }
    await leave(proxy);
  });

  test("is heard for ever at the pace that is allowed", async () => {
    const listener = await listenGreeted(proxy.port, key);
    for (let frames = 2; frames <= burstFrames; frames += 2) await listener.subscribe("aave");
    for (let round = 0; round < 20; round += 1) {
      proxy.clock.now += 2000 / framesPerSecond;
      await listener.subscribe("aave");
    }
    // A clock that is put back gives nothing and takes nothing.
    proxy.clock.now -= 3_600_000;
    stays(listener);
    listener.socket.ping();
    expect(await listener.closed).toBe(1008);
    await leave(proxy);
  });
});

describe("a key that ends", () => {
  test("by being revoked closes its connections, however it was presented, and no others", async () => {
    const ending = await proxy.issue({ plan: "developer", owner: "ending" });
    const listeners = [
      await listenGreeted(proxy.port, ending),
      await listenGreeted(proxy.port, ending, { headers: {}, protocols: ["scores.v1", `bearer.${ending}`] }),
    ];
    const stranger = await listenGreeted(proxy.port, key);
    const { records } = await readKeys(proxy.storage);
    const { id } = records.find(({ owner }) => owner === "ending")!;
    await revokeKey(proxy.storage, id, new Date(proxy.clock.now));
    // Keys are read while somebody looks.
    await until("one feed connection to be left", async () => (await connections(proxy)) === 1);
    for (const listener of listeners) expect(await listener.closed).toBe(keyEnded.code);
    stays(stranger);
    await leave(proxy, stranger);
  });

  test("by its time closes its connections too, not a moment earlier, while the store does not answer as well", async () => {
    let [hangs, asked] = [false, false];
    // Only keys are listed here.
    const another = await anotherOverS3(proxy, (_, name) => {
      asked ||= hangs && name === "";
      return asked && name === "" ? "hang" : undefined;
    });
    const expiresAt = new Date(another.clock.now + 60_000);
    const brief = await another.issue({ owner: "brief", expiresAt });
    const [listener, other] = [
      await listenGreeted(another.port, brief),
      await listenGreeted(another.port, key),
    ];
    another.clock.now = expiresAt.getTime() - 1;
    await publishBook(proxy.storage, bookOf({ aave: 502 }));
    await listener.count(2);
    stays(listener);
    hangs = true;
    await until("a poll of the keys to hang", () => asked);
    another.clock.now = expiresAt.getTime();
    await until("the connection to be closed", () => listener.socket.readyState === WebSocket.CLOSED);
    expect(await listener.closed).toBe(keyEnded.code);
    stays(other);
  });
});

test("a client that is not there any more is asked every half minute, and cut off when it has not answered until the next time", async () => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  const own = await startFeedProxy(bookOf({ aave: 500 }));
  const [silent, alive] = [
    await listenGreeted(own.proxy.port, own.key, { autoPong: false }),
    await listenGreeted(own.proxy.port, own.key),
  ];
  for (let round = 0; round < 2; round += 1) {
    stays(silent);
    const asked = round === 0 ? [silent, alive] : [alive];
    const pings = asked.map(({ socket }) => once(socket, "ping"));
    vi.advanceTimersByTime(feedLimits.pingSeconds * 1000);
    await Promise.all(pings);
    // Frames are taken in turn: by the answer to this, the answer to the ping has come.
    await alive.subscribe("aave");
  }
  expect(await silent.closed).toBe(1006);
  stays(alive);
  vi.useRealTimers();
  await leave(own.proxy, alive);
  await own.proxy.stop();
});

describe("a store whose commits change every one of many scores: more than a connection holds on its way", () => {
  const [protocols, commits] = [100, 120];
  const messages = protocols * (commits - 1) + 1;
  const price = Math.ceil((messages - 1) / feedLimits.scoresPerUnit);
  let much: FeedProxy;
  beforeAll(async () => {
    const names = Array.from({ length: protocols }, (_, n) => `protocol-${n}`.padEnd(100, "-"));
    const book = (bri: number) => bookOf(Object.fromEntries(names.map((name) => [name, bri])));
    much = await startFeedProxy(book(0));
    const { storage, get } = much.proxy;
    const published: Commit[] = [];
    for (const bri of [1, 2]) {
      await publishBook(storage, book(bri));
      published.push((await newestCommit(storage))!);
    }
    // The two in turn, as if by rollbacks.
    let last = published[1]!;
    while (last.entry.commit < commits) {
      const { digest: previous, ...rest } = last;
      const commit = last.entry.commit + 1;
      const { entry, manifest } = published[commit % 2]!;
      last = await appendCommit(storage, { ...rest, entry: { ...entry, commit }, manifest, previous });
    }
    await until(
      `commit ${commits} to be served`,
      async () => (await get("/api/v1/status")).json().commit === commits,
    );
  });
  afterAll(() => much.proxy.stop());
  const from = (by = much.key, { port } = much.proxy) => listen(port, by, { since: much.first });

  test("who resumes pays for what comes before the greeting, or is refused at no price", async () => {
    const { proxy } = much;
    const [rich, poor] = [price, price - 1];
    const keys = await Promise.all([rich, poor].map((quota) => proxy.issue({ owner: `${quota}`, quota })));
    const told = await from(keys[0]!);
    expect(remaining(told)).toBe(0);
    expect(await proxy.left(keys[0]!)).toBe(0);
    const refused = await proxy.as(keys[1]!)(`${feedPath}?since=${much.first}`, handshake);
    expect(outcome(refused)).toBe("429 QUOTA_EXCEEDED");
    expect(refused.json().detail).toContain(`takes ${price} units, more than the ${poor} left`);
    expect(await proxy.left(keys[1]!)).toBe(poor);
    // What is served needs nothing to be told.
    const { snapshotId } = (await proxy.get("/api/v1/status")).json();
    const others = [
      await listenGreeted(proxy.port, keys[1]!, { since: snapshotId }),
      await listenGreeted(proxy.port, keys[1]!),
    ];
    expect(await proxy.left(keys[1]!)).toBe(poor - others.length);
    await leave(proxy, told, ...others);
  });

  test("whoever resumes and finds no room any more has paid nothing", async () => {
    const { proxy } = much;
    const rush = await proxy.issue({ owner: "rush" });
    const tries = await Promise.allSettled(Array.from({ length: 12 }, () => from(rush)));
    const open = tries.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
    for (const { socket } of open) socket.terminate();
    expect(open).toHaveLength(feedLimits.connectionsPerOwner);
    expect(await proxy.left(rush)).toBe(100_000 - open.length * price);
    await leave(proxy);
  });

  /** Opens a connection that reads nothing of what it is told, from the first snapshot on. */
  async function deaf(on = much.proxy): Promise<Listener> {
    const listener = await from(much.key, on);
    listener.socket.pause();
    return listener;
  }

  test("cuts off who does not read after a while, and others are told everything meanwhile", async () => {
    await using proxy = await much.proxy.another({ limits: { stalledSeconds: 1 } });
    const lost = [await deaf(proxy), await deaf(proxy)];
    const reader = await from(much.key, proxy);
    await reader.count(messages);
    expect(reader.changes()).toHaveLength(messages - 1);
    await until("one feed connection to be left", async () => (await connections(proxy)) === 1);
    for (const listener of lost) {
      listener.socket.resume();
      expect(await listener.closed).toBe(1006);
      expect(listener.heard.length).toBeLessThan(messages);
    }
    stays(reader);
    await leave(proxy, reader);
  });

  test("costs no memory while who does not read is waited for, is told of once he does, and he is heard meanwhile", async () => {
    const { proxy } = much;
    const used = async (reader: Listener) => {
      await reader.count(messages);
      reader.heard.length = 0;
      return bytesInUse();
    };
    const reader = await from();
    const before = await used(reader);
    const [changing, late] = await Promise.all([deaf(), deaf()]);
    const again = await from();
    // Each has 11 MB to be told.
    expect((await used(again)) - before).toBeLessThan(6 * 1024 * 1024);
    // By now the buffers on the way are full.
    changing.say({ type: "subscribe", slugs: [] });
    await again.subscribe();
    expect(await connections(proxy)).toBe(4);
    changing.socket.resume();
    const greeted = until("its hello", () => changing.heard.some(({ type }) => type === "hello"));
    expect(await Promise.race([greeted, changing.closed])).toBeUndefined();
    expect(changing.heard.length).toBeLessThan(messages);
    late.socket.resume();
    await late.count(messages);
    expect(late.changes()).toHaveLength(messages - 1);
    expect(late.heard).toHaveLength(messages);
    await leave(proxy, reader, again, changing, late);
  });
});

/** A client that answers no close. */
function dumbClient(port: number, search?: string): Socket {
  const socket = rawListener(port, key, search);
  onTestFinished(() => void socket.destroy());
  return socket;
}

describe("a proxy that stops", () => {
  test("also lets go of a client that gets in while it stops", async () => {
    await publishBook(proxy.storage, bookOf({ aave: 501 }));
    // The log is read back to the first commit, and that one is not to be had at once.
    const asked = Promise.withResolvers<void>();
    const answered = Promise.withResolvers<undefined>();
    const another = await anotherOverS3(proxy, (_, name) => {
      if (name !== layout.commit(1)) return undefined;
      asked.resolve();
      return answered.promise;
    });
    const dumb = dumbClient(another.port);
    await once(dumb, "data");
    const late = dumbClient(another.port, `?since=${first}`);
    await asked.promise;
    const ending = another.stop();
    // Cut off when its time to answer the close was over.
    await once(dumb.resume(), "close");
    answered.resolve(undefined);
    await once(late.resume(), "close");
    await ending;
  });
});
