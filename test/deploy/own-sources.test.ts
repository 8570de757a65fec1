import { mkdir, readdir, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import {
  DuckDBListType,
  type DuckDBStructType,
  type DuckDBType,
  DuckDBTypeId,
  type Json,
} from "@duckdb/node-api";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { snapshotProgram } from "../../scripts/snapshot.ts";
import { runScript } from "../../snapshots/sources/duckdb/run-script.ts";
import { withDuckDb } from "../helpers/archive/sql.ts";
import { expectEnd, snapshotCommand } from "../helpers/publish/commands.ts";
import { loadSample, writeTables } from "../helpers/publish/editable-sources.ts";
import { blocksIn, guide } from "../helpers/publish/guides.ts";
import { readAll } from "../helpers/publish/sources.ts";
import { findDuckDbHome } from "../helpers/servers/duckdb-home.ts";
import { findPostgres, startPostgres, type TestPostgres } from "../helpers/servers/postgres.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

// Every block of the guide to sources is run here as it stands there.

const folder = testFolder();
const blocks = blocksIn(guide(".github/deploy/SOURCES.md"));
const ofLanguage = (language: string) =>
  blocks.filter((one) => one.language === language).map(({ text }) => text);
const [commands, [csvScript, ofPostgres, gammaScript, missing, ofDelta, ofLiveFiles], csv, [gamma]] = [
  ofLanguage("sh"),
  ofLanguage("sql"),
  ofLanguage("csv"),
  ofLanguage("json"),
] as [string[], [string, string, string, string, string, string], string[], [string]];
const postgresScript = [ofPostgres, ...csvScript.split("\n").slice(3)].join("\n");

const home = findDuckDbHome();
const write = (name: string, text: string) => writeFile(join(folder, name), text);
const check = (script: string) => snapshotCommand(["check", "--sources", script], { from: folder });
const sound = (counts: string) => ({ code: 0, stdout: `${counts}: nothing to refuse\n` });

/** What a script makes: the published texts of markets and scores. */
async function made(script: string) {
  const before = process.cwd();
  process.chdir(folder);
  const { directory } = await runScript(join(folder, script), { temporaryDirectory: folder }).finally(() =>
    process.chdir(before),
  );
  const { markets, scores, warnings } = await readAll({ path: directory, script });
  const texts = { markets: markets.map(({ json }) => json), scores: scores.map(({ json }) => json) };
  return { ...texts, warnings };
}

beforeAll(async () => {
  const names = ["markets", "dimensions", "scores", "risk"];
  expect(csv).toHaveLength(names.length);
  for (const [place, name] of names.entries()) await write(`${name}.csv`, csv[place]!);
  await write("csv.sql", csvScript);
  await write("gamma.ndjson", gamma);
  await write("gamma.sql", gammaScript);
  await withDuckDb(folder, async (sql) => {
    await loadSample(sql, folder, { markets: 5, protocols: 4 });
    await writeTables(sql, folder, { markets: "SELECT 1 AS other" });
  });
});

test("the guide has no block that is not run here", () => {
  expect(blocks).toHaveLength(commands.length + 6 + csv.length + 2);
  expect(commands).toHaveLength(1);
});

test("the three commands are commands, and publish from CSV files", async () => {
  expect(snapshotProgram.commands.map(({ name }) => name)).toContain("contract");
  await write("own.sql", csvScript);
  const lines = commands[0]!.trimEnd().split("\n");
  expect(lines).toHaveLength(2);
  for (const line of lines) {
    const args = line.replace("npm run snapshot -- ", "").split(" ");
    const { code, stdout, stderr } = await snapshotCommand(args, { from: folder });
    expect([code, stderr]).toEqual([0, expect.stringContaining("Ran own.sql: 2 markets, 3 protocol_scores")]);
    expect(stdout).toMatch(/2 markets .* 2 protocols/);
  }
});

test("CSV files make records with the values that they have", async () => {
  const { markets, scores, warnings } = await made("csv.sql");
  expect(warnings).toEqual([]);
  const [first, second] = markets.map((text) => JSON.parse(text));
  expect(first).toMatchObject({
    slug: "harbor-rate-cut",
    resolvedOutcome: "Yes",
    resolvedAt: "2025-10-29T18:05:00.000Z",
    composite: 742,
  });
  const oracle = second.dimensions.find(({ key }: { key: string }) => key === "oracle");
  expect(oracle).toMatchObject({
    score: 70,
    evidence: [{ label: "One address resolves", reference: { kind: "page" } }],
    computation: { baseline: 10, raises: ["single resolver"], lowers: [] },
  });
  expect(scores.map((text) => JSON.parse(text))).toMatchObject([
    { slug: "harbor-swap", forgeScaleNum: 3, dimensions: { opsec: 35 }, metadata: { zFactor: 0.4 } },
    { slug: "kestrel-lend", bri: 688, findings: { critical: 0, high: 1, medium: 5 } },
  ]);
});

const [zero, one] = [1, 2].map((n) => `row ${n - 1} (6f1f2c1e-3a54-4a6e-9a53-0d6a51f0c00${n}), column`);
test.for<[file: string, from: RegExp, to: string, told: string]>([
  ["markets.csv", /,518,/, ",5x8,", `, ${one} composite: "5x8", VARCHAR, must`],
  ["markets.csv", /,742,/, ",742.5,", `, ${zero} composite: "742.5", DOUBLE, must`],
  [
    "markets.csv",
    /2025-11-01 00:00:00.00/,
    "yesterday",
    ', column resolved_at: "yesterday", VARCHAR, must be of type TIMEST',
  ],
  ["markets.csv", /,true,/, ",maybe,", ', column disputed: "maybe", VARCHAR, must be of type BOOLEAN'],
  ["dimensions.csv", /,70,/, ",high,", `, ${one} dimensions[].score: "high", VARCHAR`],
  [
    "scores.csv",
    /0\.4$/m,
    "much",
    'Error when converting column "z_factor". Could not convert string "much" to',
  ],
  ["markets.csv", /[\s\S]*/, "", "; markets.csv is empty"],
  ["markets.csv", /(?<=weight_version\n)[\s\S]*/, "", "csv.sql (markets): has no rows"],
  ["nowhere.csv", /[\s\S]*/, "", "relative names begin at "],
])("a CSV file that is wrong is told with row and value: %s %s to %s", async ([name, from, to, told]) => {
  const text = csv[["markets.csv", "dimensions.csv", "scores.csv"].indexOf(name)];
  try {
    if (text) await write(name, text.replace(from, to));
    else await write("csv.sql", csvScript.replace("markets.csv", name));
    expectEnd(await check("csv.sql"), 3, told);
  } finally {
    await write(text ? name : "csv.sql", text ?? csvScript);
  }
});

describe("a market API's JSON", () => {
  test("makes records of the markets that have a winner and a risk", async () => {
    const checked = await check("gamma.sql");
    expect(checked).toMatchObject(sound("2 markets and 12 scores of 4 protocols"));
    expect(checked.stderr).toContain(ofLanguage("text")[0]);
    const { markets } = await made("gamma.sql");
    const byOutcome = markets.map((text) => JSON.parse(text)).sort((a, b) => a.composite - b.composite);
    expect(byOutcome).toMatchObject([
      {
        slug: "comet-visible",
        resolvedOutcome: "No",
        disputed: true,
        topRiskDriver: "oracle",
        resolutionSource: "https://polymarket.com/market/comet-visible",
      },
      { slug: "lighthouse-cup-final", resolvedOutcome: "Yes", disputed: false, topRiskDriver: "catalyst" },
    ]);
    expect((await made("gamma.sql")).markets).toEqual(markets);
  });

  test("is published as far as it can be, and what is left out is counted by its reason", async () => {
    const usual = JSON.parse(gamma.split("\n")[0]!);
    const market = (conditionId: string, others: object = {}) => ({
      ...usual,
      conditionId,
      slug: `m-${conditionId}`,
      ...others,
    });
    const tomorrow = new Date(Date.now() + 86_400_000).toISOString();
    // Each line is one that the API was seen to give, or one like it: an outcome where it is published, else a reason.
    const cases: [says: string, others: object][] = [
      ["Yes", { outcomePrices: '["1.0", "0.0"]' }],
      ["No", { outcomePrices: '["0.0000004", "0.9999996"]' }],
      ["Yes", { outcomePrices: [1, 0], outcomes: ["Yes", "No"], closed: "true" }],
      ["2025-01-01", { slug: "2025-11-01", question: "2025-11-01", outcomes: '["2025-01-01", "No"]' }],
      ["Yes", { category: undefined, tags: [{ id: "1", label: "Weather" }] }],
      [
        "Yes",
        { question: "Rain\u0007?", category: " Sports\u0001 ", resolutionSource: undefined, later: { a: 1 } },
      ],
      ["Y", { outcomes: '["Y\\u0007", "N"]', closedTime: "2025-11-04T22:10:05" }],
      ...['["0.5", "0.5"]', '["0", "0"]', '["1", "1"]', "", "[none"].map(
        (outcomePrices): [string, object] => ["no single winner", { outcomePrices }],
      ),
      ["no single winner", { outcomes: '["Yes"]' }],
      ["no single winner", { outcomes: '["", "No"]' }],
      ["not resolved", { closed: false }],
      ["not resolved", { umaResolutionStatus: undefined }],
      ["no umaResolutionStatuses", { umaResolutionStatuses: "" }],
      ["no slug", { slug: "" }],
      ["no question", { question: null }],
      ["no category", { category: undefined, tags: "{" }],
      ["no category", { category: " " }],
      ["no closedTime", { closedTime: "" }],
      ["no closedTime", { closedTime: 1762294205 }],
      ["no closedTime", { closedTime: "1970-01-01 00:00:00+00" }],
      ["a closedTime to come", { closedTime: tomorrow }],
      ["a resolutionSource that is no address", { resolutionSource: "N/A" }],
      ["a resolutionSource that is no address", { resolutionSource: "www.example.org" }],
      ["a text too long", { question: "?".repeat(10_001) }],
      ["a text too long", { category: "\u00e9".repeat(129) }],
    ];
    const markets = cases.map(([, others], n) => market(`0x${n}a`, others));
    const risks = markets.map(({ conditionId }) => `${conditionId},803,DAMASCUS,f-3,w-2,14,9,6,40,11,15`);
    // Those of which the risk tells something, and copies of a market: the newest counts, and at last the last line.
    markets.push(market("0xTWICE"), market("0xless"), market("0xnone"), market("", { conditionId: null }));
    risks.push(risks[0]!.replace("0x0a", "0xtwice"), risks[0]!.replace("0x0a", "0xTWICE"));
    risks.push("0xless,803,DAMASCUS,f-3,w-2,14,9,6,40,,15", "0xCOPY,803,DAMASCUS,f-3,w-2,14,9,6,40,11,15");
    markets.push(
      market("0xcopy", { slug: "newest", updatedAt: "2025-11-06T00:00:00Z" }),
      market("0xCOPY", { slug: "older", updatedAt: "2025-11-05T00:00:00Z" }),
      market("0xcopy", { slug: "undated" }),
    );
    await write("gamma.ndjson", markets.map((each) => JSON.stringify(each)).join("\n"));
    await write("risk.csv", [csv[3]!.split("\n")[0], ...risks].join("\n"));
    try {
      const { code, stderr } = await check("gamma.sql");
      const once = ["no conditionId", "no risk", "risk given twice", "risk not complete"];
      const counts = new Map([["an older copy", 2], ...once.map((reason) => [reason, 1] as const)]);
      const published = new Map([["newest", "Yes"]]);
      for (const [n, [says]] of cases.entries())
        if (n < 7) published.set(markets[n]!.slug, says);
        else counts.set(says, (counts.get(says) ?? 0) + 1);
      const lines = [...counts]
        .sort(([a], [b]) => (a < b ? -1 : 1))
        .map(([reason, count]) => `gamma.sql: left out ${count}: ${reason}`);
      expect([code, stderr.split("\n").filter((line) => line.includes("left out"))]).toEqual([0, lines]);
      const records = (await made("gamma.sql")).markets.map((text) => JSON.parse(text));
      expect(new Map(records.map(({ slug, resolvedOutcome }) => [slug, resolvedOutcome]))).toEqual(published);
      expect(records.find(({ slug }) => slug === "m-0x4a").category).toBe("Weather");
      const clean = records.find(({ slug }) => slug === "m-0x5a");
      expect(clean).toMatchObject({ question: "Rain ?", category: "Sports" });
      expect(clean.resolutionSource).toBe("https://polymarket.com/market/m-0x5a");
    } finally {
      await write("gamma.ndjson", gamma);
      await write("risk.csv", csv[3]!);
    }
  });

  test("stops when too many have no risk", async () => {
    await write("some.sql", gammaScript + missing);
    expect(await check("some.sql")).toMatchObject({ code: 0 });
    await write("few.sql", gammaScript + missing.replace("0.5", "0.3"));
    expectEnd(await check("few.sql"), 3, "33.0% of the markets have no risk");
  });
});

/** Whether a home folder has DuckDB's extension for Delta Lake. */
async function hasDelta(home: string): Promise<boolean> {
  const names = await readdir(home, { recursive: true });
  const found = names.some((name) => name.endsWith("/delta.duckdb_extension"));
  if (!found)
    console.warn("A test of Delta Lake is skipped: test/servers/duckdb-install.sh installs the extension");
  return found;
}
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

describe("a Delta table with a file that is no longer live", () => {
  const table = join(folder, "lake/markets");
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

  test("is refused as a folder, and read by the list of its live files", async () => {
    const refused = expect.stringContaining("markets/: is a table of Delta Lake");
    expect(await check("lake")).toMatchObject({ code: 3, stderr: refused });
    await write("live.csv", "file\nlake/markets/live.parquet\n");
    await write("live.sql", ofLiveFiles);
    expect(await check("live.sql")).toMatchObject(sound("4 markets and 12 scores of 4 protocols"));
  });

  test.skipIf(!delta)("is read by DuckDB's extension", async () => {
    vi.stubEnv("HOME", home);
    await write("delta.sql", ofDelta);
    expect(await check("delta.sql").finally(() => vi.unstubAllEnvs())).toMatchObject(
      sound("4 markets and 12 scores of 4 protocols"),
    );
  });
});

const programs = findPostgres();
describe.skipIf(!programs || !home)("PostgreSQL", () => {
  let server: TestPostgres;
  beforeAll(async () => {
    server = await startPostgres(programs!);
    stub();
    await withDuckDb(folder, async (sql) => {
      for (const statement of ["INSTALL postgres", "LOAD postgres", "ATTACH '' AS own (TYPE postgres)"])
        await sql.run(statement);
      for (const view of csvScript.split("\n").slice(0, 3))
        await sql.run(view.replace("read_csv('", `read_csv('${folder}/`));
      for (const name of ["markets", "dimensions", "scores"])
        await sql.run(`CREATE TABLE own.public.${name} AS FROM own_${name}`);
      // What DuckDB takes for text in a file.
      const lists = ["evidence", "raises", "lowers"];
      const altered = lists.map((column) => `ALTER ${column} TYPE jsonb USING ${column}::jsonb`);
      await sql.run(`CALL postgres_execute('own', 'ALTER TABLE dimensions ${altered.join()}')`);
    });
    await write("postgres.sql", postgresScript);
  });
  afterAll(() => server?.stop());
  afterEach(() => vi.unstubAllEnvs());
  const stub = (more = {}) => {
    for (const [name, value] of Object.entries({ ...server.env, HOME: home!, ...more }))
      vi.stubEnv(name, value);
  };

  test("makes the records that the same rows in CSV files make", async () => {
    stub();
    expect(await check("postgres.sql")).toMatchObject(sound("2 markets and 3 scores of 2 protocols"));
    expect(await made("postgres.sql")).toEqual(await made("csv.sql"));
  });

  test("is seen as it is at one moment", async () => {
    stub();
    const client = await server.connect();
    try {
      // Whoever reads the markets waits for a lock, so that scores can change between the two tables.
      await client.query(`ALTER TABLE markets RENAME TO kept; SELECT pg_advisory_lock(7);
        CREATE VIEW markets AS SELECT * FROM kept WHERE (SELECT pg_advisory_xact_lock(7)) IS NOT NULL`);
      const checked = check("postgres.sql");
      const waiting =
        "SELECT count(*)::integer AS n FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
      await expect.poll(async () => (await client.query(waiting)).rows[0].n).toBe(1);
      await client.query(`CREATE TEMP TABLE more AS SELECT * FROM scores LIMIT 1;
        UPDATE more SET slug = 'later';
        INSERT INTO scores SELECT * FROM more; SELECT pg_advisory_unlock(7)`);
      expect(await checked).toMatchObject(sound("2 markets and 3 scores of 2 protocols"));
      expect(await check("postgres.sql")).toMatchObject(sound("2 markets and 4 scores of 3 protocols"));
    } finally {
      await client.end();
    }
  });

  test("that cannot be reached is named with the statement", async () => {
    stub({ PGPORT: "1" });
    const told = /^postgres\.sql, statement 3 of \d+: fails: IO Error: Unable to connect to Postgres/m;
    expectEnd(await check("postgres.sql"), 3, told);
  });
});
