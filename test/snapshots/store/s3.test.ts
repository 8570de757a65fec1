import { hash } from "node:crypto";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import type { S3Limits } from "../../../snapshots/store/backends/s3.ts";
import { openStorage } from "../../../snapshots/store/open-storage.ts";
import { type Storage, StorageError } from "../../../snapshots/store/storage.ts";
import { type SmallFault, type SmallS3, startSmallS3 } from "../../helpers/store/small-s3.ts";
import { listed, memoryStorage } from "../../helpers/store/storages.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";

// What becomes of single requests. What runs make of requests that fail, are late or were lost is played by the world.

const directory = testFolder();
const objects = new Map<string, Buffer>();
const long = 1_000_000;
/** Where nothing hangs, nothing is given up. */
const limits: S3Limits = { connectSeconds: long, attemptSeconds: long, operationSeconds: long, attempts: 3 };
let server: SmallS3;
let storage: Storage;
beforeAll(async () => {
  server = await startSmallS3(memoryStorage(objects));
});
afterAll(() => server.stop());
beforeEach(async () => {
  objects.clear();
  server.fault = () => undefined;
  storage = await openStorage("s3://bucket", directory, server.environment, limits);
});

describe("an operation", () => {
  // A second passes at every turn of this process's loop: what nothing answers is given up at once, and a machine that
  // stands still, or is slow, makes nothing late.
  let clock: NodeJS.Timeout;
  beforeEach(() => {
    objects.set("object", Buffer.from("old"));
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    clock = setInterval(() => vi.advanceTimersByTime(1000), 1);
  });
  afterEach(() => {
    clearInterval(clock);
    vi.useRealTimers();
  });

  const [old, next] = [Buffer.from("old"), Buffer.from("new")];
  const operations: [verb: string, key: string, work: (storage: Storage) => Promise<unknown>][] = [
    ["read", "object", (store) => store.get("object")],
    ["list", "", async (store) => (await listed(store)).map(({ key }) => key)],
    ["write", "written", (store) => store.put("written", next)],
    ["create", "created", (store) => store.putIfAbsent("created", next)],
    ["replace", "object", (store) => store.replace("object", next, hash("md5", old))],
    ["delete", "object", (store) => store.delete("object")],
  ];
  const faults: [string, SmallFault][] = [
    ["unavailable", { status: 503, code: "SlowDown" }],
    ["reset", "reset"],
    ["hang", "hang"],
    ["lost", "lost"],
  ];
  /** Something hangs, and the server answers within a few turns. */
  const opened = (fault: SmallFault) =>
    openStorage("s3://bucket", directory, server.environment, {
      ...limits,
      ...(fault === "hang" && { attemptSeconds: 100 }),
    });

  const cut: [string, SmallFault] = ["cut", "cut"];
  test.for([...faults, cut])(
    "is tried again, each of them, when its request meets, the first time: %s",
    async ([, fault]) => {
      const store = await opened(fault);
      const done: unknown[] = [];
      for (const [, , work] of operations) {
        let met = false;
        server.fault = () => {
          const meets = met ? undefined : fault;
          met = true;
          return meets;
        };
        done.push(await work(store));
      }
      // Whoever creates or replaces an object and is told that it was there reads whose it is.
      const isNew = fault !== "lost";
      expect(done).toEqual([old, ["object"], false, isNew, isNew, undefined]);
      expect(objects).toEqual(new Map(["written", "created"].map((key) => [key, next])));
    },
  );

  test.for([...faults, cut])(
    "fails, naming store and key, when every request meets: %s",
    async ([, fault]) => {
      const store = await opened(fault);
      if (fault === "cut") objects.set("object", Buffer.alloc(300_000, "b"));
      // Of the answers that are cut, only that of a read is of use as a whole.
      for (const [verb, key, work] of fault === "cut" ? operations.slice(0, 1) : operations) {
        let requests = 0;
        server.fault = () => {
          requests += 1;
          return fault;
        };
        const told = `s3://bucket/: cannot ${verb} ${key}: `;
        const failed = await work(store).catch((error: unknown) => error);
        expect(failed).toBeInstanceOf(StorageError);
        expect(failed).toMatchObject({ message: expect.stringContaining(told) });
        expect([verb, requests]).toEqual([verb, limits.attempts]);
      }
    },
  );

  test("that creates an object meets another in progress, and asks again, but not for ever", async () => {
    const conflict = { status: 409, code: "ConditionalRequestConflict" };
    let tries = 0;
    server.fault = () => {
      tries += 1;
      return tries === 1 ? conflict : undefined;
    };
    expect(await storage.putIfAbsent("created", next)).toBe(true);
    server.fault = () => {
      tries += 1;
      return conflict;
    };
    await expect(storage.putIfAbsent("other", next)).rejects.toThrow("cannot create other: 409");
    expect(tries).toBeGreaterThan(5);
    // Somebody else's replacement is for the caller to read.
    expect(await storage.replace("object", next, hash("md5", old))).toBe(false);
  });

  test("that replaces an object is carried out without its condition where the server has none", async () => {
    server.fault = (_, __, headers) =>
      headers["if-match"] ? { status: 501, code: "NotImplemented" } : undefined;
    expect(await storage.replace("object", next, "another")).toBe(true);
    expect(objects.get("object")).toEqual(next);
  });
});

