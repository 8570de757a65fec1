import { measureFacets } from "./row-facets.ts";
import { measureFilters } from "./row-filters.ts";
import { measureMemory } from "./row-memory.ts";
import { measurePublish } from "./row-publish.ts";
import { measureScores } from "./row-scores.ts";
import { measureTurns } from "./row-turns.ts";
import { measureWalk } from "./row-walk.ts";
import { measureWords } from "./row-words.ts";
import type { Part } from "./run.ts";

export const parts: readonly Part[] = [
  { rows: [1, 2], measure: measureWalk },
  { rows: [3, 4, 5], measure: measureFilters },
  { rows: [6], measure: measureScores },
  { rows: [7, 8, 9, 13, 14], measure: measurePublish },
  { rows: [10], measure: measureMemory },
  { rows: [11], measure: measureFacets },
  { rows: [12], measure: measureWords },
  { rows: [15], measure: measureTurns },
];

export const rowNumbers = parts.flatMap(({ rows }) => rows);
