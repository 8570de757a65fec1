import { type Condition, filterFields } from "../../../schemas/filters.ts";
import type { Market } from "../../../schemas/market.ts";
import { foldCase } from "../../../schemas/names.ts";
import { isSettled, wordsOf } from "../../index/words.ts";
import type { ArchiveFilter } from "../query/filter.ts";

/**
 * Judges a market by its record alone. Ignores words where versions of Unicode may find different ones in its question.
 * Throws an Error when the record lacks a dimension.
 */
export function isSelected(
  market: Market,
  { conditions, words }: Pick<ArchiveFilter, "conditions" | "words">,
): boolean {
  if (!conditions.every((condition) => meets(market, condition))) return false;
  if (words.length === 0 || !isSettled(market.question)) return true;
  const own = wordsOf(market.question);
  return words.every(({ text, prefix }) =>
    own.some((word) => (prefix ? word.startsWith(text) : word === text)),
  );
}

function meets(market: Market, condition: Condition): boolean {
  if (condition.kind === "time") {
    const time = Date.parse(market.resolvedAt);
    return condition.from <= time && time <= condition.to;
  }
  const row = filterFields.find(({ field }) => field === condition.field)!;
  if (condition.kind === "integer") {
    const value = Number(row.of(market));
    return condition.ranges.some(({ min, max }) => min <= value && value <= max);
  }
  const [own, asked] = [String(row.of(market)), condition.value];
  return row.kind === "label" && row.fold ? foldCase(own) === foldCase(asked) : own === asked;
}
