import "./kernel/virtual.ts";
import { parseArgs } from "node:util";
import { type Plan, planOf } from "./plan.ts";
import type { Outcome } from "./play.ts";

// Runs worlds, one after the other, until one breaks a rule:
// node --import ./scripts/installed.js test/world/run.ts --from 1 --count 1000

// What is replaced for a world has to be so before the product is loaded.
const { play } = await import("./play.ts");

const { values } = parseArgs({
  options: {
    from: { type: "string", default: "1" },
    count: { type: "string", default: "1000000000" },
    seconds: { type: "string", default: "1000000000" },
    /** One world, whose trace is printed. */
    seed: { type: "string" },
    only: { type: "string" },
    without: { type: "string" },
  },
});

const wordsOf = (text: string | undefined) => text?.split(",").filter((word) => word !== "") ?? [];

/** A plan with no more than these actions, and without these faults. */
function reduced(plan: Plan, only: readonly number[], without: readonly string[]): Plan {
  const actions = plan.actions.filter(({ number }) => only.includes(number));
  return { ...plan, actions, without: new Set(without) };
}

const ruleOf = ({ failure }: Outcome) => failure && `${failure.name} ${failure.message.split(":")[0]}`;

/** Leaves out actions and faults for as long as the same rule is broken. */
async function shrunk(found: Outcome): Promise<Outcome> {
  let best = found;
  const attempt = async (plan: Plan) => {
    const outcome = await play(plan);
    if (ruleOf(outcome) !== ruleOf(found)) return false;
    best = outcome;
    return true;
  };
  for (let again = true; again; ) {
    again = false;
    for (const { number } of best.plan.actions.toReversed()) {
      const only = best.plan.actions.map((action) => action.number).filter((each) => each !== number);
      if (await attempt(reduced(best.plan, only, [...best.plan.without]))) again = true;
    }
    for (const name of best.met.toReversed()) {
      const only = best.plan.actions.map((action) => action.number);
      if (await attempt(reduced(best.plan, only, [...best.plan.without, name]))) again = true;
    }
  }
  return best;
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

async function replay(seed: number): Promise<void> {
  let plan = planOf(seed);
  const only =
    values.only === undefined ? plan.actions.map(({ number }) => number) : wordsOf(values.only).map(Number);
  plan = reduced(plan, only, wordsOf(values.without));
  const outcome = await play(plan);
  for (const line of outcome.trace) say(line);
  say(outcome.failure?.stack ?? "no rule was broken");
  process.exitCode = outcome.failure ? 1 : 0;
}

async function search(): Promise<void> {
  const began = performance.now();
  const [from, count, seconds] = [Number(values.from), Number(values.count), Number(values.seconds)];
  let seed = from;
  for (; seed < from + count && performance.now() - began < seconds * 1000; seed += 1) {
    const outcome = await play(planOf(seed));
    if ((seed - from + 1) % 1000 === 0) process.stderr.write(`${seed - from + 1} seeds, to ${seed}\n`);
    if (!outcome.failure) continue;
    const elapsed = ((performance.now() - began) / 1000).toFixed(1);
    say(`SEED=${seed} after ${seed - from + 1} seeds and ${elapsed} s: ${outcome.failure.message}`);
    const { plan, failure } = await shrunk(outcome);
    const only = plan.actions.map(({ number }) => number).join();
    const without = [...plan.without].join();
    say(`shortest: --seed ${seed} --only ${only} --without "${without}"\n${failure?.stack}`);
    process.exitCode = 1;
    return;
  }
  const elapsed = (performance.now() - began) / 1000;
  const cpu = process.cpuUsage();
  const rate = (seed - from) / ((cpu.user + cpu.system) / 1e6);
  say(
    `${seed - from} seeds from ${from} in ${elapsed.toFixed(1)} s, ${rate.toFixed(1)} a second of the processor`,
  );
}

await (values.seed === undefined ? search() : replay(Number(values.seed)));
