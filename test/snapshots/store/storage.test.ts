import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { readdir, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openStorage } from "../../../snapshots/store/open-storage.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import { createBucket, s3Environment } from "../../helpers/servers/ceph.ts";
import { findProgram } from "../../helpers/servers/programs.ts";
import { type SmallS3, startSmallS3 } from "../../helpers/store/small-s3.ts";
import { listed, memoryStorage } from "../../helpers/store/storages.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";

const s3 = s3Environment();
const directory = testFolder();

const keysIn = async (storage: Storage, prefix = "") =>
  (await listed(storage, prefix)).map(({ key }) => key).sort();

const backends: { name: string; skip: boolean; open: () => Promise<Storage> }[] = [
  { name: "directory", skip: false, open: async () => openStorage("store", directory) },
  {
    name: "S3",
    skip: !s3,
    open: async () => openStorage(`${await createBucket(s3!)}/some/prefix`, directory, s3),
  },
];

describe.each(backends.filter(({ skip }) => !skip))("$name storage", ({ name, open }) => {
  let storage: Storage;
  const list = (prefix: string) => keysIn(storage, prefix);

  beforeAll(async () => {
    storage = await open();
  });

  test("lists nothing and finds nothing before the first put", async () => {
    expect(await list("")).toEqual([]);
    expect(await storage.get("nothing.json")).toBeUndefined();
    expect(await storage.get("no/such/folder.json")).toBeUndefined();
  });

  test("gives back the bytes it was given, and replaces them whole", async () => {
    const bytes = Buffer.from(Array.from({ length: 70_000 }, (_, n) => n % 256));
    // An S3 server confirms what it received by a checksum; a directory is read back.
    expect(await storage.put("a/bytes", bytes)).toBe(name !== "directory");
    expect(await storage.get("a/bytes")).toEqual(bytes);
    await storage.put("a/bytes", Buffer.from("short"));
    const short = (await storage.get("a/bytes"))!;
    // Whoever keeps it keeps nothing else in memory.
    expect([short.toString(), short.buffer.byteLength]).toEqual(["short", short.length]);
    await storage.put("a/empty", Buffer.alloc(0));
    expect(await storage.get("a/empty")).toEqual(Buffer.alloc(0));
  });

  test("gives back a range of an object, and no less than all of it", async () => {
    const bytes = Buffer.from(Array.from({ length: 70_000 }, (_, n) => (n * n) % 251));
    await storage.put("a/range", bytes);
    for (const [offset, length] of [
      [0, 1],
      [0, 70_000],
      [1, 65_537],
      [69_999, 1],
    ] as const) {
      const part = await storage.get("a/range", { maxBytes: 1, range: { offset, bytes: length } });
      expect(part?.equals(bytes.subarray(offset, offset + length))).toBe(true);
    }
    for (const [offset, length] of [
      [0, 70_001],
      [69_999, 2],
      [70_000, 1],
      [1e9, 1],
      [0, 2 ** 31 + 1],
    ] as const)
      await expect(storage.get("a/range", { range: { offset, bytes: length } })).rejects.toThrow(
        `a/range: it ends before byte ${offset + length}`,
      );
    expect(await storage.get("a/none", { range: { offset: 0, bytes: 1 } })).toBeUndefined();
  });

  test("creates an object once, whoever comes second", async () => {
    expect(await storage.putIfAbsent("once.json", Buffer.from("first"))).toBe(true);
    expect(await storage.putIfAbsent("once.json", Buffer.from("second"))).toBe(false);
    expect((await storage.get("once.json"))?.toString()).toBe("first");
  });

  test("replaces an object only while it has the tag it was listed with", async () => {
    const tagNow = async () => (await listed(storage, "name.json"))[0]!.tag;
    expect(await storage.replace("name.json", Buffer.from("none"), '"0"')).toBe(false);
    await storage.put("name.json", Buffer.from("first"));
    const first = await tagNow();
    expect(await storage.replace("name.json", Buffer.from("second"), first)).toBe(true);
    expect((await storage.get("name.json"))?.toString()).toBe("second");
    expect(await tagNow()).not.toBe(first);
    expect(await storage.replace("name.json", Buffer.from("third"), first)).toBe(false);
    expect((await storage.get("name.json"))?.toString()).toBe("second");
    const second = await tagNow();
    await storage.delete("name.json");
    expect(await storage.replace("name.json", Buffer.from("third"), second)).toBe(false);
    expect(await list("name.json")).toEqual([]);
  });

  test("counts to 50 with five workers that race for every number", async () => {
    const won = await Promise.all(
      Array.from({ length: 5 }, async (_, worker) => {
        let wins = 0;
        for (let number = 1; number <= 50; number += 1) {
          if (await storage.putIfAbsent(`race/${number}`, Buffer.from(`${worker}`))) wins += 1;
        }
        return wins;
      }),
    );
    expect(won.reduce((sum, wins) => sum + wins)).toBe(50);
    expect(await list("race/")).toHaveLength(50);
  });

  test("lists every object under a prefix, over more than one page of an answer", async () => {
    const names = Array.from({ length: 1_100 }, (_, n) => `many/${n % 7}/${n}.json`);
    for (let n = 0; n < names.length; n += 50) {
      await Promise.all(names.slice(n, n + 50).map((name) => storage.put(name, Buffer.from(name))));
    }
    expect(await list("many/")).toEqual(names.toSorted());
    expect(await list("many/3/")).toEqual(names.filter((name) => name.startsWith("many/3/")).sort());
    for (const info of await listed(storage, "many/5/")) {
      expect(info.bytes).toBe(info.key.length);
      expect(Math.abs(Date.now() - info.modified.getTime())).toBeLessThan(3_600_000);
    }
  });

  test("deletes an object, and does not mind when there is none", async () => {
    await storage.put("gone.json", Buffer.from("x"));
    await storage.delete("gone.json");
    await storage.delete("gone.json");
    expect(await storage.get("gone.json")).toBeUndefined();
  });

  test("refuses to read more than it was told to expect", async () => {
    await storage.put("large", Buffer.alloc(1001));
    await expect(storage.get("large", { maxBytes: 1000 })).rejects.toThrow(/large.*1001.*1000/);
    expect(await storage.get("large", { maxBytes: 1001 })).toHaveLength(1001);
  });
});

