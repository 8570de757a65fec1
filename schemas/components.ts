import * as envelopes from "./envelopes.ts";
import * as records from "./records.ts";
import { Tiers } from "./store/stored-objects.ts";

const { AnyJson, Digest, EvidenceItem, ForgeTier, HistoricalMarket, MarketDimension } = records;
const { Nearest, ProtocolScore, ScoreListEntry, ScorePoint, Timestamp } = records;
const { ScoreList, BatchRequest, ScoreBatch, ScoreHistory, ScoreDimensions, ScoreProof } = envelopes;
const { LabelFacet, ScoreFacet, MonthFacet, MarketFacets } = envelopes;
const { ChangeLine, ExportList, MarketAbsence, MarketIndex, MarketPage, MarketProof, SnapshotList } =
  envelopes;
const { Usage, Status, Alive, Ready, ApiDescription, Problem } = envelopes;

/** The schemas that have names in the API's description, and as types in the client's. */
export const components = {
  AnyJson,
  Digest,
  Timestamp,
  ForgeTier,
  ScoreListEntry,
  ScorePoint,
  ProtocolScore,
  EvidenceItem,
  MarketDimension,
  HistoricalMarket,
  ScoreList,
  BatchRequest,
  ScoreBatch,
  ScoreHistory,
  ScoreDimensions,
  ScoreProof,
  Tiers,
  MarketPage,
  LabelFacet,
  ScoreFacet,
  MonthFacet,
  MarketFacets,
  ChangeLine,
  ExportList,
  MarketProof,
  MarketIndex,
  MarketAbsence,
  SnapshotList,
  Usage,
  Status,
  Alive,
  Ready,
  ApiDescription,
  Nearest,
  Problem,
};
