import type { Part } from "../run/run.ts";
import { measureFacets, measureWords } from "./counts.ts";
import { measureFilters } from "./filters.ts";
import { measureMemory } from "./memory.ts";
import { measurePublish } from "./publish.ts";
import { measureRecompute } from "./recompute.ts";
import { measureRemoteStore } from "./remote-store.ts";
import { measureScores } from "./scores.ts";
import { measureSite } from "./site.ts";
import { measureTurns } from "./turns.ts";
import { measureWalk } from "./walk.ts";

export const parts: readonly Part[] = [
  { rows: [1, 2], measure: measureWalk },
  { rows: [3, 4, 5, 17], measure: measureFilters },
  { rows: [6], measure: measureScores },
  { rows: [7, 8, 9, 13, 14], measure: measurePublish },
  { rows: [10], measure: measureMemory },
  { rows: [11], measure: measureFacets },
  { rows: [12], measure: measureWords },
  { rows: [15], measure: measureTurns },
  { rows: [16], measure: measureRecompute },
  { rows: [18, 19, 20, 21], measure: measureRemoteStore },
  { rows: [22], measure: measureSite },
];

export const rowNumbers = parts.flatMap(({ rows }) => rows);
