import { z } from "zod";

// Delta Sharing (INTERFACE 4.14), as github.com/delta-io/delta-sharing has it in PROTOCOL.md.

/** The one table of the service. */
export const sharedTable = { share: "prs", schema: "archive", name: "markets" } as const;

/** The path below which addresses of the protocol lie. */
export const sharingRoot = "/delta-sharing";

/** The part of the API that a path belongs to, even if no endpoint has it. */
export const apiRootOf = (path: string): string | undefined =>
  ["/api/v1", sharingRoot].find((root) => path === root || path.startsWith(`${root}/`));

/** Media type of answers about a table, one JSON object a line. */
export const sharingLines = "application/x-ndjson; charset=utf-8";

// A 64-bit number may come as text in JSON of Protocol Buffers.
const Long = z.union([
  z.int().min(0),
  z
    .string()
    .regex(/^[0-9]{1,15}$/)
    .transform(Number),
]);

/** What a query of the table is asked for. Members that the protocol adds later are passed over. */
export const TableQuery = z
  .object({
    predicateHints: z.array(z.string()).optional(),
    jsonPredicateHints: z.string().optional(),
    limitHint: Long.optional(),
    version: Long.optional(),
    timestamp: z.string().optional(),
    startingVersion: Long.optional(),
  })
  .describe("a JSON object as Delta Sharing has it for queries of a table, such as {}");
export type TableQuery = z.infer<typeof TableQuery>;
