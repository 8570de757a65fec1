import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { contractSql } from "../../snapshots/sources/contract/describe-contract.ts";
import { quoted } from "../../snapshots/sources/duckdb/sql-literals.ts";
import { directoryStorage } from "../../snapshots/store/backends/directory.ts";
import { withDuckDb } from "../helpers/archive/sql.ts";
import { snapshotCommand } from "../helpers/publish/commands.ts";
import { loadSample, writeTables } from "../helpers/publish/editable-sources.ts";
import { publishSources } from "../helpers/publish/sample-sources.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

const folder = testFolder();
const sources = join(folder, "sources");
let snapshotId: string;

const run = (args: string, from = folder) => snapshotCommand(args.split(" "), { from });

/** Writes a script below the test's folder. */
async function script(name: string, text: string): Promise<string> {
  await writeFile(join(folder, name), text);
  return name;
}

const insert = (read: string) => `${contractSql()}
  INSERT INTO markets BY NAME FROM ${read.replace("*", "markets")};
  INSERT INTO protocol_scores BY NAME FROM ${read.replace("*", "protocol_scores")};`;
const views = (markets: string, scores: string) =>
  `CREATE VIEW markets AS ${markets}; CREATE VIEW protocol_scores AS ${scores};`;
/** DuckDB takes UUIDs and times in JSON for such. */
const ofJson = (table: string, time: string, id = "slug") =>
  `SELECT * REPLACE (${id}::VARCHAR AS ${id}, ${time}::TIMESTAMPTZ AS ${time}) FROM read_json('${table}.ndjson')`;
const parquet = (table: string) => `FROM read_parquet('sources/${table}.parquet')`;
const tables = views(parquet("markets"), parquet("protocol_scores"));

beforeAll(async () => {
  await withDuckDb(folder, async (sql) => {
    await loadSample(sql, folder, { markets: 90, protocols: 4 });
    await writeTables(sql, sources);
    const path = (name: string) => quoted(join(folder, name));
    for (const [table, name] of [
      ["markets", "markets"],
      ["scores", "protocol_scores"],
    ] as const) {
      await sql.run(`COPY ${table} TO ${path(`${name}.ndjson`)} (FORMAT json)`);
      const described = await sql.runAndReadAll(`DESCRIBE ${table}`);
      const nested = described
        .getRows()
        .flatMap(([column, type]) =>
          /STRUCT/.test(String(type)) ? [`to_json(${column}) AS ${column}`] : [],
        );
      const flat = `SELECT * REPLACE (${nested.join(", ")}) FROM ${table}`;
      await sql.run(`COPY (${flat}) TO ${path(`${name}.csv`)} (HEADER)`);
      await sql.run(`ATTACH IF NOT EXISTS ${path("own.duckdb")} AS own`);
      await sql.run(`CREATE TABLE own.${name} AS FROM ${table}`);
    }
    await sql.run("DETACH own");
  });
  ({ snapshotId } = await publishSources(sources, directoryStorage(join(folder, "store")), folder));
});

// What else a script may do, and what is refused, is in sessions/scripts.txt.
describe("a script", () => {
  test.for([
    ["Parquet", () => tables],
    ["CSV", () => insert("read_csv('*.csv')")],
    [
      "newline-delimited JSON",
      () => views(ofJson("markets", "resolved_at", "id"), ofJson("protocol_scores", "updated_at")),
    ],
    [
      "an attached database",
      // Editors on Windows begin a file with a byte order mark.
      () => `\ufeffATTACH ${quoted(join(folder, "own.duckdb"))} AS own (READ_ONLY); USE own;`,
    ],
  ] as const)("over %s publishes the snapshot that its rows in Parquet files make", async ([name, text]) => {
    const file = await script(`${name.replaceAll(/\W/g, "-")}.sql`, text());
    const publish = () => run(`publish --sources ${file} --store ${file}-store`);
    const [first, second] = [await publish(), await publish()];
    expect(first.stdout, first.stderr).toContain(`Published commit 1, snapshot ${snapshotId}`);
    expect(first.stderr).toContain(`Ran ${file}: 90 markets, 12 protocol_scores`);
    expect(second.stdout).toContain(`Nothing new: commit 1 already has snapshot ${snapshotId}`);
    expect(second.stdout).toContain("objects: 0 (0 bytes) uploaded");
  });
});
