import { textOf } from "../format/bytes.ts";
import { CorruptObjectError } from "../store/errors.ts";
import { JsonValue, parseJson } from "../store/json.ts";
import { indexVersion } from "./header-reader.ts";

export const isSame = (a: unknown, b: unknown) => JSON.stringify(a) === JSON.stringify(b);

/** Nothing but the spelling is checked. */
export function openHeader(key: string, header: Uint8Array): JsonValue {
  const value = parseJson(key, header);
  // Readers could disagree on a member that comes twice.
  if (JSON.stringify(value) !== textOf(header))
    throw new CorruptObjectError(key, "its index header is not in the spelling of the format");
  return new JsonValue(key, value);
}

/** Compares an index header with the one that the markets give. */
export interface HeaderCheck {
  wrong: string[];
  /** What this version cannot compute: the whole header of another version, or columns that it does not know. */
  unchecked: "version" | "columns" | undefined;
}

/** `own` is the header that the markets give. */
export function checkHeader(key: string, header: Uint8Array, own: Uint8Array): HeaderCheck {
  const version = new JsonValue(key, parseJson(key, header)).member("version").integer();
  if (version !== indexVersion) return { wrong: [], unchecked: "version" };
  const [told, made] = [partsOf(openHeader(key, header)), partsOf(openHeader(key, own))];
  const wrong: string[] = [];
  for (const [name, value] of made.members) if (!isSame(told.members.get(name), value)) wrong.push(name);
  for (const [name, column] of told.columns)
    if (made.columns.has(name) && !isSame(column, made.columns.get(name))) wrong.push(`column ${name}`);
  for (const [name, ref] of made.sections) {
    const [column = ""] = name.split(".");
    // A header of another version may lack a column; it then does not list it.
    const lacks = made.columns.has(column) && !told.columns.has(column);
    if (!lacks && !isSame(told.sections.get(name), ref)) wrong.push(`section ${name}`);
  }
  const more = (these: Map<string, unknown>, those: Map<string, unknown>) =>
    [...these.keys()].some((name) => !those.has(name));
  const others = more(told.columns, made.columns) || more(told.sections, made.sections);
  const lacks = more(made.columns, told.columns);
  if (wrong.length === 0 && !others && !lacks && textOf(own) !== textOf(header))
    wrong.push("order of its members");
  return { wrong, unchecked: others ? "columns" : undefined };
}

function partsOf(header: JsonValue) {
  const valuesOf = (from: JsonValue) => new Map(from.members().map(([name, { value }]) => [name, value]));
  const members = valuesOf(header);
  const columns = header.member("columns").items();
  for (const name of ["columns", "sections"]) members.delete(name);
  return {
    members,
    columns: new Map(columns.map((column) => [column.member("name").text(), column.value])),
    sections: valuesOf(header.member("sections")),
  };
}
