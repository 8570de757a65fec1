import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { asyncBufferFromFile, parquetReadObjects } from "hyparquet";
import { compressors } from "hyparquet-compressors";
import type { HistoricalMarket } from "../../../schemas/records.ts";

type Struct = Record<string, unknown>;
type Convert = (value: unknown) => unknown;

/** Members in an order, by the names of their columns, under those that they are published by. */
function members(names: string, converts: Record<string, Convert> = {}): (value: unknown) => Struct {
  const published = (name: string) => name.replace(/_(\w)/g, (_, letter) => letter.toUpperCase());
  return (value) => {
    const struct = value as Struct;
    const entries = names
      .split(" ")
      .map((name) => [published(name), (converts[name] ?? plain)(struct[name])] as const);
    return Object.fromEntries(entries);
  };
}

function listOf(convert: Convert): Convert {
  return (value) => (value as unknown[]).map(convert);
}

/** A value as JSON has it. */
function plain(value: unknown): unknown {
  if (value === undefined || value === null) return null;
  if (typeof value === "bigint") return Number(value);
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, plain(member)]));
}

/** Microseconds since 1970, cut off at the millisecond. */
function timestamp(value: unknown): string {
  return new Date(Number((value as bigint) / 1000n)).toISOString();
}

const reference = members("label url kind");
const evidence = listOf(members("type label pattern reference", { reference }));
const computation = members("baseline raises lowers");
const dimensions = listOf(
  members("key name score weight description evidence references computation", { evidence, computation }),
);

/** INTERFACE 2.4, in its order. */
const market = members(
  "id slug question category composite tier status resolved_outcome resolved_at resolution_source disputed " +
    "top_risk_driver flagged_count formula_version weight_version dimensions",
  { resolved_at: timestamp, dimensions },
);

/** INTERFACE 2.1, in its order. */
const score = members(
  "slug bri forge_scale forge_scale_num confidence delta updated_at evidence_hash dimensions cascade findings metadata",
  {
    updated_at: timestamp,
    cascade: members("blast_radius upstream_deps"),
    metadata: members("category chain tvl contracts z_factor"),
  },
);

/** The markets of Parquet sources as they should be published, in the archive's order; read without DuckDB. */
export async function sourceMarkets(directory: string): Promise<HistoricalMarket[]> {
  const rows = (await readRows(directory, "markets")).map(
    (row) => market(row) as unknown as HistoricalMarket,
  );
  return rows.sort((a, b) =>
    a.resolvedAt === b.resolvedAt ? (a.id < b.id ? 1 : -1) : a.resolvedAt < b.resolvedAt ? 1 : -1,
  );
}

/** The newest score of each protocol in Parquet sources as it should be published, by slug. */
export async function sourceScores(directory: string): Promise<Map<string, Struct>> {
  const runs = await sourceRuns(directory);
  return new Map(runs.map((run) => [String(run.slug), run]));
}

/** Every score in Parquet sources, oldest first, as it would be published. */
export async function sourceRuns(directory: string): Promise<Struct[]> {
  const rows = await readRows(directory, "protocol_scores");
  return rows.sort((a, b) => Number((a.updated_at as bigint) - (b.updated_at as bigint))).map(score);
}

async function readRows(directory: string, name: string): Promise<Struct[]> {
  const files = await readdir(directory, { recursive: true });
  const rows: Struct[] = [];
  for (const file of files.filter((file) => file.startsWith(name) && file.endsWith(".parquet"))) {
    const buffer = await asyncBufferFromFile(join(directory, file));
    const parsers = { timestampFromMicroseconds: (micros: bigint) => micros };
    rows.push(...(await parquetReadObjects({ file: buffer, compressors, parsers })));
  }
  return rows;
}
