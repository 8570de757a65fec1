import { describe, expect, test } from "vitest";
import { freeAccounts, sqliteQuota } from "../../../proxy/quota/counters.ts";

const day = "2026-03-01";
const dayAfter = "2026-03-03";
const address = (number: number) => `${freeAccounts}192.0.2.${number}`;

describe("counters of more addresses than are kept", () => {
  test("have a bound; who used much, or has a key, is never forgotten", async () => {
    const store = sqliteQuota(":memory:", { maxRows: 1000 });
    await store.take(address(-1), day, 1000, 1000);
    await store.take("aegis:acme", day, 1, 1);
    await store.take(address(-2), day, 129, 1000);
    const kept = async (among: number) => {
      const used = Array.from({ length: among }, (_, number) => store.used(address(number), day));
      return (await Promise.all(used)).filter((units) => units > 0).length;
    };
    for (let number = 0; number < 20_000; number += 1) {
      await store.take(address(number), day, 1, 1000);
      if (number === 1999) expect(await kept(2000)).toBeLessThanOrEqual(1063);
    }

    expect(await store.take(address(-1), day, 1, 1000)).toEqual({ allowed: false, used: 1000 });
    expect(await store.take("aegis:acme", day, 1, 1)).toEqual({ allowed: false, used: 1 });
    expect(await store.used(address(-2), day)).toBe(129);
    expect(await kept(20_000)).toBeLessThanOrEqual(1063);
    // Those that came last are still there.
    expect(await store.used(address(19_999), day)).toBe(1);
    store.close();
  });

  test("let a new one reach its limit, although all others used more", async () => {
    const store = sqliteQuota(":memory:", { maxRows: 160 });
    for (let number = 0; number < 160; number += 1) await store.take(address(number), day, 5, 1000);
    for (const used of [1, 2, 3])
      expect(await store.take(address(-1), day, 1, 3)).toEqual({ allowed: true, used });
    expect(await store.take(address(-1), day, 1, 3)).toEqual({ allowed: false, used: 3 });
    store.close();
  });

  test("are deleted a few at a time, so that nobody waits for a million", async () => {
    const store = sqliteQuota(":memory:");
    const accounts = Array.from({ length: 5000 }, (_, number) => address(number));
    await Promise.all(accounts.map((account) => store.take(account, day, 1, 1000)));
    const left = async () =>
      (await Promise.all(accounts.map((account) => store.used(account, day)))).filter((used) => used > 0)
        .length;

    const counts = [await left()];
    while (counts.at(-1)! > 0 && counts.length < 50) {
      await store.take(address(0), dayAfter, 1, 1000);
      counts.push(await left());
    }
    expect(counts[0]).toBe(5000);
    expect(counts.at(-1)).toBe(0);
    counts.forEach((count, index) => {
      if (index > 0) expect(counts[index - 1]! - count).toBeLessThan(1000);
    });
    store.close();
  });
});
