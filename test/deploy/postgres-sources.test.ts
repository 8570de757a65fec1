import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { withDuckDb } from "../helpers/archive/sql.ts";
import { expectEnd, snapshotCommand } from "../helpers/publish/commands.ts";
import { blockWith } from "../helpers/publish/guides.ts";
import { findDuckDbHome } from "../helpers/servers/duckdb-home.ts";
import { findPostgres, startPostgres, type TestPostgres } from "../helpers/servers/postgres.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

// What the guide to sources says of PostgreSQL. Its other blocks are in sessions/own-data.txt and tables.txt.

const [home, programs] = [findDuckDbHome(), findPostgres()];

describe.skipIf(!programs || !home)("PostgreSQL", () => {
  const folder = testFolder();
  const ofCsv = blockWith("read_csv('markets.csv'").text;
  let server: TestPostgres;
  beforeAll(async () => {
    server = await startPostgres(programs!);
    const tables = { markets: "id,slug,question", dimensions: "market_id,key", scores: "slug,bri" };
    for (const [name, words] of Object.entries(tables))
      await writeFile(join(folder, `${name}.csv`), blockWith(words).text);
    stub();
    await withDuckDb(folder, async (sql) => {
      for (const statement of ["INSTALL postgres", "LOAD postgres", "ATTACH '' AS own (TYPE postgres)"])
        await sql.run(statement);
      for (const view of ofCsv.split("\n").slice(0, 3))
        await sql.run(view.replace("read_csv('", `read_csv('${folder}/`));
      for (const name of Object.keys(tables))
        await sql.run(`CREATE TABLE own.public.${name} AS FROM own_${name}`);
      // What DuckDB takes for text in a file.
      const lists = ["evidence", "raises", "lowers"];
      const altered = lists.map((column) => `ALTER ${column} TYPE jsonb USING ${column}::jsonb`);
      await sql.run(`CALL postgres_execute('own', 'ALTER TABLE dimensions ${altered.join()}')`);
    });
    await writeFile(join(folder, "csv.sql"), ofCsv);
    const rest = ofCsv.split("\n").slice(3).join("\n");
    await writeFile(join(folder, "postgres.sql"), blockWith("INSTALL postgres").text + rest);
  });
  afterAll(() => server?.stop());
  afterEach(() => vi.unstubAllEnvs());
  const stub = (more = {}) => {
    for (const [name, value] of Object.entries({ ...server.env, HOME: home!, ...more }))
      vi.stubEnv(name, value);
  };
  const run = (line: string) => snapshotCommand(line.split(" "), { from: folder });
  const check = () => run("check --sources postgres.sql");
  const sound = (counts: string) => ({ code: 0, stdout: `${counts}: nothing to refuse\n` });

  test("makes the snapshot that the same rows in CSV files make", async () => {
    stub();
    const made = async (name: string) =>
      JSON.parse((await run(`publish --sources ${name}.sql --store ${name} --json`)).stdout).snapshotId;
    expect(await made("postgres")).toBe(await made("csv"));
  });

  test("is seen as it is at one moment", async () => {
    stub();
    const client = await server.connect();
    try {
      // Whoever reads the markets waits for a lock, so that scores can change between the two tables.
      await client.query(`ALTER TABLE markets RENAME TO kept; SELECT pg_advisory_lock(7);
        CREATE VIEW markets AS SELECT * FROM kept WHERE (SELECT pg_advisory_xact_lock(7)) IS NOT NULL`);
      const checked = check();
      const waiting =
        "SELECT count(*)::integer AS n FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
      await expect.poll(async () => (await client.query(waiting)).rows[0].n).toBe(1);
      await client.query(`CREATE TEMP TABLE more AS SELECT * FROM scores LIMIT 1;
        UPDATE more SET slug = 'later';
        INSERT INTO scores SELECT * FROM more; SELECT pg_advisory_unlock(7)`);
      expect(await checked).toMatchObject(sound("2 markets and 3 scores of 2 protocols"));
      expect(await check()).toMatchObject(sound("2 markets and 4 scores of 3 protocols"));
    } finally {
      await client.end();
    }
  });

  test("that cannot be reached is named with the statement", async () => {
    stub({ PGPORT: "1" });
    const told = /^postgres\.sql, statement 3 of \d+: fails: IO Error: Unable to connect to Postgres/m;
    expectEnd(await check(), 3, told);
  });
});
