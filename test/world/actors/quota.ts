import { type QuotaStore, sqliteQuota } from "../../../proxy/quota/counters.ts";
import { createQuota } from "../../../proxy/quota/quota.ts";
import { isFault } from "../../../schemas/errors.ts";
import { type Kernel, must, type Process, Violation } from "../kernel/kernel.ts";
import { Unreachable } from "../kernel/network.ts";
import type { Action } from "../plan.ts";
import type { World } from "../world.ts";

/** Units per day. */
const limit = 12;

/** The counters as a process sees them over its network, which loses, delays and is slow, and brings nothing twice. */
function over(kernel: Kernel, process: Process, store: QuotaStore): QuotaStore {
  const call = <T>(what: string, work: () => Promise<T>): Promise<T> => {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const chance = process.draw(40);
    const delay = () => 1 + process.draw(chance < 3 ? 20_000 : 30);
    const sent = kernel.now + delay();
    kernel.note(
      `${process.name} ${what}${chance < 4 ? ` ${["late", "late", "lost", "lost answer"][chance]}` : ""}`,
    );
    const fail = () => reject(new Unreachable(what));
    kernel.at(kernel.now + 5000, process, fail);
    if (chance !== 2)
      kernel.at(sent, process, () =>
        work().then(
          (value) => chance !== 3 && kernel.at(kernel.now + delay(), process, () => resolve(value)),
        ),
      );
    return promise;
  };
  return {
    take: (...given) => call("take", () => store.take(...given)),
    giveBack: (...given) => call("give back", () => store.giveBack(...given)),
    used: (...given) => call("used", () => store.used(...given)),
    keeping: () => store.keeping(),
    close() {},
  };
}

/** Serves requests that cost units, some of which are given back. */
export async function meterOnce(world: World, process: Process, { choices }: Action) {
  const { kernel, counted } = world;
  counted.store ??= sqliteQuota(":memory:");
  const store = over(kernel, process, counted.store);
  const quota = createQuota(store, { onFailure: "closed", now: () => Date.now(), failed: () => {} });
  const account = `owner-${choices[0]! % 2}`;
  const serve = async (units: number, fate: number) => {
    try {
      const receipt = await quota.take({ plan: "aegis", account, limit }, units);
      if (!receipt.allowed) return;
      const name = `${account} ${receipt.resetAt}`;
      const add = (more: number) => {
        const served = (counted.served.get(name) ?? 0) + more;
        counted.served.set(name, served);
        must(
          "no more is served than the plan has",
          served <= limit,
          () => `${served} of ${limit} for ${name}`,
        );
      };
      add(receipt.units);
      const left = receipt.remaining;
      must("what is left is told", left >= 0 && left < limit, () => `${left}`);
      if (fate === 0) {
        await receipt.more();
        add(1);
      } else if (fate < 4) {
        // It is given back while the store is asked.
        add(-receipt.units);
        await receipt.giveBack();
      }
    } catch (error) {
      if (error instanceof Violation) throw error;
      const documented = isFault(error, "QUOTA_UNAVAILABLE", "QUOTA_EXCEEDED");
      must("every error is a documented one", documented, () => `${error}`);
    }
  };
  for (let round = 0; round < 4; round += 1) {
    const units = () => 1 + process.draw(3);
    await Promise.all([serve(units(), process.draw(9)), serve(units(), process.draw(9))]);
    await kernel.wait(process, process.draw(choices[1]! % 2 ? 4_000_000 : 3000));
  }
}
