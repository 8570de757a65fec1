import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { contractSql } from "../../snapshots/sources/contract/describe-contract.ts";
import { quoted } from "../../snapshots/sources/duckdb/sql-literals.ts";
import { directoryStorage } from "../../snapshots/store/backends/directory.ts";
import { withDuckDb } from "../helpers/archive/sql.ts";
import { expectEnd, snapshotCommand } from "../helpers/publish/commands.ts";
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

  test("may leave integers of 128 bits, as sums and JSON have them, whose values fit", async () => {
    const scores = (value: string) =>
      `SELECT * REPLACE (${value} AS delta, {'blast_radius': 1::HUGEINT, 'upstream_deps': 2::UHUGEINT} AS cascade)
         ${parquet("protocol_scores")}`;
    await script("wide.sql", views(parquet("markets"), scores("delta::HUGEINT")));
    expect(await run("check --sources wide.sql")).toMatchObject({ code: 0 });
    await script("wider.sql", views(parquet("markets"), scores("170141183460469231731687303715884105727")));
    expectEnd(
      await run("check --sources wider.sql"),
      3,
      /^wider\.sql \(protocol_scores\): cannot be read: Conversion Error: .*17014118/m,
    );
  });

  test("may leave empty lists, for whose items DuckDB chooses a type, and no others of that type", async () => {
    const markets = (evidence: string) =>
      `SELECT * REPLACE (list_transform(dimensions, lambda d: struct_update(d, evidence := ${evidence})) AS dimensions)
         ${parquet("markets")}`;
    const empty = views(markets("[]"), parquet("protocol_scores"));
    for (const text of [empty, empty.replaceAll("VIEW", "TABLE"), empty.replace("[]", "[]::JSON[]")])
      expect(await run(`check --sources ${await script("empty.sql", text)}`)).toMatchObject({ code: 0 });
    await script("filled.sql", views(markets("[1]"), parquet("protocol_scores")));
    expectEnd(
      await run("check --sources filled.sql"),
      3,
      "column dimensions[].evidence[]: INTEGER, must be of type STRUCT",
    );
  });

  test("tells what its SELECT statements return, to a bound, and runs them to their end", async () => {
    const selects = `SELECT 'left  out' || chr(10), 3, NULL; SELECT NULL; FROM range(102); SELECT 'password=hidden';`;
    const told = await run(`check --sources ${await script("tells.sql", tables + selects)}`);
    const lines = told.stderr.split("\n").filter((line) => line.startsWith("tells.sql: "));
    const numbers = Array.from({ length: 100 }, (_, n) => `tells.sql: ${n}`);
    const [more, password] = ["tells.sql: and 2 more rows of this SELECT", "tells.sql: password=***"];
    expect(lines).toEqual(["tells.sql: left out 3", ...numbers, more, password]);
    const late = "SELECT CASE WHEN range = 5000 THEN error('late') END FROM range(5001)";
    expectEnd(
      await run(`check --sources ${await script("late.sql", tables + late)}`),
      3,
      "late.sql, statement 3 of 3: fails: Invalid",
    );
  });

  test("finds files from the folder that its user stands in", async () => {
    await mkdir(join(folder, "below"));
    await script("below/other.sql", tables);
    const counts = "90 markets and 12 scores of 4 protocols: nothing to refuse\n";
    expect(await run("check --sources below/other.sql")).toMatchObject({ code: 0, stdout: counts });
    expectEnd(
      await run("check --sources other.sql", join(folder, "below")),
      3,
      "No files found that match the pattern",
    );
  });

  test("is read whole each time, and publishes what has changed", async () => {
    const changed = `${parquet("markets")} WHERE composite > 0`;
    const text = (disputed: string) =>
      views(
        `SELECT * REPLACE (CASE WHEN slug = (SELECT max(slug) ${changed}) THEN ${disputed} ELSE disputed END
           AS disputed) ${changed}`,
        parquet("protocol_scores"),
      );
    await run(`publish --sources ${await script("edit.sql", text("disputed"))} --store edited`);
    const { stdout } = await run(
      `publish --sources ${await script("edit.sql", text("NOT disputed"))} --store edited --json`,
    );
    const { outcome, changes } = JSON.parse(stdout);
    expect([outcome, changes.markets.changed, changes.markets.added]).toEqual(["published", 1, 0]);
  });

  test("can keep itself to some folders", async () => {
    const locked = `SET allowed_directories = [${quoted(sources)}]; SET enable_external_access = false;
      SET lock_configuration = true; `;
    const inside = (file: string) => `FROM read_parquet(${quoted(join(folder, file))})`;
    const scores = inside("sources/protocol_scores.parquet");
    await script("locked.sql", locked + views(inside("sources/markets.parquet"), scores));
    expect(await run("check --sources locked.sql")).toMatchObject({ code: 0 });
    await script("outside.sql", locked + views(inside("markets.parquet"), scores));
    const denied = /outside\.sql, statement 4 of 5: fails: Permission Error: Cannot access file/;
    expectEnd(await run("check --sources outside.sql"), 3, denied);
  });

  test("loads no extension that it does not name", async () => {
    const text = views("FROM 'https://127.0.0.1:1/markets.parquet'", parquet("protocol_scores"));
    const missing = /^remote\.sql, statement 1 of 2: fails: Missing Extension Error/m;
    expectEnd(await run(`check --sources ${await script("remote.sql", text)}`), 3, missing);
  });
});

