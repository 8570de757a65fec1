import fc from "fast-check";
import { beforeEach, describe, expect, test } from "vitest";
import {
  generateKey,
  issueKey,
  isWellFormedKey,
  type KeyRing,
  keyRing,
  readKeys,
  revokeKey,
  rotateKey,
} from "../../../snapshots/keys/keys.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { seal } from "../../../snapshots/store/objects.ts";
import { type Storage, StorageError } from "../../../snapshots/store/storage.ts";
import { memoryStorage } from "../../helpers/store/storages.ts";

let objects: Map<string, Buffer>;
let storage: Storage;
beforeEach(() => {
  objects = new Map();
  storage = memoryStorage(objects);
});

const now = new Date("2026-03-01T12:00:00.000Z");
const request = { plan: "aegis", owner: "acme" } as const;

describe("generateKey()", () => {
  test("makes keys of the documented form, each another one", () => {
    const keys = new Set(Array.from({ length: 500 }, () => generateKey()));
    expect(keys.size).toBe(500);
    for (const key of keys) expect(key).toMatch(/^prs_live_[0-9A-Za-z]{38}$/);
  });

  test("takes its digits from the randomness it is given, and ends in the CRC-32 of the rest", () => {
    const key = generateKey(() => 61);
    expect(key.slice(0, 41)).toBe(`prs_live_${"z".repeat(32)}`);
    expect(key).toBe("prs_live_zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz2PKP0M");
  });
});

describe("isWellFormedKey(text)", () => {
  test("takes every generated key and none with one character changed", () => {
    const change = fc.tuple(fc.nat({ max: 46 }), fc.constantFrom(..."0Az_-é"));
    fc.assert(
      fc.property(change, ([place, character]) => {
        const key = generateKey();
        const changed = key.slice(0, place) + character + key.slice(place + 1);
        expect(isWellFormedKey(key)).toBe(true);
        expect(isWellFormedKey(changed)).toBe(changed === key);
      }),
    );
  });
});

// Keys that several issue and revoke at once are played by the world.

