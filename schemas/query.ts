import { z } from "zod";
import {
  booleanNames,
  type FilterField,
  facetLimit,
  facetNames,
  filterFields,
  type IntegerRange,
  otherParameters,
  paging,
  parameterNames,
  searchBounds,
  timePattern,
} from "./filters.ts";
import { Digest, filterMeaning, integerBetween, Label, MarketId } from "./records.ts";
import { digestPattern, maxLabelBytes } from "./shapes.ts";

/** A query parameter. `type` describes its values for people; `schema` describes them in the OpenAPI document. */
export interface QueryParameter {
  name: string;
  type: string;
  schema: z.ZodType;
  required?: true;
  meaning: string;
}

/** In characters. The rest of a response's head is below 2 KiB, so the whole head stays below 8 KiB. */
export const maxCursorLength = 6144;
// Without named groups, because not every JSON Schema validator supports them.
const timeText = timePattern.source.replaceAll(/\?<\w+>/g, "");
const TimeText = z.string().regex(new RegExp(timeText));

type Values = Pick<QueryParameter, "type" | "schema">;

export const integerIn = ({ min, max }: IntegerRange): Values => ({
  type: `integer ${min}..${max}`,
  schema: integerBetween(min, max),
});
const received = integerIn({ min: 0, max: paging.maxPage });
const snapshotId: Values = { type: "snapshot id", schema: Digest };

/** The query parameter of the live feed (INTERFACE 6). */
export const sinceParameter: QueryParameter = {
  name: "since",
  ...snapshotId,
  meaning: "Snapshot to resume from: changes since then are sent first.",
};

/** The query parameters of the difference between two snapshots (INTERFACE 4.8). */
export const changesParameters: readonly QueryParameter[] = [
  {
    name: "since",
    ...snapshotId,
    meaning: "Snapshot that the caller's copy has.",
    required: true,
  },
  {
    name: "until",
    ...snapshotId,
    meaning: "Snapshot that the copy is to have; the current one if left out.",
  },
  {
    name: "skip",
    ...received,
    meaning: "With until only: how many lines of the answer have been received.",
  },
];

/** The query parameter that asks for an earlier snapshot (INTERFACE 4.10). */
export const asOfParameter: QueryParameter = {
  name: "asOf",
  type: "snapshot id | ISO date",
  // One pattern and not a union, of which generators of clients make a class or nothing.
  schema: z.string().regex(new RegExp(`${digestPattern.source}|${timeText}`)),
  meaning:
    "The snapshot of this id, or the one that was current at this time; a date alone means the end of its UTC day.",
};

/** The most parts of an index in one answer. */
export const maxIndexParts = 100;

/** The query parameter that names parts of an index (INTERFACE 4.12). */
export const partsParameter: QueryParameter = {
  name: "of",
  type: `up to ${maxIndexParts} hashes`,
  schema: commaSeparated(Digest),
  required: true,
  meaning: `Hashes of the parts wanted, separated by commas: at most ${maxIndexParts}, each once.`,
};

/** The query parameter that names a market which does not exist (INTERFACE 4.12). */
export const idParameter: QueryParameter = {
  name: "id",
  type: "UUID",
  schema: MarketId,
  required: true,
  meaning: "The id that no market of the archive has, a UUID in lower case.",
};

const describedOthers: Record<(typeof otherParameters)[number], Omit<QueryParameter, "name">> = {
  from: { type: "ISO date", schema: TimeText, meaning: "Earliest resolvedAt, inclusive." },
  to: {
    type: "ISO date",
    schema: TimeText,
    meaning: "Latest resolvedAt, inclusive; a date alone covers its whole UTC day.",
  },
  q: {
    type: `up to ${searchBounds.words} words`,
    schema: z.string().min(1).max(searchBounds.characters),
    meaning:
      "Words that the question has, all of them, in any letter case; `elect*` stands for words that begin so.",
  },
};

/** The query parameters that select markets (INTERFACE 4.5). */
export const filterParameters: readonly QueryParameter[] = [
  ...filterFields.flatMap(describeField),
  ...otherParameters.map((name) => ({ name, ...describedOthers[name] })),
];

/** Every query parameter of the archive (INTERFACE 4.5), in the order of the documentation. */
export const archiveParameters: readonly QueryParameter[] = [
  ...filterParameters,
  { name: "page", ...integerIn({ min: 1, max: paging.maxPage }), meaning: "Page number, 1 if left out." },
  {
    name: "pageSize",
    ...integerIn({ min: 1, max: paging.maxPageSize }),
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
    ...received,
    meaning: "NDJSON or CSV with a cursor only: how many markets behind the cursor have been received.",
  },
];

/** What a client gives to ask the archive, by its table of parameters. */
export const Filters = z
  .object(
    Object.fromEntries(
      [...archiveParameters, asOfParameter].map(({ name, schema }) => [name, schema.optional()]),
    ),
  )
  .describe("Filters of the archive, and where to begin.");

/** The query parameters of facets (INTERFACE 4.7) besides those that select markets. */
export const facetParameters: readonly QueryParameter[] = [
  {
    name: "by",
    type: facetNames.join(" | "),
    schema: commaSeparated(z.enum(facetNames)),
    required: true,
    meaning: "What to count by, one or several separated by commas.",
  },
  {
    name: "limit",
    ...integerIn({ min: 1, max: facetLimit.max }),
    meaning: `The most values listed of each, ${facetLimit.otherwise} if left out; the others are counted together.`,
  },
];

function commaSeparated(entry: z.ZodType): z.ZodType {
  return z.array(entry).min(1);
}

function describeField(row: FilterField): QueryParameter[] {
  return parameterNames(row).map((name) => ({ name, ...valuesOf(row), meaning: filterMeaning(row) }));
}

function valuesOf(row: FilterField): Values {
  if (row.kind === "label") return { type: `string of up to ${maxLabelBytes} bytes`, schema: Label.min(1) };
  if (row.values === booleanNames) return { type: "boolean", schema: z.boolean() };
  if (!row.values) return integerIn(row);
  const schema = z.enum(row.values);
  return { type: row.values.join(" | "), schema: row.several ? commaSeparated(schema) : schema };
}
