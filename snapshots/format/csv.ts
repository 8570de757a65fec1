import { byMediaType, csv } from "../../schemas/media.ts";

/** A value of a field. */
export type Cell = string | number | boolean;

const header = `${csv}; charset=utf-8; header=present`;

/** A form of CSV. */
export interface CsvForm {
  /** Tells the entity tags of the forms apart. */
  name: string;
  /** Media types that ask for it, with their parameters. */
  mediaTypes: readonly string[];
  /** What it begins with: without a byte order mark some spreadsheets do not read a file as UTF-8. */
  mark: string;
}

/** All forms of CSV. */
export const csvForms: readonly CsvForm[] = [
  { name: "csv", mediaTypes: [header], mark: "" },
  { name: "csv-bom", mediaTypes: [`${header}; bom=present`], mark: "\ufeff" },
];
export const csvByType = byMediaType(csvForms);

/**
 * The places in a text at which a spreadsheet would see a formula begin: its start, and what follows a character that
 * ends a cell for a spreadsheet that separates by semicolons or tabs, since that does not heed quotes within a cell.
 * Apostrophes count as part of what follows, so that each one that was put there can be told and taken away again.
 */
const formulas = /^(?='*[=+\-@＝＋－＠\t\r\n])|(?<=[;\t\r\n])(?=['"]*[=+\-@＝＋－＠])/g;

/** A record (RFC 4180), with the end of its line. */
export function csvRecord(values: readonly Cell[]): string {
  return `${values.map((value) => (typeof value === "string" ? quotedText(value) : value)).join(",")}\r\n`;
}

/** A text as a field. Apostrophes keep spreadsheets from running what would begin as a formula does. */
function quotedText(text: string): string {
  const safe = text.replaceAll(formulas, "'");
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
