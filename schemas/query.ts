import { z } from "zod";
import { ServiceError } from "./errors.ts";
import { booleanNames, type Condition, type FilterField, filterFields, paging } from "./filters.ts";
import { nearest } from "./nearest.ts";
import { Digest, integerBetween, Label, maxLabelBytes } from "./primitives.ts";

/** The part of a query that selects markets; `canonical` is its one spelling, equal exactly when the filters are. */
export interface ArchiveFilter {
  conditions: Condition[];
  canonical: string;
}

/** A parsed query of GET /api/v1/markets/historical; what the caller left out is undefined. */
export interface ArchiveQuery {
  filter: ArchiveFilter;
  page: number | undefined;
  pageSize: number | undefined;
  cursor: string | undefined;
}

/** A parsed query of the same address for all rows in one answer, which has no pages. */
export interface RowsQuery extends ArchiveQuery {
  page: undefined;
  pageSize: undefined;
  /** Matches behind the cursor that the caller has already. */
  skip: number;
}

const rows: readonly FilterField[] = filterFields;
const dayMilliseconds = 86_400_000;
const timePattern =
  /^(?<date>\d{4}-\d{2}-\d{2})(?:T(?<clock>([01]\d|2[0-3]):[0-5]\d:[0-5]\d)(?<fraction>\.\d{1,3})?(?<zone>Z|[+-]([01]\d|2[0-3]):[0-5]\d))?$/;

/** A query, decoded: values by name, each name known and given once. */
export type Parameters = ReadonlyMap<string, string>;

/** A query parameter: `type` for people, `schema` what a value that is not refused looks like. */
export interface QueryParameter {
  name: string;
  type: string;
  schema: z.ZodType;
  meaning: string;
}

/** Characters of the longest cursor; the rest of a response's head takes less than 2 KiB. */
export const maxCursorLength = 6144;
// Without the names of its groups, which not every reader of JSON Schema knows.
const TimeText = z.string().regex(new RegExp(timePattern.source.replaceAll(/\?<\w+>/g, "")));

/** Query parameter of the live feed. */
export const sinceParameter: QueryParameter = {
  name: "since",
  type: "snapshot id",
  schema: Digest,
  meaning: "Snapshot to go on from: what changed since then is told first.",
};

/** Every query parameter of the archive with its type and meaning, in the order of INTERFACE 4.5. */
export const archiveParameters: readonly QueryParameter[] = [
  ...rows.flatMap(describeField),
  {
    name: "from",
    type: "ISO date",
    schema: TimeText,
    meaning: "Earliest resolvedAt, inclusive.",
  },
  {
    name: "to",
    type: "ISO date",
    schema: TimeText,
    meaning: "Latest resolvedAt, inclusive; a date alone covers its whole UTC day.",
  },
  {
    name: "page",
    type: `integer 1..${paging.maxPage}`,
    schema: integerBetween(1, paging.maxPage),
    meaning: "Page number, 1 if left out.",
  },
  {
    name: "pageSize",
    type: `integer 1..${paging.maxPageSize}`,
    schema: integerBetween(1, paging.maxPageSize),
    meaning: `Markets per page, ${paging.defaultPageSize} if left out.`,
  },
  {
    name: "cursor",
    type: "string",
    schema: z.string().min(1).max(maxCursorLength),
    meaning: "nextCursor of the previous page; carries filters and pageSize.",
  },
  {
    name: "skip",
    type: `integer 0..${paging.maxPage}`,
    schema: integerBetween(0, paging.maxPage),
    meaning: "NDJSON with a cursor only: how many lines behind the cursor have been received.",
  },
];

function describeField(row: FilterField): QueryParameter[] {
  const { field: name, meaning } = row;
  if (row.kind === "label")
    return [{ name, type: `string of up to ${maxLabelBytes} bytes`, schema: Label.min(1), meaning }];
  if (row.values === booleanNames) return [{ name, type: "boolean", schema: z.boolean(), meaning }];
  if (row.values) return [{ name, type: row.values.join(" | "), schema: z.enum(row.values), meaning }];
  const type = `integer ${row.min}..${row.max}`;
  return ["min", "max"].map((end) => ({
    name: `${end}_${name}`,
    type,
    schema: integerBetween(row.min, row.max),
    meaning,
  }));
}