describe("a script is refused", () => {
  const scores = parquet("protocol_scores");
  test.for<[name: string, text: string, told: (string | RegExp)[]]>([
    [
      "syntax",
      "SELECT 1;\n\nCREATE VIEW of nothing",
      [/^syntax\.sql, line 3: fails: Parser Error: syntax error/m],
    ],
    [
      "statement",
      "SELECT 1;\nSELECT * FROM nothing; SELECT 2",
      [/^statement\.sql, statement 2 of 3: fails: Catalog Error: Table with name nothing does not exist!/m],
    ],
    [
      "password",
      "ATTACH 'postgres://me:secret@127.0.0.1:1/x' (TYPE nosuch); SELECT error('password=secret')",
      ["password.sql, statement 1 of 2: fails"],
    ],
    [
      "error",
      "SELECT error('postgres://me:secret@host/db password=secret password = ''secret''')",
      ["postgres://me:***@host/db password=*** password = ***"],
    ],
    [
      "signs",
      `SELECT error('postgres://me:x@"secret@host/db password=x"secret password=''x \\''secret'' https://host/x?Signature=secret')`,
      ["postgres://me:***@host/db password=*** password=*** https://host/x?Signature=***"],
    ],
    ["nothing", "-- A comment alone\n", ["nothing.sql: has no statement"]],
    [
      "missing",
      "SELECT 1",
      ["markets", "protocol_scores"].map((name) => `missing.sql: leaves no table or view named ${name}`),
    ],
    ["open", `${tables} BEGIN;`, ["open.sql: leaves a transaction open; end it with COMMIT"]],
    [
      "types",
      views(
        `SELECT * EXCLUDE (slug) REPLACE (id::UUID AS id, composite::DECIMAL(9, 2) AS composite) ${parquet("markets")}`,
        `SELECT * REPLACE (updated_at::TIMESTAMP AS updated_at) ${scores}`,
      ),
      [
        "types.sql (markets), column id: UUID, must be of type VARCHAR",
        "types.sql (markets), column composite: DECIMAL(9,2), must be of type INTEGER, or another integer type",
        "types.sql (markets), column slug: is missing",
        "types.sql (protocol_scores), column updated_at: TIMESTAMP, must be of type TIMESTAMP WITH TIME ZONE",
      ],
    ],
    [
      "values",
      views(
        `SELECT * REPLACE (CASE WHEN slug = (SELECT max(slug) ${parquet("markets")}) THEN 1001 ELSE composite END
         AS composite) ${parquet("markets")}`,
        scores,
      ),
      [
        /^values\.sql \(markets\), row \d+ \([0-9a-f-]{36}\), column composite: 1001, must be from 300 to 1000$/m,
      ],
    ],
    [
      "conversion",
      views("SELECT * REPLACE (slug::INTEGER AS composite) FROM read_csv('markets.csv')", scores),
      [/^conversion\.sql \(markets\)(, column \w+)?: /m],
    ],
    [
      "lazy",
      views(`SELECT * REPLACE (slug::INTEGER AS composite) ${parquet("markets")}`, scores),
      [/^lazy\.sql \(markets\): cannot be read: Conversion Error: Could not convert string/m],
    ],
    [
      "memory",
      "SET memory_limit = '10MB'; CREATE TABLE more AS SELECT repeat('x', 16_000_000) AS text",
      [
        /^memory\.sql, statement 2 of 2: fails: Out of Memory Error: .*; SET memory_limit = '4GB' in the script/m,
      ],
    ],
    ["empty", views(`${parquet("markets")} WHERE false`, scores), ["empty.sql (markets): has no rows"]],
  ])("with what is wrong: %s", async ([name, text, told]) => {
    const file = await script(`${name}.sql`, text);
    const ended = await run(`publish --sources ${file} --store store`);
    expectEnd(ended, 3, ...told);
    expect(ended.stderr).not.toContain("secret");
  });

  test("when it is not there, no text, or not local", async () => {
    const missing = await run("check --sources nowhere.sql --json");
    expect([missing.code, JSON.parse(missing.stdout).error.refusals]).toEqual([
      3,
      [{ file: join(folder, "nowhere.sql"), rule: "is missing", total: 1 }],
    ]);
    for (const command of ["check", "publish --store store"]) {
      const folderless = await run(`${command} --sources nowhere`);
      expectEnd(folderless, 3, `${join(folder, "nowhere")}: there is no such folder; --sources names one`);
      await mkdir(join(folder, "folder.SQL"), { recursive: true });
      const place = await run(`${command} --sources folder.SQL`);
      expectEnd(place, 3, "folder.SQL: is not a regular file");
      const data = await run(`${command} --sources markets.csv`);
      expectEnd(data, 2, "markets.csv is a file; a DuckDB script");
    }
    await writeFile(join(folder, "latin.sql"), Buffer.from("SELECT '\xe9'", "latin1"));
    expect((await run("check --sources latin.sql")).stderr).toContain("latin.sql: is not valid UTF-8");
    expectEnd(await run("check --sources s3://bucket/own.sql"), 2, "a local file *.sql");
  });
});
