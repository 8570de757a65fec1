import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { readdir, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { openStorage } from "../../../snapshots/store/open-storage.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import { findProgram } from "../../helpers/servers/programs.ts";
import { listed } from "../../helpers/store/storages.ts";
import { describeStores } from "../../helpers/store/stores.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";

const directory = testFolder();

const keysIn = async (storage: Storage, prefix = "") =>
  (await listed(storage, prefix)).map(({ key }) => key).sort();

describeStores("storage in %s", ({ newStore }) => {
  let storage: Storage;
  const list = (prefix: string) => keysIn(storage, prefix);

  beforeAll(() => {
    storage = newStore();
  });

  test("lists nothing and finds nothing before the first put", async () => {
    expect(await list("")).toEqual([]);
    expect(await storage.get("nothing.json")).toBeUndefined();
    expect(await storage.get("no/such/folder.json")).toBeUndefined();
  });

  test("gives back the bytes it was given, and replaces them whole", async () => {
    const bytes = Buffer.from(Array.from({ length: 70_000 }, (_, n) => n % 256));
    // An S3 server confirms what it received by a checksum; a directory is read back.
    expect(await storage.put("a/bytes", bytes)).toBe(storage.location.startsWith("s3:"));
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
