import { isMemberIn, marketDimensionKeys, plainMembers } from "../../../schemas/market.ts";
import type { HistoricalMarket } from "../../../schemas/records.ts";
import { textOf } from "../../format/bytes.ts";

const membersIn = (version: string) => plainMembers.filter((name) => isMemberIn(version, name));

/**
 * The columns of a market in CSV (INTERFACE 4.5): its members in a version of the feed, then the score of each
 * dimension.
 */
const csvColumns = (version: string): readonly string[] => [...membersIn(version), ...marketDimensionKeys];

// Parsing this many markets takes about as long as inflating a run.
const marketsPerStep = 8;

/**
 * The places in a text at which a spreadsheet would see a formula begin: its start, and what follows a character that
 * ends a cell for a spreadsheet that separates by semicolons or tabs, since that does not heed quotes within a cell.
 * Apostrophes count as part of what follows, so that each one that was put there can be told and taken away again.
 */
const formulas = /^(?='*[=+\-@＝＋－＠\t\r\n])|(?<=[;\t\r\n])(?=['"]*[=+\-@＝＋－＠])/g;

/** The header line of a version of the feed (RFC 4180). */
export const csvHead = (version: string): string => recordOf(csvColumns(version));

/** A record for each of these JSON texts of markets. Waits for a `turn` before every few of them. */
export async function csvOf(
  markets: readonly Uint8Array[],
  version: string,
  turn: () => Promise<void>,
): Promise<string> {
  const members = membersIn(version);
  let text = "";
  for (const [index, market] of markets.entries()) {
    if (index % marketsPerStep === 0) await turn();
    text += recordOf(valuesOf(JSON.parse(textOf(market)), members));
  }
  return text;
}

function valuesOf(market: HistoricalMarket, members: typeof plainMembers): (string | number | boolean)[] {
  const scores = new Map(market.dimensions.map(({ key, score }) => [key, score]));
  return [...members.map((name) => market[name]), ...marketDimensionKeys.map((key) => scores.get(key)!)];
}

function recordOf(values: readonly (string | number | boolean)[]): string {
  return `${values.map((value) => (typeof value === "string" ? quotedText(value) : value)).join(",")}\r\n`;
}

/** A text as a field. Apostrophes keep spreadsheets from running what would begin as a formula does. */
function quotedText(text: string): string {
  const safe = text.replaceAll(formulas, "'");
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
