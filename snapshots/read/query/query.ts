import {
  type Condition,
  type FacetName,
  type FilterField,
  facetLimit,
  facetNames,
  filterFields,
  type IntegerRange,
  paging,
  type QueryWord,
  searchBounds,
} from "../../../schemas/filters.ts";
import { Digest, integerOf, Label } from "../../../schemas/primitives.ts";
import { asOfParameter, filterParameters, timePattern } from "../../../schemas/query.ts";
import { maxLabelBytes } from "../../../schemas/shapes.ts";
import { normalised } from "../../index/words.ts";
import { InvalidParameterError } from "../errors.ts";
import { hintFor } from "./hints.ts";
import { nearest } from "./nearest.ts";

/** A query, decoded: values by name, each name known and given once. */
export type Parameters = ReadonlyMap<string, string>;

/** The part of a query that selects markets; `canonical` is its one spelling, equal exactly when the filters are. */
export interface ArchiveFilter {
  conditions: Condition[];
  /** The words that a market's question must all have. */
  words: QueryWord[];
  canonical: string;
}

/** A snapshot by its id, or the one that was current at a time (epoch milliseconds). */
export type AsOf = { snapshotId: string } | { time: number };

/** A parsed query of GET /api/v1/markets/historical; what the caller left out is undefined. */
export interface ArchiveQuery {
  filter: ArchiveFilter;
  page: number | undefined;
  pageSize: number | undefined;
  cursor: string | undefined;
  asOf: AsOf | undefined;
}

/** A parsed query of the same address for all rows in one answer, which has no pages. */
export interface RowsQuery extends ArchiveQuery {
  page: undefined;
  pageSize: undefined;
  /** Matches behind the cursor that the caller has already. */
  skip: number;
}

/** A parsed query of GET /api/v1/markets/facets. */
export interface FacetQuery {
  filter: ArchiveFilter;
  /** In the order asked, each once. */
  by: FacetName[];
  limit: number;
  asOf: AsOf | undefined;
}

/** A parsed query of GET /api/v1/markets/changes. */
export interface ChangesQuery {
  /** Snapshot ids; without `until` the current one is meant. */
  since: string;
  until: string | undefined;
  /** Lines of the answer that the caller has already. */
  skip: number;
}

const dayMilliseconds = 86_400_000;

/**
 * Reads the raw query text of a request target, strictly: every name known, given once, not empty, decodable.
 * Names and values come back decoded. Throws InvalidParameterError. `search` is what follows the `?`, or "".
 */
export function readParameters(search: string, known: readonly string[]): Map<string, string> {
  const parameters = new Map<string, string>();
  if (search === "") return parameters;
  for (const pair of search.split("&")) {
    const [name, value] = decodePair(pair);
    if (!known.includes(name)) throw new InvalidParameterError(name, unknownParameter(name, known));
    if (parameters.has(name))
      throw new InvalidParameterError(name, `${name} is given more than once; give it once.`);
    if (value === "")
      throw new InvalidParameterError(name, `${name} is empty; give it a value or leave it out.`);
    parameters.set(name, value);
  }
  return parameters;
}

/** The snapshot id that a query names by `since` or `until`. Throws InvalidParameterError. */
export function snapshotIdOf(parameters: Parameters, name: "since" | "until"): string | undefined {
  const id = parameters.get(name);
  if (id === undefined || Digest.safeParse(id).success) return id;
  throw new InvalidParameterError(name, `${name} must be a snapshot id, 64 lower-case hex digits.`);
}

/** Parses a query for changes (INTERFACE 4.8). Throws InvalidParameterError. */
export function parseChangesQuery(parameters: Parameters): ChangesQuery {
  const [since, until] = [snapshotIdOf(parameters, "since"), snapshotIdOf(parameters, "until")];
  if (since === undefined)
    throw new InvalidParameterError("since", "since is missing: the id of the snapshot that your copy has.");
  const skip = optionalInteger(parameters, "skip", 0, paging.maxPage);
  if (skip !== undefined && until === undefined)
    throw new InvalidParameterError(
      "skip",
      "skip counts lines of one answer: give its X-Snapshot-Id as until, too.",
    );
  return { since, until, skip: skip ?? 0 };
}

/**
 * The snapshot that a query asks for, or undefined (INTERFACE 4.10). A cursor pins its own. Throws
 * InvalidParameterError.
 */
