import { Fault } from "../../schemas/errors.ts";
import {
  type Condition,
  type FacetName,
  type FilterField,
  facetNames,
  filterFields,
  filterNames,
  type IntegerRange,
  listNames,
  parameterNames,
  type QueryWord,
  retiredFields,
  searchBounds,
  timePattern,
} from "../../schemas/filters.ts";
import { csv, ndjson } from "../../schemas/media.ts";
import { nearest } from "../../schemas/nearest.ts";
import { digestPattern, fitsIn, integerOf, maxLabelBytes } from "../../schemas/shapes.ts";
import { normalised } from "../index/word-table.ts";

export const invalidParameter = (parameter: string, message: string) =>
  new Fault("INVALID_PARAMETER", message, { parameter });

/** A query, decoded: values by name, each name known and given once. */
export type Parameters = ReadonlyMap<string, string>;

/**
 * Reads the raw query text of a request target, strictly: every name known, given once, not empty, decodable. `search`
 * is what follows the `?`, or "".
 */
export function readParameters(search: string, allowed: readonly string[]): Map<string, string> {
  const parameters = new Map<string, string>();
  if (search === "") return parameters;
  for (const pair of search.split("&")) {
    const [name, value] = decodePair(pair);
    if (!allowed.includes(name)) throw invalidParameter(name, unknownParameter(name, allowed));
    if (parameters.has(name)) {
      const way = listNames.has(name) ? "give it once, its values separated by commas" : "give it once";
      throw invalidParameter(name, `${name} is given more than once; ${way}.`);
    }
    if (value === "") throw invalidParameter(name, `${name} is empty; give it a value or leave it out.`);
    parameters.set(name, value);
  }
  return parameters;
}

function decodePair(pair: string): [string, string] {
  const cut = pair.indexOf("=");
  const rawName = cut < 0 ? pair : pair.slice(0, cut);
  const rawValue = cut < 0 ? "" : pair.slice(cut + 1);
  const decode = (text: string, what: string) => {
    // A cursor is long, and has nothing to decode.
    if (!/[%+]/.test(text)) return text;
    try {
      return decodeURIComponent(text.replaceAll("+", " "));
    } catch {
      throw invalidParameter(what, "A name or value of the query is not valid percent-encoded UTF-8.");
    }
  };
  const name = decode(rawName, "query");
  return [name, decode(rawValue, name)];
}

/** The part of a query that selects markets. `canonical` is its one spelling, equal exactly when the filters are. */
export interface ArchiveFilter {
  conditions: Condition[];
  words: QueryWord[];
  canonical: string;
}

/** The filter that a cursor carries in its canonical spelling. */
export function parseCanonicalFilter(canonical: string): ArchiveFilter {
  return parseFilter(readParameters(canonical, filterNames), true);
}

/** A filter while it is read. `canonical` has names and values in the order of the filter table. */
interface Reading {
  parameters: Parameters;
  canonical: Map<string, string>;
}

/** Ignores other parameters. */
export function parseFilter(parameters: Parameters, isCanonical = false): ArchiveFilter {
  const reading: Reading = { parameters, canonical: new Map() };
  const fields = filterFields.map((row) => parseField(row, reading));
  const conditions = [...fields, parseTimes(reading)].filter((condition) => condition !== undefined);
  const words = parseWords(reading, isCanonical);
  // readParameters reads this text again. It percent-encodes only what would be read differently, so that a cursor,
  // which carries it, stays short.
  const pairs = [...reading.canonical].map(
    ([name, value]) => `${name}=${value.replace(/[\p{Cc} %&+]/gu, encodeURIComponent)}`,
  );
  return { conditions, words, canonical: pairs.join("&") };
}

