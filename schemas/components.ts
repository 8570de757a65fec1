import * as envelopes from "./envelopes.ts";
import * as records from "./records.ts";
import { Tiers } from "./store/stored-objects.ts";

const schemas = { ...records, ...envelopes, Tiers };
const named = [
  "AnyJson",
  "Digest",
  "Timestamp",
  "ForgeTier",
  "ScoreListEntry",
  "ScorePoint",
  "ProtocolScore",
  "EvidenceItem",
  "MarketDimension",
  "HistoricalMarket",
  "ScoreList",
  "BatchRequest",
  "ScoreBatch",
  "ScoreHistory",
  "ScoreDimensions",
  "ScoreProof",
  "Tiers",
  "MarketPage",
  "LabelFacet",
  "ScoreFacet",
  "MonthFacet",
  "MarketFacets",
  "ChangeLine",
  "ExportList",
  "MarketProof",
  "MarketIndex",
  "MarketAbsence",
  "SnapshotList",
  "Usage",
  "Status",
  "Alive",
  "Ready",
  "ApiDescription",
  "Nearest",
  "Problem",
] as const;

/** The schemas that have names in the API's description, and as types in the client's. */
export const components = Object.fromEntries(named.map((name) => [name, schemas[name]]));
