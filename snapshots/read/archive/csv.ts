import { dimensionKeysIn, plainMembersIn } from "../../../schemas/market.ts";
import { byMediaType, csv } from "../../../schemas/media.ts";
import type { HistoricalMarket } from "../../../schemas/records.ts";
import { textOf } from "../../format/bytes.ts";
import type { Turn } from "../../store/in-parallel.ts";

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
export async function csvOf(markets: readonly Uint8Array[], version: string, turn: Turn): Promise<string> {
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

export type Cell = string | number | boolean;

const header = `${csv}; charset=utf-8; header=present`;

export interface CsvForm {
  /** Tells the entity tags of the forms apart. */
  name: string;
  /** Media types that ask for it, with their parameters. */
  mediaTypes: readonly string[];
  /** A byte order mark, without which some spreadsheets do not read the file as UTF-8. */
  mark: string;
}

export const csvForms: readonly CsvForm[] = [
  { name: "csv", mediaTypes: [header], mark: "" },
  { name: "csv-bom", mediaTypes: [`${header}; bom=present`], mark: "\ufeff" },
];
export const csvByType = byMediaType(csvForms);

/**
 * The places where a spreadsheet would see a formula begin: the start of a text, and what follows a character that ends
 * a cell. Spreadsheets that separate by semicolons or tabs do not heed quotes within a cell. Apostrophes count as part
 * of what follows, so that a reader can tell those that were added and remove them.
 */
const formulas = /^(?='*[=+\-@＝＋－＠\t\r\n])|(?<=[;\t\r\n])(?=['"]*[=+\-@＝＋－＠])/g;

/** One record with its line end (RFC 4180). */
export function csvRecord(values: readonly Cell[]): string {
  return `${values.map((value) => (typeof value === "string" ? quotedText(value) : value)).join(",")}\r\n`;
}

/** Apostrophes keep spreadsheets from running what begins as a formula does. */
function quotedText(text: string): string {
  const safe = text.replaceAll(formulas, "'");
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
