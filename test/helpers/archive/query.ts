import { endpoints } from "../../../schemas/endpoints.ts";
import { parseAsOf } from "../../../snapshots/read/answer.ts";
import { type ArchiveQuery, parseArchiveQuery } from "../../../snapshots/read/archive/paging.ts";
import { parseRowsQuery, type RowsQuery } from "../../../snapshots/read/archive/rows.ts";
import { readParameters } from "../../../snapshots/read/parameters.ts";

const parametersOf = (search: string) => {
  const parameters = readParameters(
    search,
    endpoints.marketsHistorical.query.map(({ name }) => name),
  );
  return [parameters, parseAsOf(parameters)] as const;
};

/** The archive's query in a request target's query text. */
export const archiveQuery = (search: string): ArchiveQuery => parseArchiveQuery(...parametersOf(search));

/** The same, of a request for NDJSON. */
export const rowsQuery = (search: string): RowsQuery => parseRowsQuery(...parametersOf(search));