function invalid(parameter: string, detail: string): ServiceError {
  return new ServiceError("INVALID_PARAMETER", detail, { parameter });
}

/**
 * Reads the raw query text of a request target, strictly: every name known, given once, not empty, decodable.
 * Names and values come back decoded. `search` is what follows the `?`, or "".
 */
export function readParameters(search: string, known: readonly string[]): Map<string, string> {
  const parameters = new Map<string, string>();
  if (search === "") return parameters;
  for (const pair of search.split("&")) {
    const [name, value] = decodePair(pair);
    if (!known.includes(name)) throw invalid(name, unknownParameter(name, known));
    if (parameters.has(name)) throw invalid(name, `${name} is given more than once; give it once.`);
    if (value === "") throw invalid(name, `${name} is empty; give it a value or leave it out.`);
    parameters.set(name, value);
  }
  return parameters;
}

/** Of the live feed's query the snapshot id it is to go on from. Throws ServiceError INVALID_PARAMETER. */
export function sinceOf(parameters: Parameters): string | undefined {
  const since = parameters.get(sinceParameter.name);
  if (since === undefined || Digest.safeParse(since).success) return since;
  throw invalid("since", "since must be a snapshot id, 64 lower-case hex digits.");
}

function decodePair(pair: string): [string, string] {
  const cut = pair.indexOf("=");
  const rawName = cut < 0 ? pair : pair.slice(0, cut);
  const rawValue = cut < 0 ? "" : pair.slice(cut + 1);
  const decode = (text: string, what: string) => {
    try {
      return decodeURIComponent(text.replaceAll("+", " "));
    } catch {
      throw invalid(what, "A name or value of the query is not valid percent-encoded UTF-8.");
    }
  };
  const name = decode(rawName, "query");
  return [name, decode(rawValue, name)];
}

function unknownParameter(name: string, known: readonly string[]): string {
  const shown = JSON.stringify(name.slice(0, 60));
  if (known.length === 0) return `${shown} is not a parameter here; this address takes none.`;
  return `${shown} is not a parameter here.${didYouMean(name, known)} Known: ${known.join(", ")}.`;
}

/** A question to append, or "". */
function didYouMean(text: string, known: readonly string[]): string {
  const meant = nearest(text, known);
  return meant === undefined ? "" : ` Did you mean ${meant}?`;
}

const archiveParameterNames = archiveParameters.map((parameter) => parameter.name);

/** Parses the archive's query (INTERFACE 4.5). Throws ServiceError INVALID_PARAMETER; nothing is clamped or ignored. */
export function parseArchiveQuery(parameters: Parameters): ArchiveQuery {
  if (parameters.has("skip"))
    throw invalid("skip", "skip goes on with an answer in NDJSON; ask for one with Accept, or leave it out.");
  const query = {
    filter: parseFilter(parameters),
    page: optionalInteger(parameters, "page", 1, paging.maxPage),
    pageSize: optionalInteger(parameters, "pageSize", 1, paging.maxPageSize),
    cursor: parameters.get("cursor"),
  };
  if (query.cursor !== undefined && query.page !== undefined) {
    throw invalid("page", "page and cursor exclude each other; a cursor already says where to go on.");
  }
  return query;
}

/** Parses the archive's query for all rows in one answer. Throws as parseArchiveQuery does. */
export function parseRowsQuery(parameters: Parameters): RowsQuery {
  for (const name of ["page", "pageSize"]) {
    if (parameters.has(name))
      throw invalid(
        name,
        `${name} belongs to pages of JSON; an answer in NDJSON has all rows. Leave it out.`,
      );
  }
  const cursor = parameters.get("cursor");
  const skip = optionalInteger(parameters, "skip", 0, paging.maxPage);
  if (skip !== undefined && cursor === undefined)
    throw invalid("skip", "skip counts lines behind a cursor: give the X-Cursor they came with, too.");
  return { filter: parseFilter(parameters), page: undefined, pageSize: undefined, cursor, skip: skip ?? 0 };
}

/** The filter that a cursor carries in its canonical spelling. Throws as parseArchiveQuery does. */
export function parseCanonicalFilter(canonical: string): ArchiveFilter {
  return parseFilter(readParameters(canonical, filterParameterNames));
}

