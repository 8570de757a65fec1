import { described, protocol, protocolDimensionKeys, scoreHead } from "./protocol.ts";

const head = Object.keys(scoreHead);
const { cascade, findings, metadata } = protocol;
const members = [cascade, findings, metadata].flatMap((struct) => Object.keys(struct.members));

/** The columns of the figures behind charts, for callers who want them as CSV (INTERFACE 4.15), by endpoint. */
export const tableColumns = {
  listScores: [...head, ...Object.keys(described)],
  getScore: [...head, "evidenceHash", ...protocolDimensionKeys, ...members],
  scoreHistory: head,
  scoreDimensions: ["slug", "updatedAt", "key", "score", "change7d", "percentile"],
  marketFacets: ["facet", "kind", "value", "from", "to", "count", "disputed"],
} as const satisfies Record<string, readonly string[]>;

/** Endpoints whose answers also come as a table. */
export type TableId = keyof typeof tableColumns;