describe("rotateKey(storage, id, graceMilliseconds, now)", () => {
  const hour = 3_600_000;
  const later = (hours: number) => new Date(now.getTime() + hours * hour);

  test("makes a key with the same rights; the old one ends with the grace, and not before", async () => {
    const old = await issueKey(storage, { ...request, quota: 7, expiresAt: later(99) }, now);
    const fresh = (await rotateKey(storage, old.record.id, 24 * hour, later(1)))!;
    const { id: _, secretHash: __, issuedAt, digest: ___, ...rights } = fresh.record;
    const expiresAt = later(99).toISOString();
    expect(rights).toEqual({ owner: "acme", plan: "aegis", quota: 7, expiresAt });
    expect(issuedAt).toBe(later(1).toISOString());
    expect(fresh.revocation).toMatchObject({ id: old.record.id, revokedAt: later(25).toISOString() });
    const clock = { now: later(25).getTime() - 1 };
    const keys = keyRing(storage, { now: () => clock.now, damaged: failing });
    await keys.reload();
    const states = () => [old, fresh].map(({ key }) => keys.judge(key).state);
    expect(states()).toEqual(["active", "active"]);
    clock.now += 1;
    expect(states()).toEqual(["revoked", "active"]);
  });

  test("leaves an end that comes before the grace is over", async () => {
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

  test("refuses a key that has ended, and makes none then", async () => {
    const expired = await issueKey(storage, { ...request, expiresAt: later(1) }, now);
    const revoked = await issueKey(storage, request, now);
    await revokeKey(storage, revoked.record.id, later(9));
    await revokeKey(storage, revoked.record.id, later(1));
    for (const { record } of [expired, revoked]) {
      const rotation = rotateKey(storage, record.id, hour, later(1));
      await expect(rotation).rejects.toThrow(`key ${record.id} ended at ${later(1).toISOString()}`);
    }
    expect(await rotateKey(storage, "0123456789abcdef", hour, now)).toBeUndefined();
    expect((await readKeys(storage)).records).toHaveLength(2);
  });
});

describe("keyRing(storage, options)", () => {
  const ring = () => {
    const clock = { now: now.getTime() };
    const damaged: string[] = [];
    const keys = keyRing(storage, { now: () => clock.now, damaged: (error) => damaged.push(error.key) });
    return { clock, damaged, keys };
  };

  test("knows nothing before its first reload, and then every key", async () => {
    const { keys } = ring();
    const { key, record } = await issueKey(storage, request, now);
    expect([keys.ready(), keys.judge(key).state]).toEqual([false, "unknown"]);
    await keys.reload();
    expect([keys.ready(), keys.judge(key)]).toEqual([true, { state: "active", record }]);
    expect(keys.judge(generateKey()).state).toBe("unknown");
    expect(keys.judge("__proto__").state).toBe("malformed");
  });

  test("reads those that are new side by side, and each once", async () => {
    for (let n = 0; n < 5; n += 1) await issueKey(storage, request, now);
    const reads: string[] = [];
    const { promise: allAsked, resolve } = Promise.withResolvers<void>();
    const get: Storage["get"] = async (key, options) => {
      if (reads.push(key) === 5) resolve();
      // None is answered before all have been asked for.
      await allAsked;
      return storage.get(key, options);
    };
    const keys = keyRing({ ...storage, get }, { now: () => 0, damaged: failing });
    await keys.reload();
    await keys.reload();
    expect(reads).toHaveLength(5);
  });

  test("reports a damaged record once and serves the others; a damaged revocation ends its key", async () => {
    const { keys, damaged } = ring();
    const [good, ended, flipped] = [
      await issueKey(storage, request, now),
      await issueKey(storage, request, now),
      await issueKey(storage, request, now),
    ];
    const name = layout.key(flipped.record.id);
    objects.set(name, Buffer.from(String(objects.get(name)).replace("acme", "evil")));
    await storage.put(layout.keyRevocation(ended.record.id), Buffer.from("{"));
    await keys.reload();
    await keys.reload();
    const states = [good, ended, flipped].map(({ key }) => keys.judge(key).state);
    expect(states).toEqual(["active", "revoked", "unknown"]);
    expect(damaged.sort()).toEqual([name, layout.keyRevocation(ended.record.id)].sort());
  });

  test("takes no record that lies under another key's name", async () => {
    const { keys, damaged } = ring();
    const { key, record } = await issueKey(storage, request, now);
    const { digest: _, ...content } = record;
    await storage.put(layout.key("00000000000000aa"), seal({ ...content, plan: "aegis" }));
    await storage.delete(layout.key(record.id));
    await keys.reload();
    expect([keys.judge(key).state, damaged.length]).toEqual(["unknown", 1]);
  });

  test("keeps a revocation that is deleted or replaced, and tells once that it is gone", async () => {
    const lost: string[] = [];
    const keys = keyRing(storage, {
      now: () => now.getTime(),
      damaged: failing,
      lost: (key) => lost.push(key),
    });
    const issued = [await issueKey(storage, request, now), await issueKey(storage, request, now)];
    const names = issued.map(({ record }) => layout.keyRevocation(record.id));
    for (const { record } of issued) await revokeKey(storage, record.id, now);
    await keys.reload();
    const states = () => issued.map(({ key }) => keys.judge(key).state);
    expect([states(), lost]).toEqual([["revoked", "revoked"], []]);
    await storage.delete(names[0]!);
    const later = { id: issued[1]!.record.id, revokedAt: "2099-01-01T00:00:00.000Z" };
    await storage.put(names[1]!, seal(later));
    for (let count = 0; count < 3; count += 1) {
      await keys.reload();
      expect([states(), lost]).toEqual([["revoked", "revoked"], [names[0]]]);
    }
    // Another record of the key does not help, and when the revocation is back, its next end is told again.
    await storage.delete(layout.key(issued[0]!.record.id));
    await keys.reload();
    const { digest: _, ...again } = issued[0]!.record;
    await storage.put(layout.key(again.id), seal(again));
    await keys.reload();
    expect(states()).toEqual(["revoked", "revoked"]);
    await revokeKey(storage, issued[0]!.record.id, now);
    await keys.reload();
    await storage.delete(names[0]!);
    await keys.reload();
    expect([states(), lost]).toEqual([
      ["revoked", "revoked"],
      [names[0], names[0]],
    ]);
  });

  test("keeps no more revocations that are gone than it is allowed", async () => {
    const options = { now: () => now.getTime(), damaged: failing };
    const keys = keyRing(storage, { ...options, maxLost: 2 });
    const issued = [];
    for (let count = 0; count < 4; count += 1) {
      issued.push(await issueKey(storage, request, now));
      await revokeKey(storage, issued[count]!.record.id, now);
      await keys.reload();
      await storage.delete(layout.keyRevocation(issued[count]!.record.id));
    }
    await keys.reload();
    const states = issued.map(({ key }) => keys.judge(key).state);
    expect(states).toEqual(["active", "active", "revoked", "revoked"]);
  });

  test("forgets a damaged object that is gone: anybody who puts others there would fill its memory", async () => {
    const { keys, damaged } = ring();
    const key = layout.key("00000000000000aa");
    const put = () => storage.put(key, Buffer.from("{}"));
    const states = [put, put, () => storage.delete(key), put];
    const told: number[] = [];
    for (const change of states) {
      await change();
      await keys.reload();
      told.push(damaged.length);
    }
    expect(told).toEqual([1, 1, 1, 2]);
  });

  test("keeps the keys it has when the store lists none", async () => {
    let isAway = false;
    const list: Storage["list"] = (prefix) => (isAway ? failing() : storage.list(prefix));
    const keys = keyRing({ ...storage, list }, { now: () => now.getTime(), damaged: failing });
    const { key } = await issueKey(storage, request, now);
    await keys.reload();
    isAway = true;
    await expect(keys.reload()).rejects.toThrow("down");
    expect([keys.ready(), keys.judge(key).state]).toEqual([true, "active"]);
  });

  test("takes revocations up beside an object that the store does not give out", async () => {
    const secret = layout.key("00000000000000aa");
    const get: Storage["get"] = async (key, options) => {
      if (key === secret) throw new StorageError(`${key}: access denied`);
      return storage.get(key, options);
    };
    const of = (): KeyRing => keyRing({ ...storage, get }, { now: () => now.getTime(), damaged: failing });
    const { key, record } = await issueKey(storage, request, now);
    const keys = of();
    await keys.reload();
    await storage.put(secret, Buffer.from("{}"));
    await revokeKey(storage, record.id, now);
    await expect(keys.reload()).rejects.toThrow(`${secret}: access denied`);
    expect(keys.judge(key).state).toBe("revoked");
    // A ring that has never read all knows of no key whether it is revoked.
    const fresh = of();
    await expect(fresh.reload()).rejects.toThrow("access denied");
    expect(fresh.ready()).toBe(false);
  });
});

function failing(): AsyncIterable<never> {
  return { [Symbol.asyncIterator]: () => ({ next: () => Promise.reject(new Error("down")) }) };
}