const filterParameterNames = archiveParameterNames.filter(
  (name) => !["page", "pageSize", "cursor", "skip"].includes(name),
);

function parseFilter(parameters: Parameters): ArchiveFilter {
  const conditions: Condition[] = [];
  const canonical = new URLSearchParams();
  for (const row of rows) {
    const condition = parseField(row, parameters, canonical);
    if (condition) conditions.push(condition);
  }
  const time = parseTimes(parameters, canonical);
  if (time) conditions.push(time);
  return { conditions, canonical: canonical.toString() };
}

function parseField(
  row: FilterField,
  parameters: Parameters,
  canonical: URLSearchParams,
): Condition | undefined {
  // The casts name what the table already says: label rows are category and outcome, integer rows all others.
  if (row.kind === "label") {
    const value = parameters.get(row.field);
    if (value === undefined) return undefined;
    if (!Label.safeParse(value).success)
      throw invalid(
        row.field,
        `${row.field} must be at most ${maxLabelBytes} bytes in UTF-8; no market has a longer one.`,
      );
    canonical.set(row.field, value);
    return { kind: "label", field: row.field as "category" | "outcome", value };
  }
  const bounds = row.values
    ? parseNamed(row, row.values, parameters, canonical)
    : parseRange(row, parameters, canonical);
  return bounds && ({ kind: "integer", field: row.field, ...bounds } as Condition);
}

type IntegerField = Extract<FilterField, { kind: "integer" }>;

function parseNamed(
  row: IntegerField,
  values: readonly string[],
  parameters: Parameters,
  canonical: URLSearchParams,
) {
  const text = parameters.get(row.field);
  if (text === undefined) return undefined;
  const position = values.indexOf(text);
  if (position < 0) {
    const question = didYouMean(text, values);
    throw invalid(row.field, `${row.field} must be one of ${values.join(", ")}.${question}`);
  }
  canonical.set(row.field, text);
  return { min: row.min + position, max: row.min + position };
}

function parseRange(row: IntegerField, parameters: Parameters, canonical: URLSearchParams) {
  const [low, high] = [`min_${row.field}`, `max_${row.field}`];
  const min = optionalInteger(parameters, low, row.min, row.max);
  const max = optionalInteger(parameters, high, row.min, row.max);
  if (min === undefined && max === undefined) return undefined;
  if (min !== undefined && max !== undefined && min > max) throw invalid(low, `${low} is above ${high}.`);
  if (min !== undefined) canonical.set(low, String(min));
  if (max !== undefined) canonical.set(high, String(max));
  return { min: min ?? row.min, max: max ?? row.max };
}

function optionalInteger(parameters: Parameters, name: string, min: number, max: number) {
  const text = parameters.get(name);
  if (text === undefined) return undefined;
  // Digits first: Number() would also take "1e3", " 5" and "0x10".
  const value = /^(0|[1-9][0-9]*)$/.test(text) ? Number(text) : Number.NaN;
  if (!(value >= min && value <= max))
    throw invalid(name, `${name} must be an integer from ${min} to ${max}.`);
  return value;
}

function parseTimes(parameters: Parameters, canonical: URLSearchParams): Condition | undefined {
  const from = optionalTime(parameters, "from", 0);
  const to = optionalTime(parameters, "to", dayMilliseconds - 1);
  if (from === undefined && to === undefined) return undefined;
  if (from !== undefined && to !== undefined && from > to) throw invalid("from", "from is later than to.");
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
  if (text === undefined) return undefined;
  const groups = timePattern.exec(text)?.groups;
  const day = Date.parse(`${groups?.date}T00:00:00.000Z`);
  // Date.parse turns 2026-02-30 into March; only a real day prints as it was written.
  if (!groups?.date || Number.isNaN(day) || new Date(day).toISOString().slice(0, 10) !== groups.date) {
    throw invalid(
      name,
      `${name} must be a real day YYYY-MM-DD, or YYYY-MM-DDThh:mm:ss[.sss] with Z or ±hh:mm (write + as %2B).`,
    );
  }
  if (!groups.clock) return day + dateOnlyAddition;
  const fraction = (groups.fraction ?? ".").padEnd(4, "0");
  return Date.parse(`${groups.date}T${groups.clock}${fraction}${groups.zone}`);
}
