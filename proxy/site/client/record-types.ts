import { z } from "zod";
import {
  ExportList,
  LabelFacet,
  MarketFacets,
  MarketPage,
  MarketProof,
  MonthFacet,
  Problem,
  ProofLevel,
  ScoreBatch,
  ScoreDimensions,
  ScoreFacet,
  ScoreHistory,
  ScoreList,
  ScoreProof,
  SnapshotList,
  Status,
  Usage,
} from "../../../schemas/envelopes.ts";
import { Filters } from "../../../schemas/query.ts";
import {
  EvidenceItem,
  ForgeTier,
  HistoricalMarket,
  MarketDimension,
  Nearest,
  ProtocolScore,
  ScoreListEntry,
  ScorePoint,
} from "../../../schemas/records.ts";
import { Tiers } from "../../../schemas/store/stored-objects.ts";

/** The records that /client.d.ts declares: those that calls take and give, and what is a part of several of them. */
export const records = {
  ErrorCode: Problem.shape.code,
  EvidenceItem,
  ExportList,
  Filters,
  ForgeTier,
  HistoricalMarket,
  LabelFacet,
  MarketDimension,
  MarketFacets,
  MarketPage,
  MarketProof,
  MonthFacet,
  Nearest,
  Problem,
  ProofLevel,
  ProtocolScore,
  ScoreBatch,
  ScoreDimensions,
  ScoreFacet,
  ScoreHistory,
  ScoreList,
  ScoreListEntry,
  ScorePoint,
  ScoreProof,
  SnapshotList,
  Status,
  Tiers,
  Usage,
};

/** The records as types of TypeScript, which follow from their schemas. */
export function recordTypes(): string {
  const { schemas } = z.toJSONSchema(recordRegistry(), { io: "input", uri: (id) => id });
  const declared = Object.entries(schemas).map(([name, schema]) => {
    const type = typeOf(schema, "");
    return type.startsWith("{") ? `export interface ${name} ${type}\n` : `export type ${name} = ${type};\n`;
  });
  return declared.map((text, at) => commentOf(Object.values(schemas)[at]!, "") + text).join("");
}

export function recordRegistry() {
  const registry = z.registry<{ id: string }>();
  for (const [id, schema] of Object.entries(records)) registry.add(schema, { id });
  return registry;
}

type JsonSchema = z.core.JSONSchema.JSONSchema;

function typeOf(schema: JsonSchema, indent: string): string {
  if (schema.$ref) return schema.$ref;
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (schema.anyOf) return schema.anyOf.map((one) => typeOf(one as JsonSchema, indent)).join(" | ");
  if (Array.isArray(schema.type)) return schema.type.join(" | ").replace("integer", "number");
  switch (schema.type) {
    case "object":
      return objectOf(schema, indent);
    case "array": {
      const item = typeOf(schema.items as JsonSchema, indent);
      return item.includes(" | ") && !item.startsWith("{") ? `(${item})[]` : `${item}[]`;
    }
    case "integer":
      return "number";
    case "string":
    case "number":
    case "boolean":
    case "null":
      return schema.type;
    default:
      return "unknown";
  }
}

function objectOf({ properties, required = [], additionalProperties }: JsonSchema, indent: string): string {
  const inner = `${indent}  `;
  if (!properties) return `{ [name: string]: ${typeOf(additionalProperties as JsonSchema, inner)} }`;
  const members = Object.entries(properties as Record<string, JsonSchema>).map(([name, schema]) => {
    const optional = required.includes(name) ? "" : "?";
    return `${commentOf(schema, inner)}${inner}${name}${optional}: ${typeOf(schema, inner)};\n`;
  });
  return `{\n${members.join("")}${indent}}`;
}

const commentOf = ({ description }: JsonSchema, indent: string) =>
  description === undefined ? "" : `${indent}/** ${description} */\n`;
