import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { clientAccount } from "../../../proxy/access/identity.ts";
import { freeAccounts, sqliteQuota } from "../../../proxy/quota/counters.ts";
import { createQuota } from "../../../proxy/quota/quota.ts";
import { collectGarbage } from "../../helpers/servers/memory.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";

const folder = testFolder();
const day = "2026-03-01";
const dayAfter = "2026-03-03";
const address = (number: number) => {
  const [high, middle, low] = [number >> 16, (number >> 8) & 255, number & 255];
  return freeAccounts + clientAccount(`10.${high}.${middle}.${low}`, [], { hops: 0 });
};
/** Two that no loop reaches. */
const [spender, user] = [address(1_000_000), address(1_000_001)];

async function memoryInUse(): Promise<number> {
  await collectGarbage();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

describe("counters of more addresses than are kept", () => {
  test("have a bound, and take no memory; who used much, or has a key, is never forgotten", async () => {
    const store = sqliteQuota(join(folder, "bounded.sqlite"), { maxRows: 1000 });
    const failed = (error: unknown) => expect.unreachable(String(error));
    const quota = createQuota(store, { onFailure: "closed", now: () => Date.parse(day), failed });
    const takeFirst = async (number: number) => {
      const { remaining } = await quota.take({ plan: "free", account: address(number), limit: 1000 }, 1);
      if (remaining !== 999) expect.fail(`${number}: ${remaining} left`);
    };
    const [addresses, atOnce] = [50_000, 500];
    await store.take(spender, day, 1000, 1000);
    await store.take("aegis:acme", day, 1, 1);
    await store.take(user, day, 129, 1000);
    const kept = async (among: number) => {
      const used = Array.from({ length: among }, (_, number) => store.used(address(number), day));
      return (await Promise.all(used)).filter((units) => units > 0).length;
    };
    const before = await memoryInUse();
    for (let number = 0; number < addresses; number += atOnce) {
      await Promise.all(Array.from({ length: atOnce }, (_, place) => takeFirst(number + place)));
      if (number === 2000) expect(await kept(2500)).toBeLessThanOrEqual(1063);
    }
    // The name of an account alone is longer than this for each of them.
    expect((await memoryInUse()) - before).toBeLessThan(16 * addresses);

    expect(await store.take(spender, day, 1, 1000)).toEqual({ allowed: false, used: 1000 });
    expect(await store.take("aegis:acme", day, 1, 1)).toEqual({ allowed: false, used: 1 });
    expect(await store.used(user, day)).toBe(129);
    expect(await kept(addresses)).toBeLessThanOrEqual(1063);
    // Those that came last are still there.
    expect(await store.used(address(addresses - 1), day)).toBe(1);
    quota.close();
  });

  test("let a new one reach its limit, although all others used more", async () => {
    const store = sqliteQuota(":memory:", { maxRows: 160 });
    for (let number = 0; number < 160; number += 1) await store.take(address(number), day, 5, 1000);
    for (const used of [1, 2, 3])
      expect(await store.take(spender, day, 1, 3)).toEqual({ allowed: true, used });
    expect(await store.take(spender, day, 1, 3)).toEqual({ allowed: false, used: 3 });
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
