import { z } from "zod";
import type { Problem } from "../envelopes.ts";

// Delta Sharing (INTERFACE 4.14), specified in PROTOCOL.md of github.com/delta-io/delta-sharing.

/** The only table of the service. */
export const sharedTable = { share: "prs", schema: "archive", name: "markets" } as const;

export const sharingRoot = "/delta-sharing";

export const sharingProtocol = {
  root: sharingRoot,
  below: true,
  problemOf: ({ code, detail }: Problem) => ({ errorCode: code, message: detail }),
};

/** Media type of answers about a table, one JSON object per line. */
export const sharingLines = "application/x-ndjson; charset=utf-8";

// JSON of Protocol Buffers may write a 64-bit number as text.
const Long = z.union([
  z.int().min(0),
  z
    .string()
    .regex(/^[0-9]{1,15}$/)
    .transform(Number),
]);

/** The body of a query of the table. Members that the protocol adds later are ignored. */
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
