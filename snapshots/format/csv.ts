import { byMediaType, csv } from "../../schemas/media.ts";

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
