import { maxLabelBytes } from "../../schemas/primitives.ts";
import { bounds, marketDimensionKeys, protocolDimensionKeys } from "../../schemas/records.ts";
import { forgeTiers } from "../../schemas/tiers.ts";
import { textList } from "./sql-literals.ts";
import {
  any,
  atMostBytes,
  boolean,
  count,
  double,
  doubleBetween,
  type Field,
  integer,
  list,
  matching,
  notEmpty,
  oneOf,
  type Rule,
  type SourceTable,
  struct,
  text,
  timeUntil,
} from "./table-schema.ts";

const score = integer(bounds.score);
const shortEnough = atMostBytes(maxLabelBytes);
const tier = text(oneOf(forgeTiers));
const url = text(matching(/^https?:\/\//, "must be an http or https URL"));
const uuid = text(
  matching(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/, "must be a UUID in lower-case digits"),
);
const notReserved: Rule = { rule: "is a reserved word", holds: (value) => `${value} <> 'batch'` };
const protocolSlug = text(
  matching(
    /^[a-z0-9][a-z0-9._-]{0,99}$/,
    "must be 1 to 100 of a-z, 0-9, dot, dash, underscore, and begin with a-z or 0-9",
  ),
  notReserved,
);

const evidence = struct([
  { name: "type", shape: text() },
  { name: "label", shape: text() },
  { name: "pattern", shape: text() },
  {
    name: "reference",
    shape: struct([
      { name: "label", shape: text() },
      { name: "url", shape: url },
      { name: "kind", shape: text() },
    ]),
  },
]);

const marketDimension = struct([
  { name: "key", shape: text(oneOf(marketDimensionKeys)) },
  { name: "name", shape: text() },
  { name: "score", shape: score },
  { name: "weight", shape: doubleBetween(bounds.weight) },
  { name: "description", shape: text() },
  { name: "evidence", shape: list(evidence) },
  { name: "references", shape: list(any) },
  {
    name: "computation",
    shape: struct([
      { name: "baseline", shape: double },
      { name: "raises", shape: list(any) },
      { name: "lowers", shape: list(any) },
    ]),
  },
]);

const dimensionKeys = "list_sort(list_transform(dimensions, lambda dimension: dimension.key))";

/** The source of the archive's markets (INTERFACE 2.4 to 2.6). `latest` is the latest time that a row may have. */
export function marketsTable(latest: Date): SourceTable {
  return {
    name: "markets",
    label: "id",
    fields: [
      { name: "id", shape: uuid },
      { name: "slug", shape: text(notEmpty) },
      { name: "question", shape: text(notEmpty) },
      { name: "category", shape: text(notEmpty, shortEnough) },
      { name: "composite", shape: integer(bounds.composite) },
      { name: "tier", shape: tier },
      { name: "status", shape: text(oneOf(["resolved"])) },
      { name: "resolved_outcome", published: "resolvedOutcome", shape: text(notEmpty, shortEnough) },
      { name: "resolved_at", published: "resolvedAt", shape: timeUntil(latest) },
      { name: "resolution_source", published: "resolutionSource", shape: url },
      { name: "disputed", shape: boolean },
      { name: "top_risk_driver", published: "topRiskDriver", shape: text() },
      { name: "flagged_count", published: "flaggedCount", shape: count },
      { name: "formula_version", published: "formulaVersion", shape: text(shortEnough) },
      { name: "weight_version", published: "weightVersion", shape: text(shortEnough) },
      { name: "dimensions", shape: list(marketDimension) },
    ],
    rowRules: [
      {
        column: "dimensions",
        rule: `must have each of the keys ${marketDimensionKeys.join(", ")} once`,
        holds: `coalesce(${dimensionKeys} = ${textList(marketDimensionKeys.toSorted())}, false)`,
        value: "to_json(list_transform(dimensions, lambda dimension: dimension.key))",
      },
    ],
  };
}

const scoreDimensions: Field[] = protocolDimensionKeys.map((name) => ({ name, shape: score }));

/**
 * The source of protocol scores with their history (INTERFACE 2.1). `latest` is the latest time that a row may have.
 */
export function protocolScoresTable(latest: Date): SourceTable {
  return {
    name: "protocol_scores",
    label: "slug",
    fields: [
      { name: "slug", shape: protocolSlug },
      { name: "bri", shape: integer(bounds.bri) },
      { name: "forge_scale", published: "forgeScale", shape: tier },
      {
        name: "forge_scale_num",
        published: "forgeScaleNum",
        shape: integer({ min: 1, max: forgeTiers.length }),
      },
      { name: "confidence", shape: integer(bounds.confidence) },
      { name: "delta", shape: integer(bounds.delta) },
      { name: "updated_at", published: "updatedAt", shape: timeUntil(latest) },
      { name: "evidence_hash", published: "evidenceHash", shape: text() },
      { name: "dimensions", shape: struct(scoreDimensions) },
      {
        name: "cascade",
        shape: struct([
          { name: "blast_radius", published: "blastRadius", shape: count },
          { name: "upstream_deps", published: "upstreamDeps", shape: count },
        ]),
      },
      {
        name: "findings",
        shape: struct(["critical", "high", "medium"].map((name) => ({ name, shape: count }))),
      },
      {
        name: "metadata",
        shape: struct([
          { name: "category", shape: text() },
          { name: "chain", shape: text() },
          { name: "tvl", shape: text() },
          { name: "contracts", shape: count },
          { name: "z_factor", published: "zFactor", shape: double },
        ]),
      },
    ],
    rowRules: [
      {
        column: "forge_scale_num",
        rule: "must be the number of forge_scale, 1 for RAW to 7 for ADAMANTINE",
        holds: `coalesce(forge_scale_num = list_position(${textList(forgeTiers)}, forge_scale), true)`,
        value: "concat(forge_scale_num, ' with ', forge_scale)",
      },
    ],
  };
}
