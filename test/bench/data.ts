import { createWriteStream, existsSync } from "node:fs";
import { chmod, cp, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { pipeline } from "node:stream/promises";
import type { DuckDBConnection } from "@duckdb/node-api";
import { quoted } from "../../snapshots/sources/duckdb/sql-literals.ts";
import { firstColumn, withDuckDb } from "../helpers/archive/sql.ts";
import { nodeArguments, runProgram, startProxy } from "./servers.ts";

export type Data = Awaited<ReturnType<typeof openData>>;

/** Sources and stores of one size; what is made is kept for the next run when that was asked for. */
export async function openData(
  ends: AsyncDisposableStack,
  given: { markets: number; keep?: string | undefined; say(line: string): void },
) {
  const { markets, keep, say } = given;
  const folder = keep ? join(keep, `markets-${markets}`) : await mkdtemp(join(tmpdir(), "prs-bench-"));
  await mkdir(folder, { recursive: true });
  const scratch = await mkdtemp(join(folder, "run-"));
  // The user that PostgreSQL runs as must get through to its own folder.
  for (const each of [folder, scratch]) await chmod(each, 0o711);
  ends.defer(() => rm(keep ? scratch : folder, { recursive: true, force: true }));

  /** Makes something in a folder of this name, unless an earlier run has made all of it. */
  async function once(name: string, make: (place: string) => Promise<unknown>): Promise<string> {
    const place = join(folder, name);
    if (existsSync(`${place}.done`)) return place;
    say(`making ${name}`);
    await rm(place, { recursive: true, force: true });
    await make(place);
    await writeFile(`${place}.done`, "");
    return place;
  }
  /** The sample, with as many different outcome labels as given, or the sample's own. */
  const sources = (outcomes?: number) =>
    once(`sources${outcomes ?? ""}`, (place) => {
      const more = outcomes === undefined ? [] : ["--outcomes", String(outcomes)];
      const args = ["--out", place, "--markets", String(markets), ...more];
      return runProgram(ends, [...nodeArguments("scripts/sample.ts"), ...args]);
    });
  /** The sample as 100 files by time. */
  const daily = async () => {
    const all = await sources();
    return once("sources-daily", (place) => writeDaily(all, place, markets));
  };
  const edited = async (name: string, from: () => Promise<string>, among: number) => {
    const all = await from();
    return once(`sources-${name}`, (place) => writeEdited(all, place, markets, among));
  };
  /** A store with sources published, those of the sample by default. */
  const store = async (from = sources) => {
    const published = await from();
    return once(`store-${basename(published)}`, (place) => publish(ends, published, place));
  };
  return {
    markets,
    once,
    sources,
    daily,
    store,
    /** Files of this run alone. */
    scratch,
    /** All markets as they are sent, one a line. A proxy of its own gives them: no measured one has had any before. */
    lines: () =>
      once("lines", async (place) => {
        await using own = new AsyncDisposableStack();
        const { port, headers } = await startProxy(own, { store: await store(), scratch });
        const given = { headers: { ...headers, accept: "application/x-ndjson" } };
        const answer = await fetch(`http://127.0.0.1:${port}/api/v1/markets/historical`, given);
        await pipeline(answer.body!, createWriteStream(place));
      }),
    /** Sources with 0.1 percent new markets, in a file of their own, and 0.01 percent changed. */
    edits: {
      newest: () => edited("newest", sources, 0.05),
      spread: () => edited("spread", sources, 1),
      daily: () => edited("daily-edited", daily, 0.005),
    },
  };
}

/** Runs `npm run snapshot -- publish --json`, without npm. */
export const publish = (
  ends: AsyncDisposableStack,
  sources: string,
  store: string,
  { more = [] as string[], env = process.env } = {},
) => {
  const script = nodeArguments("scripts/snapshot.ts", "--max-semi-space-size=16", "--single-threaded-gc");
  const args = ["publish", "--sources", sources, "--store", store, "--json", ...more];
  return runProgram(ends, [...script, ...args], { env });
};

const from = (files: string) => `read_parquet(${quoted(files)}, filename = true)`;
const copy = (sql: DuckDBConnection, query: string, file: string) =>
  sql.run(`COPY (${query}) TO ${quoted(file)} (FORMAT parquet, COMPRESSION zstd)`);

/** Writes a sample's markets as 100 files of equal size, by the time of resolution. */
async function writeDaily(sources: string, folder: string, markets: number): Promise<void> {
  await mkdir(join(folder, "markets"), { recursive: true });
  await cp(join(sources, "protocol_scores.parquet"), join(folder, "protocol_scores.parquet"));
  const ofDay = Math.ceil(markets / 100);
  await withDuckDb(
    folder,
    async (sql) => {
      const all = from(join(sources, "markets/*.parquet"));
      await sql.run(`CREATE TABLE rows AS SELECT * EXCLUDE (filename) FROM ${all} ORDER BY resolved_at`);
      for (let day = 0; day < 100; day += 1) {
        const rows = `FROM rows WHERE rowid >= ${day * ofDay} AND rowid < ${(day + 1) * ofDay}`;
        await copy(sql, rows, join(folder, `markets/day-${String(day).padStart(3, "0")}.parquet`));
      }
    },
    "2GB",
  );
}

/**
 * Writes sources with an edit: the changed markets are among the newest ones, of which this is the share, and the new
 * ones at the new end; or both are anywhere, when that is all.
 */
async function writeEdited(sources: string, folder: string, markets: number, among: number): Promise<void> {
  await cp(sources, folder, { recursive: true });
  const every = from(join(sources, "markets/*.parquet"));
  const share = (part: number) => Math.max(1, Math.round(markets * part));
  await withDuckDb(
    folder,
    async (sql) => {
      await sql.run(`CREATE TABLE changed AS SELECT id, filename FROM
        (SELECT id, filename FROM ${every} ORDER BY resolved_at DESC, id DESC LIMIT ${share(among)})
        ORDER BY hash(id, 1) LIMIT ${share(0.0001)}`);
      const question = "if(id IN (SELECT id FROM changed), concat(question, ' (edited)'), question)";
      for (const file of await firstColumn<string>(sql, "SELECT DISTINCT filename FROM changed")) {
        const rows = `SELECT * EXCLUDE (filename) REPLACE (${question} AS question) FROM ${from(file)}`;
        await copy(sql, rows, join(folder, "markets", basename(file)));
      }
      const newId = `regexp_replace(md5(concat('new ', id)), '^(.{8})(.{4})(.{4})(.{4})(.{12})$', '\\1-\\2-\\3-\\4-\\5')`;
      const newest = `(SELECT max(resolved_at) FROM ${every}) + to_seconds(row_number() OVER (ORDER BY id))`;
      const moment = among < 1 ? newest : "resolved_at + to_seconds(1)";
      const added = `SELECT * EXCLUDE (filename) REPLACE (${newId} AS id, ${moment} AS resolved_at)
        FROM ${every} WHERE id IN (SELECT id FROM ${every} ORDER BY hash(id, 2) LIMIT ${share(0.001)})`;
      await copy(sql, added, join(folder, "markets/part-added.parquet"));
    },
    "2GB",
  );
}
