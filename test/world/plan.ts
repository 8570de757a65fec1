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
  /** Whether witnesses cosign, and readers ask for that. */
  witnessed: boolean;
  climate: Climate;
  actions: readonly Action[];
  /** Faults that are left out. */
  without: ReadonlySet<string>;
}

const kindsOf = (share: Record<Kind, number>) =>
  (Object.entries(share) as [Kind, number][]).flatMap(([kind, times]) => Array<Kind>(times).fill(kind));

/** The world of a seed. */
export function planOf(seed: number): Plan {
  const draw = drawing(seed);
  const one = <T>(of: readonly T[]): T => of[draw(of.length)]!;
  const rate = (most: number) => (draw(2) ? draw(most) + 1 : 0);
  const climate: Climate = {
    kill: rate(6),
    "killed after": rate(4),
    lost: rate(6),
    "lost answer": rate(6),
    again: rate(10),
    late: rate(4),
    slow: rate(12),
  };
  // Some worlds take minutes, others weeks.
  const length = one([2 * minute, 20 * minute, 3 * hour, 30 * hour, 200 * hour]);
  const wrongClock = () => (draw(6) ? draw(2 * second) : one([-72, -30, -2, 0.9, 2, 30, 72]) * hour);
  const [signed, likeS3, large] = [draw(2) === 1, draw(2) === 1, draw(6) === 0];
  const [witnessed, robbed] = [signed && draw(3) === 0, signed && draw(3) === 0];
  const kinds = kindsOf(robbed ? { ...shares, steal: 3 } : shares);
  const actions = Array.from({ length: 8 + draw(10) }, (_, number): Action => {
    const kind = number < 2 ? "publish" : number === 2 ? "proxy" : one(kinds);
    // Counters stay for yesterday and today, so that proxies whose days are further apart do not share any.
    const most = kind === "meter" ? 2 * hour : Number.POSITIVE_INFINITY;
    const [at, ahead] = [number === 0 ? 0 : draw(length / second) * second + draw(second), wrongClock()];
    return {
      number,
      kind,
      at,
      ahead: Math.abs(ahead) > most ? 0 : ahead,
      choices: Array.from({ length: 6 }, () => draw(2 ** 20)),
    };
  });
  return { seed, signed, likeS3, large, witnessed, climate, actions, without: new Set() };
}