export function parseAsOf(parameters: Parameters): AsOf | undefined {
  const { name } = asOfParameter;
  const text = parameters.get(name);
  if (text === undefined) return undefined;
  if (parameters.has("cursor"))
    throw new InvalidParameterError(
      name,
      `${name} and cursor exclude each other; a cursor goes on in its own snapshot.`,
    );
  if (Digest.safeParse(text).success) return { snapshotId: text };
  return { time: timeOf(name, text, dayMilliseconds - 1, "a snapshot id, 64 lower-case hex digits, or ") };
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
      throw new InvalidParameterError(
        what,
        "A name or value of the query is not valid percent-encoded UTF-8.",
      );
    }
  };
  const name = decode(rawName, "query");
  return [name, decode(rawValue, name)];
}

function unknownParameter(name: string, known: readonly string[]): string {
  const hint = hintFor(name, known);
  const more = hint === undefined ? didYouMean(name, known) : ` ${hint}`;
  if (known.length === 0) return `${shown(name)} is not a parameter here; this address takes none.${more}`;
  return `${shown(name)} is not a parameter here.${more} Known: ${known.join(", ")}.`;
}

/** What was sent, in quotes and not all of it. */
const shown = (text: string) => JSON.stringify(text.slice(0, 60));

/** A question to append, or "". */
function didYouMean(text: string, known: readonly string[]): string {
  const meant = nearest(text, known);
  return meant === undefined ? "" : ` Did you mean ${meant}?`;
}

/** Parses the archive's query (INTERFACE 4.5). Throws InvalidParameterError; nothing is clamped or ignored. */
export function parseArchiveQuery(parameters: Parameters, asOf?: AsOf): ArchiveQuery {
  if (parameters.has("skip"))
    throw new InvalidParameterError(
      "skip",
      "skip goes on with an answer in NDJSON or CSV; ask for one with Accept, or leave it out.",
    );
  const query = {
    filter: parseFilter(parameters),
    page: optionalInteger(parameters, "page", 1, paging.maxPage),
    pageSize: optionalInteger(parameters, "pageSize", 1, paging.maxPageSize),
    cursor: parameters.get("cursor"),
    asOf,
  };
  if (query.cursor !== undefined && query.page !== undefined) {
    throw new InvalidParameterError(
      "page",
      "page and cursor exclude each other; a cursor already says where to go on.",
    );
  }
  return query;
}

/** Parses the archive's query for all rows in one answer. Throws as parseArchiveQuery does. */
export function parseRowsQuery(parameters: Parameters, asOf?: AsOf): RowsQuery {
  for (const name of ["page", "pageSize"]) {
    if (parameters.has(name))
      throw new InvalidParameterError(
        name,
        `${name} belongs to pages of JSON; an answer in NDJSON or CSV has all rows. Leave it out.`,
      );
  }
  const cursor = parameters.get("cursor");
  const skip = optionalInteger(parameters, "skip", 0, paging.maxPage);
  if (skip !== undefined && cursor === undefined)
    throw new InvalidParameterError(
      "skip",
      "skip counts markets behind a cursor: give the X-Cursor they came with, too.",
    );
  return {
    filter: parseFilter(parameters),
    page: undefined,
    pageSize: undefined,
    cursor,
    asOf,
    skip: skip ?? 0,
  };
}

/** Parses a query for facets (INTERFACE 4.7). Throws InvalidParameterError. */
export function parseFacetQuery(parameters: Parameters, asOf?: AsOf): FacetQuery {
  const text = parameters.get("by");
  if (text === undefined)
    throw new InvalidParameterError(
      "by",
      `by is missing: one of ${facetNames.join(", ")}, or several separated by commas.`,
    );
  return {
    filter: parseFilter(parameters),
    by: listOf("by", text, facetNames).map((position) => facetNames[position]!),
    limit: optionalInteger(parameters, "limit", 1, facetLimit.max) ?? facetLimit.otherwise,
    asOf,
  };
}

/** The filter that a cursor carries in its canonical spelling. Throws as parseArchiveQuery does. */
export function parseCanonicalFilter(canonical: string): ArchiveFilter {
  // Its words are normalised already, and a few texts would change again.
  return parseFilter(readParameters(canonical, filterParameterNames), (text) => text.toLowerCase());
}

const filterParameterNames = filterParameters.map((parameter) => parameter.name);

/** The parameters of a filter in their canonical spelling, in the order of the filter table. */
type Canonical = Map<string, string>;

