import {
  type Condition,
  type FacetName,
  type FilterField,
  facetNames,
  filterFields,
  filterNames,
  type IntegerRange,
  type QueryWord,
  searchBounds,
} from "../../../schemas/filters.ts";
import { fitsIn, maxLabelBytes } from "../../../schemas/shapes.ts";
import { normalised } from "../../index/word-table.ts";
import {
  dayMilliseconds,
  invalidParameter,
  listOf,
  optionalInteger,
  type Parameters,
  positionOf,
  readParameters,
  timeOf,
} from "./parameters.ts";

/** The part of a query that selects markets. `canonical` is its one spelling, equal exactly when the filters are. */
export interface ArchiveFilter {
  conditions: Condition[];
  words: QueryWord[];
  canonical: string;
}

/** The filter that a cursor carries in its canonical spelling. */
export function parseCanonicalFilter(canonical: string): ArchiveFilter {
  const { characters, words } = searchBounds;
  return parseFilter(readParameters(canonical, filterNames), {
    // These words are normalised already, and a few texts would change again.
    normalise: (text) => text.toLowerCase(),
    // The canonical spelling adds a space between words that only a * parted.
    characters: characters + words,
  });
}

/** How words are read: by default as a caller asks for them. */
interface Reading {
  normalise: (text: string) => string;
  characters: number;
}
const asked: Reading = { normalise: normalised, characters: searchBounds.characters };

/** In the order of the filter table. */
type Canonical = Map<string, string>;

/**
 * A query text that readParameters reads. Percent-encodes only what would be read differently, so that a cursor, which
 * carries it, stays short.
 */
function textOf(canonical: Canonical): string {
  const pairs = [...canonical].map(
    ([name, value]) => `${name}=${value.replace(/[\p{Cc} %&+]/gu, encodeURIComponent)}`,
  );
  return pairs.join("&");
}

/** Ignores other parameters. */
export function parseFilter(parameters: Parameters, reading = asked): ArchiveFilter {
  const conditions: Condition[] = [];
  const canonical: Canonical = new Map();
  for (const row of filterFields) {
    const condition = parseField(row, parameters, canonical);
    if (condition) conditions.push(condition);
  }
  const time = parseTimes(parameters, canonical);
  if (time) conditions.push(time);
  const words = parseWords(parameters, reading, canonical);
  return { conditions, words, canonical: textOf(canonical) };
}

function parseWords(
  parameters: Parameters,
  { normalise, characters }: Reading,
  canonical: Canonical,
): QueryWord[] {
  const given = parameters.get("q");
  if (given === undefined) return [];
  const { words, prefix } = searchBounds;
  const refuse = (what: string) => invalidParameter("q", `q ${what}`);
  const text = normalise(given);
  // Normalising makes up to eighteen characters of one, and a cursor has to carry them.
  if (lengthOf(given) > characters || lengthOf(text) > characters)
    throw refuse(
      `must be at most ${characters} characters, also when ligatures and the like are written out.`,
    );
  const found = text.match(/[\p{L}\p{M}\p{N}]+\*?/gu) ?? [];
  if (found.length === 0) throw refuse("has no word; words consist of letters, marks and digits.");
  if (found.length > words) throw refuse(`must be at most ${words} words.`);
  const all = [...new Set(found)].sort().map((word) => ({
    text: word.replace("*", ""),
    prefix: word.endsWith("*"),
  }));
  const short = all.find((word) => word.prefix && lengthOf(word.text) < prefix);
  if (short)
    throw refuse(
      `must have at least ${prefix} characters before a *, not ${JSON.stringify(short.text)} alone.`,
    );
  canonical.set("q", all.map((word) => (word.prefix ? `${word.text}*` : word.text)).join(" "));
  // A market with the longer word also has a word that begins so.
  const implied = (word: QueryWord) =>
    word.prefix && all.some((other) => other !== word && other.text.startsWith(word.text));
  return all.filter((word) => !implied(word));
}

/** In characters of Unicode, not in code units. */
function lengthOf(text: string): number {
  return [...text].length;
}

function parseField(row: FilterField, parameters: Parameters, canonical: Canonical): Condition | undefined {
  if (row.kind === "label") {
    const value = parameters.get(row.field);
    if (value === undefined) return undefined;
    if (!fitsIn(value, maxLabelBytes))
      throw invalidParameter(
        row.field,
        `${row.field} must be at most ${maxLabelBytes} bytes in UTF-8; no market has a longer one.`,
      );
    canonical.set(row.field, value);
    return { kind: "label", field: row.field, value };
  }
  const ranges = row.values
    ? parseNamed(row, row.values, parameters, canonical)
    : parseRange(row, parameters, canonical);
  return ranges && { kind: "integer", field: row.field, ranges };
}

type IntegerField = Extract<FilterField, { kind: "integer" }>;

function parseNamed(
  { field, min, several }: IntegerField,
  values: readonly string[],
  parameters: Parameters,
  canonical: Canonical,
): IntegerRange[] | undefined {
  const text = parameters.get(field);
  if (text === undefined) return undefined;
  const positions = several ? listOf(field, text, values) : [positionOf(field, text, values)];
  const chosen = values.filter((_, position) => positions.includes(position));
  canonical.set(field, chosen.join(","));
  const ranges: IntegerRange[] = [];
  for (const position of positions.toSorted((a, b) => a - b)) {
    const [value, last] = [min + position, ranges.at(-1)];
    if (last?.max === value - 1) last.max = value;
    else ranges.push({ min: value, max: value });
  }
  return ranges;
}

function parseRange(
  row: IntegerField,
  parameters: Parameters,
  canonical: Canonical,
): IntegerRange[] | undefined {
  const [low, high] = [`min_${row.field}`, `max_${row.field}`];
  const min = optionalInteger(parameters, low, row.min, row.max);
  const max = optionalInteger(parameters, high, row.min, row.max);
  if (min === undefined && max === undefined) return undefined;
  if (min !== undefined && max !== undefined && min > max)
    throw invalidParameter(low, `${low} is above ${high}.`);
  if (min !== undefined) canonical.set(low, String(min));
  if (max !== undefined) canonical.set(high, String(max));
  return [{ min: min ?? row.min, max: max ?? row.max }];
}

function parseTimes(parameters: Parameters, canonical: Canonical): Condition | undefined {
  const from = optionalTime(parameters, "from", 0);
  const to = optionalTime(parameters, "to", dayMilliseconds - 1);
  if (from === undefined && to === undefined) return undefined;
  if (from !== undefined && to !== undefined && from > to)
    throw invalidParameter("from", "from is later than to.");
  if (from !== undefined) canonical.set("from", canonicalTime(from));
  if (to !== undefined) canonical.set("to", canonicalTime(to));
  return {
    kind: "time",
    from: from ?? Number.NEGATIVE_INFINITY,
    to: to ?? Number.POSITIVE_INFINITY,
  };
}

// Offsets can push 0000-01-01 and 9999-12-31 over the four-digit years; the archive holds none of those times.
function canonicalTime(time: number): string {
  const [first, last] = [Date.parse("0000-01-01T00:00:00.000Z"), Date.parse("9999-12-31T23:59:59.999Z")];
  return new Date(Math.min(Math.max(time, first), last)).toISOString();
}

function optionalTime(parameters: Parameters, name: string, dateOnlyAddition: number) {
  const text = parameters.get(name);
  return text === undefined ? undefined : timeOf(name, text, dateOnlyAddition);
}

/** Separated by commas. */
export function parseFacetNames(text: string): FacetName[] {
  return listOf("by", text, facetNames).map((position) => facetNames[position]!);
}
