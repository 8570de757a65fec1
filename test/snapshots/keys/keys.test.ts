import fc from "fast-check";
import { beforeEach, describe, expect, test } from "vitest";
import {
  generateKey,
  issueKey,
  isWellFormedKey,
  keyRing,
  readKeys,
  revokeKey,
  rotateKey,
} from "../../../snapshots/keys/keys.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { seal } from "../../../snapshots/store/objects.ts";
import { type Storage, StorageError } from "../../../snapshots/store/storage.ts";
import { changedStorage, memoryStorage } from "../../helpers/store/storages.ts";

let objects: Map<string, Buffer>;
let storage: Storage;
beforeEach(() => {
  objects = new Map();
  storage = memoryStorage(objects);
});

const now = new Date("2026-03-01T12:00:00.000Z");
const request = { plan: "aegis", owner: "acme" } as const;

describe("generateKey()", () => {
  test("takes its digits from the randomness it is given, and ends in the CRC-32 of the rest", () => {
    expect(generateKey(() => 61)).toBe("prs_live_zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz2PKP0M");
  });

  test("makes another key of the documented form each time, which no change of a character leaves one", () => {
    const change = fc.tuple(fc.nat({ max: 46 }), fc.constantFrom(..."0Az_-é"));
    const keys = new Set<string>();
    const property = fc.property(change, ([place, character]) => {
      const key = generateKey();
      const changed = key.slice(0, place) + character + key.slice(place + 1);
      expect(key).toMatch(/^prs_live_[0-9A-Za-z]{38}$/);
      expect(isWellFormedKey(key)).toBe(true);
      expect(isWellFormedKey(changed)).toBe(changed === key);
      keys.add(key);
    });
    fc.assert(property, { numRuns: 500 });
    expect(keys.size).toBe(500);
  });
});

// Keys that several issue and revoke at once are played by the world.

const hour = 3_600_000;
const later = (hours: number) => new Date(now.getTime() + hours * hour);

// What else a rotation does is in test/scripts/sessions/keys.txt.
test("a rotation leaves an end that comes before the grace is over", async () => {
  const { key, record } = await issueKey(storage, request, now);
  for (const hours of [48, 2, 3]) await revokeKey(storage, record.id, later(hours));
  // Somebody else did so at the same time, and saw none of these.
  const another = { id: record.id, revokedAt: later(72).toISOString() };
  await storage.put(layout.keyRevocation(record.id, later(72).getTime()), seal(another));
  const rotated = await rotateKey(storage, record.id, 24 * hour, later(1));
  expect(rotated?.revocation.revokedAt).toBe(later(2).toISOString());
  expect((await readKeys(storage)).revocations.get(record.id)?.revokedAt).toBe(later(2).toISOString());
  const keys = keyRing(storage, { now: () => later(2).getTime(), damaged: failing });
  await keys.reload();
  expect(keys.judge(key).state).toBe("revoked");
  expect(await revokeKey(storage, "0123456789abcdef", now)).toBeUndefined();
});