function parseWords({ parameters, canonical }: Reading, isCanonical: boolean): QueryWord[] {
  const raw = parameters.get("q");
  if (raw === undefined) return [];
  const { words, prefix } = searchBounds;
  // The canonical spelling adds a space between words that only a * parted.
  const characters = searchBounds.characters + (isCanonical ? words : 0);
  const refuse = (what: string) => invalidParameter("q", `q ${what}`);
  // Words that are normalised already stay, since a few texts would change again.
  const text = isCanonical ? raw.toLowerCase() : normalised(raw);
  // Normalising makes up to eighteen characters of one, and a cursor has to carry them.
  if (lengthOf(raw) > characters || lengthOf(text) > characters)
    throw refuse(
      `must be at most ${characters} characters, also when ligatures and the like are written out.`,
    );
  const matches = text.match(/[\p{L}\p{M}\p{N}]+\*?/gu) ?? [];
  if (matches.length === 0) throw refuse("has no word; words consist of letters, marks and digits.");
  if (matches.length > words) throw refuse(`must be at most ${words} words.`);
  const all = [...new Set(matches)].sort().map((word) => ({
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

function parseField(row: FilterField, reading: Reading): Condition | undefined {
  if (row.kind === "label") {
    const value = reading.parameters.get(row.field);
    if (value === undefined) return undefined;
    if (!fitsIn(value, maxLabelBytes))
      throw invalidParameter(
        row.field,
        `${row.field} must be at most ${maxLabelBytes} bytes in UTF-8; no market has a longer one.`,
      );
    reading.canonical.set(row.field, value);
    return { kind: "label", field: row.field, value };
  }
  const ranges = row.values ? parseNamed(row, row.values, reading) : parseRange(row, reading);
  return ranges && { kind: "integer", field: row.field, ranges };
}

type IntegerField = Extract<FilterField, { kind: "integer" }>;

function parseNamed(
  { field, min, several }: IntegerField,
  values: readonly string[],
  { parameters, canonical }: Reading,
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

function parseRange(row: IntegerField, { parameters, canonical }: Reading): IntegerRange[] | undefined {
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

function parseTimes({ parameters, canonical }: Reading): Condition | undefined {
  const timeIn = (name: string, dateOnlyAddition: number) => {
    const text = parameters.get(name);
    return text === undefined ? undefined : timeOf(name, text, dateOnlyAddition);
  };
  const [from, to] = [timeIn("from", 0), timeIn("to", dayMilliseconds - 1)];
  if (from === undefined && to === undefined) return undefined;
  if (from !== undefined && to !== undefined && from > to)
    throw invalidParameter("from", "from is later than to.");
  if (from !== undefined) canonical.set("from", canonicalTime(from));
  if (to !== undefined) canonical.set("to", canonicalTime(to));
  return { kind: "time", from: from ?? Number.NEGATIVE_INFINITY, to: to ?? Number.POSITIVE_INFINITY };
}

/** Offsets can push 0000-01-01 and 9999-12-31 over the four-digit years; no market or commit has such a time. */
export function canonicalTime(time: number): string {
  const [first, last] = [Date.parse("0000-01-01T00:00:00.000Z"), Date.parse("9999-12-31T23:59:59.999Z")];
  return new Date(Math.min(Math.max(time, first), last)).toISOString();
}

/** Separated by commas. */
export function parseFacetNames(text: string): FacetName[] {
  return listOf("by", text, facetNames).map((position) => facetNames[position]!);
}

/** The positions in `names` of a list that is separated by commas. */
export function listOf(parameter: string, text: string, names: readonly string[]): number[] {
  const positions = text.split(",").map((name) => positionOf(parameter, name, names));
  const twice = positions.find((position, place) => positions.indexOf(position) !== place);
  if (twice === undefined) return positions;
  throw invalidParameter(parameter, `${parameter} names ${names[twice]} more than once; once is enough.`);
}

export function positionOf(parameter: string, name: string, names: readonly string[]): number {
  const position = names.indexOf(name);
  if (position >= 0) return position;
  const more = retiredOr(name, names);
  throw invalidParameter(
    parameter,
    `${parameter} must be one of ${names.join(", ")}, not ${quoted(name)}.${more}`,
  );
}

export function optionalInteger(parameters: Parameters, name: string, min: number, max: number) {
  const text = parameters.get(name);
  if (text === undefined) return undefined;
  const value = integerOf(text, min, max);
  if (value === undefined) throw invalidParameter(name, `${name} must be an integer from ${min} to ${max}.`);
  return value;
}

export function snapshotIdOf(parameters: Parameters, name: "since" | "until"): string | undefined {
  const id = parameters.get(name);
  if (id === undefined || digestPattern.test(id)) return id;
  throw invalidParameter(name, `${name} must be a snapshot id, 64 lower-case hex digits.`);
}

export const dayMilliseconds = 86_400_000;

/**
 * Epoch milliseconds. `dateOnlyAddition` is added to a day without a time. `orElse` says what else the parameter takes.
 */
export function timeOf(name: string, text: string, dateOnlyAddition: number, orElse = ""): number {
  const groups = timePattern.exec(text)?.groups;
  if (!groups) {
    throw invalidParameter(
      name,
      `${name} must be ${orElse}a real day YYYY-MM-DD, or YYYY-MM-DDThh:mm:ss[.sss] with Z or ±hh:mm ` +
        "(write + as %2B).",
    );
  }
  if (!groups.clock) return Date.parse(`${groups.date}T00:00:00.000Z`) + dateOnlyAddition;
  const fraction = (groups.fraction ?? ".").padEnd(4, "0");
  return Date.parse(`${groups.date}T${groups.clock}${fraction}${groups.zone}`);
}

function unknownParameter(name: string, allowed: readonly string[]): string {
  const hint = hintFor(name, allowed);
  const more = hint === undefined ? retiredOr(name, allowed) : ` ${hint}`;
  if (allowed.length === 0) return `${quoted(name)} is not a parameter here; this address takes none.${more}`;
  return `${quoted(name)} is not a parameter here.${more} Known: ${allowed.join(", ")}.`;
}

/** Quotes the beginning of what was sent. */
const quoted = (text: string) => JSON.stringify(text.slice(0, 60));

const retiredNames = new Set(retiredFields.flatMap((row) => [row.field, ...parameterNames(row)]));

/** A sentence to append about a name that may once have been of a filter, or "". */
const retiredOr = (name: string, names: readonly string[]): string =>
  retiredNames.has(name) ? " There was such a filter, and it was taken away." : didYouMean(name, names);

/** A question to append, or "". */
export function didYouMean(text: string, names: readonly string[]): string {
  const suggestion = nearest(text, names);
  return suggestion === undefined ? "" : ` Did you mean ${suggestion}?`;
}

/** Parameters that other services have, and what replaces them here. */
interface Hint {
  /** In lower case, without hyphens and underscores. */
  names: readonly string[];
  /** The hint is only for addresses that have this parameter. Without it, it is for all. */
  where?: string;
  hint: string;
}

const hints: readonly Hint[] = [
  {
    names: ["apikey", "xapikey", "key", "token", "accesstoken"],
    hint: "A key goes into a header, Authorization: Bearer KEY or x-api-key: KEY; addresses are logged on their way.",
  },
  {
    names: ["format", "output"],
    where: "pageSize",
    hint: `The header Accept chooses the form: application/json, ${ndjson} or ${csv}.`,
  },
  { names: ["offset", "start"], where: "page", hint: "page chooses a page, and cursor walks on from one." },
  { names: ["limit", "size", "count", "perpage"], where: "pageSize", hint: "pageSize sets how many come." },
  { names: ["pagesize", "size", "count", "perpage"], where: "limit", hint: "limit sets how many come." },
];

/** `allowed` are the parameters of the address. Undefined when there is no hint. */
function hintFor(name: string, allowed: readonly string[]): string | undefined {
  const plain = name.toLowerCase().replace(/[-_]/g, "");
  const fits = ({ names, where }: Hint) => names.includes(plain) && (!where || allowed.includes(where));
  return hints.find(fits)?.hint;
}
