import type { FilterField } from "./filters.ts";
import { market, marketDimension } from "./market.ts";
import { directions, meanings } from "./meanings.ts";
import type { Shape } from "./shapes.ts";

/**
 * The documentation of the market's members. It is apart from their table because evaluators of queries load the table
 * only.
 */
export const marketMeanings: ReadonlyMap<Shape, string> = new Map<Shape, string>([
  [market.composite, meanings.composite.meaning],
  [market.tier, meanings.tier.meaning],
  [market.resolvedOutcome, "Outcome label."],
  [market.resolvedAt, "Resolution time; the archive is ordered by it, newest first."],
  [market.resolutionSource, "Where the resolution came from."],
  [market.disputed, "Whether the resolution was disputed."],
  [market.topRiskDriver, meanings.topRiskDriver.meaning],
  [market.flaggedCount, "Number of flagged items."],
  [market.formulaVersion, "Version of the scoring formula."],
  [market.weightVersion, "Version of the dimension weights."],
  [market.dimensions, `Every dimension key exactly once. ${meanings.marketDimension.meaning}`],
  [marketDimension.members.score, meanings.marketDimension.meaning],
  [marketDimension.members.weight, "Weight of the dimension in the composite."],
]);

const exactly = "exactly as published";
const filterMeanings: Partial<Record<FilterField["field"], string>> = {
  category: "Market category, the whole string in any letter case.",
  composite: `Bound on the composite score: ${directions.composite}.`,
  tier: "Tier of the Forge Scale, or several separated by commas.",
  outcome: `Resolved outcome label, ${exactly}.`,
  disputed: "Whether the resolution was disputed.",
  formula_version: `Version of the scoring formula, ${exactly}.`,
  weight_version: `Version of the dimension weights, ${exactly}.`,
};

export const filterMeaning = ({ field }: FilterField): string =>
  filterMeanings[field] ?? `Bound on the score of the dimension ${field}: ${directions.dimension}.`;
