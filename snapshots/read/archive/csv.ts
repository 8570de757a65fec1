import { dimensionKeysIn, plainMembersIn } from "../../../schemas/market.ts";
import type { HistoricalMarket } from "../../../schemas/records.ts";
import { textOf } from "../../format/bytes.ts";
import { type Cell, csvRecord } from "../../format/csv.ts";

/**
 * The columns of a market in CSV (INTERFACE 4.5): its members in a version of the feed, then the score of each
 * dimension.
 */
const csvColumns = (version: string): readonly string[] => [
  ...plainMembersIn(version),
  ...dimensionKeysIn(version),
];

// Parsing this many markets takes about as long as inflating a run.
const marketsPerStep = 8;

/** One line (RFC 4180). */
export const csvHead = (version: string): string => csvRecord(csvColumns(version));

/** One record for each JSON text of a market. Waits for a `turn` before every few of them. */
export async function csvOf(
  markets: readonly Uint8Array[],
  version: string,
  turn: () => Promise<void>,
): Promise<string> {
  const columns = csvColumns(version);
  let text = "";
  for (const [index, market] of markets.entries()) {
    if (index % marketsPerStep === 0) await turn();
    text += csvRecord(valuesOf(JSON.parse(textOf(market)), columns));
  }
  return text;
}

function valuesOf(market: HistoricalMarket, columns: readonly string[]): Cell[] {
  const scores = new Map<string, number>(market.dimensions.map(({ key, score }) => [key, score]));
  const members: Record<string, unknown> = market;
  return columns.map((name) => scores.get(name) ?? (members[name] as Cell));
}