/**
 * A query text that readParameters reads. Only what would be read differently is percent-encoded, so that a cursor,
 * which carries it, stays short.
 */
function textOf(canonical: Canonical): string {
  const pairs = [...canonical].map(
    ([name, value]) => `${name}=${value.replace(/[\p{Cc} %&+]/gu, encodeURIComponent)}`,
  );
  return pairs.join("&");
}

function parseFilter(parameters: Parameters, normalise = normalised): ArchiveFilter {
  const conditions: Condition[] = [];
  const canonical: Canonical = new Map();
  for (const row of filterFields) {
    const condition = parseField(row, parameters, canonical);
    if (condition) conditions.push(condition);
  }
  const time = parseTimes(parameters, canonical);
  if (time) conditions.push(time);
  const words = parseWords(parameters, normalise, canonical);
  return { conditions, words, canonical: textOf(canonical) };
}

function parseWords(
  parameters: Parameters,
  normalise: (text: string) => string,
  canonical: Canonical,
): QueryWord[] {
  const asked = parameters.get("q");
  if (asked === undefined) return [];
  const { characters, words, prefix } = searchBounds;
  const refuse = (what: string) => new InvalidParameterError("q", `q ${what}`);
  const text = normalise(asked);
  // Normalising makes up to eighteen characters of one, and a cursor has to carry them.
  if (lengthOf(asked) > characters || lengthOf(text) > characters)
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
  // Whatever has a longer word has each beginning of it.
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
    if (!Label.safeParse(value).success)
      throw new InvalidParameterError(
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

/** The positions of the names in a list that is separated by commas. Throws InvalidParameterError. */
function listOf(parameter: string, text: string, names: readonly string[]): number[] {
  const positions = text.split(",").map((name) => positionOf(parameter, name, names));
  const twice = positions.find((position, place) => positions.indexOf(position) !== place);
  if (twice === undefined) return positions;
  throw new InvalidParameterError(
    parameter,
    `${parameter} names ${names[twice]} more than once; once is enough.`,
  );
}

function positionOf(parameter: string, name: string, names: readonly string[]): number {
  const position = names.indexOf(name);
  if (position >= 0) return position;
  const question = didYouMean(name, names);
  throw new InvalidParameterError(
    parameter,
    `${parameter} must be one of ${names.join(", ")}, not ${shown(name)}.${question}`,
  );
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
    throw new InvalidParameterError(low, `${low} is above ${high}.`);
  if (min !== undefined) canonical.set(low, String(min));
  if (max !== undefined) canonical.set(high, String(max));
  return [{ min: min ?? row.min, max: max ?? row.max }];
}

function optionalInteger(parameters: Parameters, name: string, min: number, max: number) {
  const text = parameters.get(name);
  if (text === undefined) return undefined;
  const value = integerOf(text, min, max);
  if (value === undefined)
    throw new InvalidParameterError(name, `${name} must be an integer from ${min} to ${max}.`);
  return value;
}

function parseTimes(parameters: Parameters, canonical: Canonical): Condition | undefined {
  const from = optionalTime(parameters, "from", 0);
  const to = optionalTime(parameters, "to", dayMilliseconds - 1);
  if (from === undefined && to === undefined) return undefined;
  if (from !== undefined && to !== undefined && from > to)
    throw new InvalidParameterError("from", "from is later than to.");
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

/** Epoch milliseconds of a time in a query. `orElse` says what else the parameter takes. */
function timeOf(name: string, text: string, dateOnlyAddition: number, orElse = ""): number {
  const groups = timePattern.exec(text)?.groups;
  const day = Date.parse(`${groups?.date}T00:00:00.000Z`);
  // Date.parse turns 2026-02-30 into March; only a real day prints as it was written.
  if (!groups?.date || Number.isNaN(day) || new Date(day).toISOString().slice(0, 10) !== groups.date) {
    throw new InvalidParameterError(
      name,
      `${name} must be ${orElse}a real day YYYY-MM-DD, or YYYY-MM-DDThh:mm:ss[.sss] with Z or ±hh:mm ` +
        "(write + as %2B).",
    );
  }
  if (!groups.clock) return day + dateOnlyAddition;
  const fraction = (groups.fraction ?? ".").padEnd(4, "0");
  return Date.parse(`${groups.date}T${groups.clock}${fraction}${groups.zone}`);
}
