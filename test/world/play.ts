import { Trust } from "../../snapshots/trust/trust.ts";
import { verify } from "../../snapshots/verify/verify.ts";
import { drawing } from "../helpers/store/drawing.ts";
import { exportOnce } from "./actors/exports.ts";
import { address, fetchFromGate } from "./actors/gate.ts";
import { issueAgain } from "./actors/keys.ts";
import { collectOnce, publishOne, rollbackOnce } from "./actors/operator.ts";
import { admitPartners, syncAgain } from "./actors/partner.ts";
import { meterOnce } from "./actors/quota.ts";
import { clientOnce, proxyOnce } from "./actors/readers.ts";
import { stealOnce } from "./actors/thief.ts";
import { key, Witnessing } from "./actors/witness.ts";
import { Judge } from "./judge.ts";
import { Kernel, must, Process, seedOf } from "./kernel/kernel.ts";
import { Store } from "./kernel/store.ts";
import { type Action, hour, type Plan } from "./plan.ts";
import type { World } from "./world.ts";

const begin = Date.parse("2026-03-01T12:00:00.000Z");
/** No run takes longer: gc relies on that. */
const longestRun = 4.5 * hour;

const works = {
  publish: publishOne,
  rollback: rollbackOnce,
  collect: collectOnce,
  proxy: proxyOnce,
  client: clientOnce,
  meter: meterOnce,
  steal: stealOnce,
  sync: syncAgain,
  issue: issueAgain,
  export: exportOnce,
};

/** What became of a world. */
export interface Outcome {
  plan: Plan;
  failure: Error | undefined;
  trace: readonly string[];
  /** The faults that its processes met, each by a name. */
  met: readonly string[];
}

/** Runs the world of a plan to its end. */
export async function play(plan: Plan): Promise<Outcome> {
  const kernel = new Kernel(begin);
  const judge: Judge = new Judge(
    (key) => store.objects.get(key),
    () => kernel.now,
  );
  const store = new Store(kernel, judge.watch, plan);
  const world: World = {
    plan,
    kernel,
    judge,
    store,
    servers: [],
    counted: { store: undefined, served: new Map() },
    issued: new Map(),
  };
  const witnesses = new Witnessing(kernel);
  kernel.fetch = (from, url, given) =>
    url.startsWith(address) ? fetchFromGate(world, from, url, given) : witnesses.fetch(from, url, given);
  if (plan.actions.some(({ kind }) => kind === "sync")) admitPartners(kernel, store);
  let failure: Error | undefined;
  try {
    for (const action of plan.actions) start(world, action, begin + action.at);
    await kernel.run();
    // After a theft, an operator has to put back what is lost.
    if (judge.thieves.size === 0) await heal(world);
  } catch (error) {
    failure = error instanceof Error ? error : new Error(String(error));
  }
  world.counted.store?.close();
  return { plan, failure, trace: kernel.trace, met: store.met };
}

function start(world: World, action: Action, at: number): void {
  const { kernel, plan } = world;
  const { kind, number, ahead } = action;
  const process = new Process(`${kind}-${number}`, drawing(seedOf(plan.seed, number)), ahead);
  kernel.start(at, process, () => works[kind](world, process, action));
  if (!["publish", "rollback", "collect", "export"].includes(kind)) return;
  kernel.at(at + longestRun, process, () => kernel.kill(process));
}

/** When all is calm again, one run puts right whatever was left behind, and the store is whole. */
async function heal(world: World): Promise<void> {
  const { kernel, store, plan } = world;
  store.calm = true;
  const last = plan.actions.length + 1000;
  const once = async (kind: Action["kind"], number: number, hours: number) => {
    const choices = [number, 0, 0, 0, 0, 0];
    start(world, { number, kind, at: 0, ahead: 0, choices }, kernel.now + hours * hour);
    await kernel.run();
    // A read that it no longer needed may end after it.
    const told = ["succeeds", "fails"].map((how) => ` ${kind}-${number} ${how}`);
    const end = kernel.trace.findLast((line) => told.some((how) => line.includes(how))) ?? "it was killed";
    must("a run succeeds once all is calm", end.endsWith(told[0]!), () => end);
  };
  await once("publish", last, 100);
  await once("collect", last + 1, 10);
  // It takes as long as most of the rest.
  if (plan.seed % 4 > 0) return;
  const checker = new Process("verify", drawing(1), 0);
  kernel.start(kernel.now, checker, async () => {
    const trust = plan.signed ? { trust: new Trust([key]) } : {};
    const { faults } = await verify(store.of(checker), () => {}, trust);
    must("the store is whole in the end", faults.length === 0, () => JSON.stringify(faults));
  });
  await kernel.run();
}
