import { drawing } from "../helpers/store/drawing.ts";
import type { Climate } from "./kernel/store.ts";

const second = 1000;
const minute = 60 * second;
export const hour = 60 * minute;

/** What actors do, and how often each is drawn. */
const shares = {
  publish: 5,
  rollback: 1,
  collect: 4,
  proxy: 2,
  client: 4,
  meter: 1,
  sync: 1,
  steal: 0,
  issue: 1,
  export: 2,
};
type Kind = keyof typeof shares;
/** The same in worlds of operators, which leave much behind before collections come, all at the end. */
const untidy = { publish: 6, rollback: 3, export: 5 };

/** What an actor does once. Its numbers are drawn with the plan: they mean the same whatever else is left out. */
export interface Action {
  /** Its number in the whole plan. */
  number: number;
  kind: Kind;
  /** Milliseconds after the world's beginning. */
  at: number;
  /** By how many milliseconds its machine's clock is ahead. */
  ahead: number;
  /** Drawn numbers for its choices. */
  choices: readonly number[];
}

/** All that decides a world. */
export interface Plan {
  seed: number;
  signed: boolean;
  likeS3: boolean;
  /** Whether archives have two pages. */
  large: boolean;
  /** How many contents its publishers have. The fewer, the more often an old one comes back. */
  contents: number;
  /** Whether witnesses cosign, and readers ask for that. */
  witnessed: boolean;
  climate: Climate;
  actions: readonly Action[];
  /** Faults that are left out. */
  without: ReadonlySet<string>;
}

const kindsOf = (share: Partial<Record<Kind, number>>) =>
  (Object.entries(share) as [Kind, number][]).flatMap(([kind, times]) => Array<Kind>(times).fill(kind));

/** The world of a seed. */
export function planOf(seed: number): Plan {
  const draw = drawing(seed);
  const one = <T>(of: readonly T[]): T => of[draw(of.length)]!;
  const rough = draw(2);
  const rate = (most: number) => (rough && draw(2) ? draw(most) + 1 : 0);
  const climate: Climate = {
    kill: rate(6),
    "killed after": rate(4),
    lost: rate(6),
    "lost answer": rate(6),
    again: rate(10),
    late: rate(4),
    slow: one([0, 100]),
  };
  // Some worlds take minutes, others weeks.
  const length = one([2 * minute, 20 * minute, 3 * hour, 30 * hour, 200 * hour]);
  const wrongClock = () => (draw(6) ? draw(2 * second) : one([-72, -30, -2, 0.9, 2, 30, 72]) * hour);
  const [signed, likeS3, large] = [draw(2) === 1, draw(2) === 1, draw(6) === 0];
  const [witnessed, robbed] = [signed && draw(3) === 0, signed && draw(3) === 0];
  const share = robbed ? { ...shares, steal: 3 } : draw(2) ? shares : untidy;
  const kinds = kindsOf(share);
  const contents = one([2, 3, 6]);
  const times = Array.from({ length: 8 + draw(10) }, () => draw(length / second) * second + draw(second));
  times.sort((a, b) => a - b);
  const actions: Action[] = [];
  for (const [number, time] of times.entries()) {
    const isLast = share === untidy && number >= times.length - 3;
    const kind = number < 2 ? "publish" : number === 2 ? "proxy" : isLast ? "collect" : one(kinds);
    // Counters stay for yesterday and today, so that proxies whose days are further apart do not share any.
    const most = kind === "meter" ? 2 * hour : Number.POSITIVE_INFINITY;
    const met = kind === "collect" && draw(6) > 0 && actions.findLast((each) => each.kind in untidy);
    const ahead = wrongClock();
    actions.push({
      number,
      kind,
      at: number === 0 ? 0 : met ? met.at + draw(20 * second) - 10 * second : time,
      ahead: Math.abs(ahead) > most ? 0 : ahead,
      choices: Array.from({ length: 6 }, () => draw(2 ** 20)),
    });
  }
  return { seed, signed, likeS3, large, contents, witnessed, climate, actions, without: new Set() };
}
