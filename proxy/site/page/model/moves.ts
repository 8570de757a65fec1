import type { ScoreListEntry } from "../../../../schemas/records.ts";

/** The time of the newest run of any protocol; an empty text when there is none. */
export const newestRun = (scores: readonly ScoreListEntry[]) =>
  scores.reduce((last, { updatedAt }) => (updatedAt > last ? updatedAt : last), "");

/** The biggest move first. */
export const moversOf = <T extends { delta: number }>(all: readonly T[]): T[] =>
  all.filter(({ delta }) => delta !== 0).toSorted((a, b) => Math.abs(b.delta) - Math.abs(a.delta));