describe("keyRing(storage, options)", () => {
  /** A ring over the store, of which some operations may be others, and what it tells. */
  const ring = (changes: Partial<Storage> = {}, maxLost = 9) => {
    const [damaged, lost]: string[][] = [[], []];
    const keys = keyRing(changedStorage(storage, changes), {
      now: () => now.getTime(),
      damaged: ({ key }) => damaged!.push(key),
      lost: (key) => lost!.push(key),
      maxLost,
    });
    const statesOf = (...issued: readonly { key: string }[]) =>
      issued.map(({ key }) => keys.judge(key).state);
    return { ...keys, damaged: damaged!, lost: lost!, statesOf };
  };
  const issue = () => issueKey(storage, request, now);

  test("knows nothing before its first reload, then every key, and no fewer when the store lists none", async () => {
    let isAway = false;
    const keys = ring({ list: (prefix) => (isAway ? failing() : storage.list(prefix)) });
    const { key, record } = await issue();
    expect([keys.ready(), keys.judge(key).state]).toEqual([false, "unknown"]);
    await keys.reload();
    expect([keys.ready(), keys.judge(key)]).toEqual([true, { state: "active", record }]);
    expect(keys.statesOf({ key: generateKey() }, { key: "__proto__" })).toEqual(["unknown", "malformed"]);
    isAway = true;
    await expect(keys.reload()).rejects.toThrow("down");
    expect([keys.ready(), keys.judge(key).state]).toEqual([true, "active"]);
  });

  test("reads those that are new side by side, and each once", async () => {
    for (let n = 0; n < 5; n += 1) await issue();
    const reads: string[] = [];
    const { promise: allAsked, resolve } = Promise.withResolvers<void>();
    const get: Storage["get"] = async (key, options) => {
      if (reads.push(key) === 5) resolve();
      // None is answered before all have been asked for.
      await allAsked;
      return storage.get(key, options);
    };
    const { reload } = ring({ get });
    await reload();
    await reload();
    expect(reads).toHaveLength(5);
  });

  test("reports a damaged record once and serves the others; a damaged revocation ends its key", async () => {
    const { reload, damaged, statesOf } = ring();
    const [good, ended, flipped, moved] = [await issue(), await issue(), await issue(), await issue()];
    const name = layout.key(flipped.record.id);
    objects.set(name, Buffer.from(String(objects.get(name)).replace("acme", "evil")));
    const revocation = layout.keyRevocation(ended.record.id);
    await storage.put(revocation, Buffer.from("{"));
    // A sound record that lies under another key's name.
    const { digest: _, ...content } = moved.record;
    const other = layout.key("00000000000000aa");
    await storage.put(other, seal({ ...content, plan: "aegis" }));
    await storage.delete(layout.key(moved.record.id));
    await reload();
    await reload();
    expect(statesOf(good, ended, flipped, moved)).toEqual(["active", "revoked", "unknown", "unknown"]);
    expect(damaged.sort()).toEqual([name, revocation, other].sort());
  });

  test("keeps a revocation that is deleted or replaced, and tells once that it is gone", async () => {
    const { reload, lost, statesOf } = ring();
    const issued = [await issue(), await issue()] as const;
    const [{ id, digest: _, ...record }, { id: other }] = [issued[0].record, issued[1].record];
    for (const { record } of issued) await revokeKey(storage, record.id, now);
    const name = layout.keyRevocation(id);
    const expectRevoked = async (times: number) => {
      await reload();
      expect([statesOf(...issued), lost]).toEqual([["revoked", "revoked"], Array(times).fill(name)]);
    };
    await expectRevoked(0);
    await storage.delete(name);
    const later = { id: other, revokedAt: "2099-01-01T00:00:00.000Z" };
    await storage.put(layout.keyRevocation(other), seal(later));
    for (let count = 0; count < 3; count += 1) await expectRevoked(1);
    // Another record of the key does not help, and when the revocation is back, its next end is told again.
    await storage.delete(layout.key(id));
    await reload();
    await storage.put(layout.key(id), seal({ id, ...record }));
    await expectRevoked(1);
    await revokeKey(storage, id, now);
    await expectRevoked(1);
    await storage.delete(name);
    await expectRevoked(2);
  });

  test("keeps no more revocations that are gone than it is allowed", async () => {
    const { reload, statesOf } = ring({}, 2);
    const issued = [];
    for (let count = 0; count < 4; count += 1) {
      issued.push(await issue());
      await revokeKey(storage, issued[count]!.record.id, now);
      await reload();
      await storage.delete(layout.keyRevocation(issued[count]!.record.id));
    }
    await reload();
    expect(statesOf(...issued)).toEqual(["active", "active", "revoked", "revoked"]);
  });

  test("forgets a damaged object that is gone: anybody who puts others there would fill its memory", async () => {
    const { reload, damaged } = ring();
    const key = layout.key("00000000000000aa");
    const put = () => storage.put(key, Buffer.from("{}"));
    const told: number[] = [];
    for (const change of [put, put, () => storage.delete(key), put]) {
      await change();
      await reload();
      told.push(damaged.length);
    }
    expect(told).toEqual([1, 1, 1, 2]);
  });

  test("takes revocations up beside an object that the store does not give out", async () => {
    const secret = layout.key("00000000000000aa");
    const get: Storage["get"] = async (key, options) => {
      if (key === secret) throw new StorageError(`${key}: access denied`);
      return storage.get(key, options);
    };
    const issued = await issue();
    const { reload, statesOf } = ring({ get });
    await reload();
    await storage.put(secret, Buffer.from("{}"));
    await revokeKey(storage, issued.record.id, now);
    await expect(reload()).rejects.toThrow(`${secret}: access denied`);
    expect(statesOf(issued)).toEqual(["revoked"]);
    // A ring that has never read all knows of no key whether it is revoked.
    const fresh = ring({ get });
    await expect(fresh.reload()).rejects.toThrow("access denied");
    expect(fresh.ready()).toBe(false);
  });
});

function failing(): AsyncIterable<never> {
  return { [Symbol.asyncIterator]: () => ({ next: () => Promise.reject(new Error("down")) }) };
}
