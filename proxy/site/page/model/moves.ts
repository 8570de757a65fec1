import type { ScoreListEntry } from "../../../../schemas/records.ts";

/** When the newest run of all protocols was; an empty text without any. */
export const newestRun = (scores: readonly ScoreListEntry[]) =>
  scores.reduce((last, { updatedAt }) => (updatedAt > last ? updatedAt : last), "");

/** Those that moved, the biggest move first. */
export const moversOf = <T extends { delta: number }>(all: readonly T[]): T[] =>
  all.filter(({ delta }) => delta !== 0).toSorted((a, b) => Math.abs(b.delta) - Math.abs(a.delta));
