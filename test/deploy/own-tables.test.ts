import { mkdir, readdir, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import {
  DuckDBListType,
  type DuckDBStructType,
  type DuckDBType,
  DuckDBTypeId,
  type Json,
} from "@duckdb/node-api";
import { beforeAll, describe, expect, test, vi } from "vitest";
import { withDuckDb } from "../helpers/archive/sql.ts";
import { snapshotCommand } from "../helpers/publish/commands.ts";
import { loadSample, writeTables } from "../helpers/publish/editable-sources.ts";
import { blocksIn, guide } from "../helpers/publish/guides.ts";
import { findDuckDbHome } from "../helpers/servers/duckdb-home.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

const folder = testFolder();
const table = join(folder, "lake/markets");
const [ofExtension, ofList] = blocksIn(guide(".github/deploy/SOURCES.md"))
  .filter(({ language, text }) => language === "sql" && /delta_scan|live\.csv/.test(text))
  .map(({ text }) => text) as [string, string];
const check = (sources: string) => snapshotCommand(["check", "--sources", sources], { from: folder });
const sound = { code: 0, stdout: "4 markets and 12 scores of 4 protocols: nothing to refuse\n" };

/** Whether a home folder has DuckDB's extension for Delta Lake. */
async function hasDelta(home: string): Promise<boolean> {
  const names = await readdir(home, { recursive: true });
  const found = names.some((name) => name.endsWith("/delta.duckdb_extension"));
  if (!found)
    console.warn("A test of Delta Lake is skipped: test/servers/duckdb-install.sh installs the extension");
  return found;
}
const home = findDuckDbHome();
const delta = home !== undefined && (await hasDelta(home));

/** A type as Delta's log has it. */
function deltaType(type: DuckDBType): Json {
  if (type instanceof DuckDBListType)
    return { type: "array", elementType: deltaType(type.valueType), containsNull: true };
  if (type.typeId === DuckDBTypeId.STRUCT) {
    const { entryNames, entryTypes } = type as DuckDBStructType;
    return deltaStruct(entryNames, entryTypes);
  }
  const names: Partial<Record<DuckDBTypeId, string>> = {
    [DuckDBTypeId.INTEGER]: "integer",
    [DuckDBTypeId.BIGINT]: "long",
    [DuckDBTypeId.DOUBLE]: "double",
    [DuckDBTypeId.BOOLEAN]: "boolean",
    [DuckDBTypeId.TIMESTAMP_TZ]: "timestamp",
  };
  return names[type.typeId] ?? "string";
}

const deltaStruct = (names: readonly string[], types: readonly DuckDBType[]): Json => ({
  type: "struct",
  fields: names.map((name, n) => ({ name, type: deltaType(types[n]!), nullable: true, metadata: {} })),
});

/** Writes a version of the table's log. */
const commit = (version: number, actions: readonly object[]) =>
  writeFile(
    join(table, `_delta_log/${String(version).padStart(20, "0")}.json`),
    actions.map((action) => `${JSON.stringify(action)}\n`).join(""),
  );

beforeAll(async () => {
  await mkdir(join(table, "_delta_log"), { recursive: true });
  const schema = await withDuckDb(folder, async (sql) => {
    await loadSample(sql, folder, { markets: 5, protocols: 4 });
    await writeTables(sql, folder, { markets: "SELECT 1 AS other" });
    const least = "(SELECT min(slug) FROM markets)";
    for (const [query, name] of [
      [`FROM markets WHERE slug = ${least}`, "markets/old"],
      [`FROM markets WHERE slug > ${least}`, "markets/live"],
      ["FROM scores", "protocol_scores"],
    ])
      await sql.run(`COPY (${query}) TO '${join(folder, "lake", `${name}.parquet`)}' (FORMAT parquet)`);
    const result = await sql.run("FROM markets LIMIT 0");
    return deltaStruct(result.columnNames(), result.columnTypes());
  });
  const added = async (path: string) => {
    const { size } = await stat(join(table, path));
    return { add: { path, size, partitionValues: {}, modificationTime: 0, dataChange: true } };
  };
  const metaData = {
    id: "6f1f2c1e-3a54-4a6e-9a53-0d6a51f0c001",
    format: { provider: "parquet", options: {} },
    schemaString: JSON.stringify(schema),
    partitionColumns: [],
    configuration: {},
  };
  const protocol = { minReaderVersion: 1, minWriterVersion: 2 };
  await commit(0, [{ protocol }, { metaData }, await added("old.parquet"), await added("live.parquet")]);
  await commit(1, [{ remove: { path: "old.parquet", deletionTimestamp: 0, dataChange: true } }]);
});

describe("a Delta table with a file that is no longer live", () => {
  test("is refused as a folder, and read by the list of its live files", async () => {
    const refused = expect.stringContaining("markets/: is a table of Delta Lake");
    expect(await check("lake")).toMatchObject({ code: 3, stderr: refused });
    await writeFile(join(folder, "live.csv"), "file\nlake/markets/live.parquet\n");
    await writeFile(join(folder, "live.sql"), ofList);
    expect(await check("live.sql")).toMatchObject(sound);
  });

  test.skipIf(!delta)("is read by DuckDB's extension", async () => {
    vi.stubEnv("HOME", home);
    await writeFile(join(folder, "delta.sql"), ofExtension);
    expect(await check("delta.sql").finally(() => vi.unstubAllEnvs())).toMatchObject(sound);
  });
});