// That each request is made again is in test/faults/network.test.ts.
describe("S3 storage", () => {
  const objects = new Map<string, Buffer>();
  const limits = { connectSeconds: 60, attemptSeconds: 60, operationSeconds: 60, attempts: 3 };
  let server: SmallS3;
  let storage: Storage;

  beforeAll(async () => {
    server = await startSmallS3(memoryStorage(objects));
    storage = await openStorage("s3://bucket", directory, server.environment, limits);
    await storage.put("body", Buffer.alloc(300_000, "b"));
  });
  afterAll(async () => {
    await server.stop();
  });

  /** Cuts every answer; tells what was asked for. */
  const cutAll = () => {
    const asked: string[] = [];
    server.fault = (method, key) => {
      asked.push(`${method} ${key}`);
      return "cut";
    };
    return asked;
  };

  test("gives up when every body breaks off, naming store and key", async () => {
    const gets = cutAll();
    await expect(storage.get("body")).rejects.toThrow(/^s3:\/\/bucket\/: cannot read body: /);
    expect(gets).toHaveLength(3);
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
    await expect(fresh.put("damaged", Buffer.from("a"))).rejects.toThrow(
      "cannot write damaged: 400 BadDigest",
    );
    server.fault = () => undefined;
    expect(await fresh.get("damaged")).toBeUndefined();
  });

  test("does not ask again when it was told to stop meanwhile", async () => {
    const gets = cutAll();
    const stop = new AbortController();
    const { fault } = server;
    server.fault = (...request) => {
      stop.abort(new Error("enough"));
      return fault(...request);
    };
    await expect(storage.get("body", { signal: stop.signal })).rejects.toThrow("enough");
    expect(gets).toHaveLength(1);
  });
});

describe("directory storage", () => {
  test("refuses keys that leave the directory or hide in it", async () => {
    const storage = await openStorage("keys", directory);
    for (const key of ["../out", "a/../../out", "/etc/passwd", "a//b", "", "a/", "a\\b", "a b", "é"]) {
      await expect(async () => storage.put(key, Buffer.from("x")), key).rejects.toThrow("not an object key");
    }
    for (const key of ["../out", "a/../../out", "/etc/passwd", "a//b", "", "a/", "a\0b"])
      await expect(async () => storage.get(key), key).rejects.toThrow("not an object key");
  });

  test("reads and deletes whatever it lists, also what has no name of an object", async () => {
    const storage = await openStorage("foreign", directory);
    await storage.put("keys/good", Buffer.from("x"));
    for (const name of ["a b", "é (1).json", "a\\b", "..."]) {
      await writeFile(join(directory, "foreign", "keys", name), name);
      expect(await keysIn(storage, "keys/")).toContain(`keys/${name}`);
      expect(String(await storage.get(`keys/${name}`))).toBe(name);
      await storage.delete(`keys/${name}`);
      expect(await storage.get(`keys/${name}`)).toBeUndefined();
    }
  });

  test("opens regular files alone: nothing that could be waited for without an end", async () => {
    const storage = await openStorage("odd", directory);
    await storage.put("real", Buffer.from("x"));
    const path = (name: string) => join(directory, "odd", name);
    execFileSync(findProgram("mkfifo")!, [path("fifo")]);
    await symlink("/dev/zero", path("device"));
    await symlink("real", path("link"));
    const server = createServer().listen(path("socket"));
    await once(server, "listening");
    for (const key of ["fifo", "device", "socket"])
      await expect(storage.get(key), key).rejects.toThrow(`${key}: it is not a regular file`);
    server.close();
    expect(String(await storage.get("link"))).toBe("x");
  });

  test("looks into no folder in which nothing of that name can be", async () => {
    const storage = await openStorage("large", directory);
    for (const key of ["record.json", "pages/a", "pages-of-more/b"]) await storage.put(key, Buffer.from("x"));
    // Whoever looks into the folder fails.
    await symlink("loop", join(directory, "large", "pages", "loop"));
    expect(await keysIn(storage, "record.json")).toEqual(["record.json"]);
    expect(await keysIn(storage, "pages-")).toEqual(["pages-of-more/b"]);
    await expect(keysIn(storage, "pages")).rejects.toThrow("ELOOP");
  });

  test("leaves no temporary file behind, and shows none that is still being written", async () => {
    const storage = await openStorage("tidy", directory);
    await storage.put("one", Buffer.from("x"));
    await storage.putIfAbsent("one", Buffer.from("y"));
    expect(await readdir(join(directory, "tidy"))).toEqual(["one"]);
    await writeFile(join(directory, "tidy", ".tmp-0123456789abcdef"), "torn");
    expect(await keysIn(storage)).toEqual(["one"]);
  });
});