test.for([
  [400, "InvalidArgument"],
  [501, "NotImplemented"],
] as const)("does without a checksum that is refused with %d, once and for all", async ([status, code]) => {
  const said: string[] = [];
  const cache = { cacheDiskBytes: 0, warn: (line: string) => said.push(line) };
  const fresh = await openStorage("s3://bucket", directory, server.environment, limits, cache);
  const puts: string[] = [];
  server.fault = (method, key, headers) => {
    const isChecked = headers["x-amz-checksum-sha256"] !== undefined;
    puts.push(`${method} ${key} ${isChecked}`);
    return isChecked ? { status, code } : undefined;
  };
  // It is not confirmed, so writers read it back.
  expect(await fresh.put("old-server/a", Buffer.from("a"))).toBe(false);
  expect(await fresh.put("old-server/b", Buffer.from("b"))).toBe(false);
  expect(puts).toEqual(["PUT old-server/a true", "PUT old-server/a false", "PUT old-server/b false"]);
  expect(said).toEqual([
    expect.stringMatching(
      `^s3://bucket/ refuses x-amz-checksum-sha256, so .* compared otherwise \\(${status} ${code}`,
    ),
  ]);
  server.fault = (method) => (method === "PUT" ? { status, code } : undefined);
  const refused = await openStorage("s3://bucket", directory, server.environment, limits, cache);
  await expect(refused.put("old-server/c", Buffer.from("c"))).rejects.toThrow(
    `cannot write old-server/c: ${status}`,
  );
  expect(said).toHaveLength(1);
});

test("puts nothing without its checksum when the server has received other bytes", async () => {
  const fresh = await openStorage("s3://bucket", directory, server.environment, limits);
  server.fault = (method) => (method === "PUT" ? { status: 400, code: "BadDigest" } : undefined);
  await expect(fresh.put("damaged", Buffer.from("a"))).rejects.toThrow("cannot write damaged: 400 BadDigest");
  server.fault = () => undefined;
  expect(await fresh.get("damaged")).toBeUndefined();
});

test("does not ask again when it was told to stop meanwhile", async () => {
  objects.set("body", Buffer.alloc(300_000, "b"));
  const stop = new AbortController();
  let asked = 0;
  server.fault = () => {
    asked += 1;
    stop.abort(new Error("enough"));
    return "cut";
  };
  await expect(storage.get("body", { signal: stop.signal })).rejects.toThrow("enough");
  expect(asked).toBe(1);
});
