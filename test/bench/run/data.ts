import { existsSync } from "node:fs";
import { chmod, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DuckDBInstance } from "@duckdb/node-api";
import { quoted } from "../../../snapshots/sources/duckdb/sql-literals.ts";
import { editDaily, writeDaily } from "./daily-files.ts";
import type { Endings } from "./endings.ts";
import { nodeCommand, runProgram } from "./processes.ts";

/** How the sources of an increment differ from those before. */
export type Edit = "newest" | "spread";

/** Sources, stores and databases of one size; what is made is kept for the next run when that was asked for. */
export class Data {
  readonly markets: number;
  readonly folder: string;
  /** Files of this run alone. */
  readonly scratch: string;
  readonly #ends: Endings;
  readonly #say: (line: string) => void;

  private constructor(markets: number, folder: string, scratch: string, ends: Endings, say: Data["say"]) {
    this.markets = markets;
    this.folder = folder;
    this.scratch = scratch;
    this.#ends = ends;
    this.#say = say;
  }

  static async open(
    { markets, keep }: { markets: number; keep: string | undefined },
    ends: Endings,
    say: (line: string) => void,
  ): Promise<Data> {
    const folder = keep ? join(keep, `markets-${markets}`) : await mkdtemp(join(tmpdir(), "prs-bench-"));
    await mkdir(folder, { recursive: true });
    // The user that PostgreSQL runs as must get through to its own folder.
    await chmod(folder, 0o711);
    const scratch = await mkdtemp(join(folder, "run-"));
    await chmod(scratch, 0o711);
    ends.add(() => rm(keep ? scratch : folder, { recursive: true, force: true }));
    return new Data(markets, folder, scratch, ends, say);
  }

  get say() {
    return this.#say;
  }

  /** Makes something in a folder of this name, unless an earlier run has made all of it. */
  async once(name: string, make: (folder: string) => Promise<unknown>): Promise<string> {
    const folder = join(this.folder, name);
    const done = `${folder}.done`;
    if (existsSync(done)) return folder;
    this.#say(`making ${name}`);
    await rm(folder, { recursive: true, force: true });
    await make(folder);
    await writeFile(done, "");
    return folder;
  }

  /** The sample, with as many different outcome labels as given, or the sample's own. */
  sources(outcomes?: number): Promise<string> {
    return this.once(outcomes === undefined ? "sources" : `sources-${outcomes}-labels`, (folder) => {
      const more = outcomes === undefined ? [] : ["--outcomes", String(outcomes)];
      const args = ["--out", folder, "--markets", String(this.markets), ...more];
      return runProgram(this.#ends, [...nodeCommand("scripts/sample.ts"), ...args]);
    });
  }

  /** A store with the sample published. */
  async store(outcomes?: number): Promise<string> {
    const sources = await this.sources(outcomes);
    return this.once(outcomes === undefined ? "store" : `store-${outcomes}-labels`, (folder) =>
      runProgram(this.#ends, publishCommand(sources, folder)),
    );
  }

  /** The sample with 0.1 percent new markets and 0.01 percent changed. */
  async edited(edit: Edit): Promise<string> {
    const sources = await this.sources();
    return this.once(`sources-${edit}`, (folder) => writeEdited(sources, folder, edit, this.markets));
  }

  /** The sample as 100 files by time. */
  async daily(): Promise<string> {
    const sources = await this.sources();
    return this.once("sources-daily", (folder) => writeDaily(sources, folder));
  }

  /** The same files; one has 0.1 percent new markets and 0.01 percent changed. */
  async dailyEdited(): Promise<string> {
    const daily = await this.daily();
    return this.once("sources-daily-edited", (folder) => editDaily(daily, folder, this.markets));
  }

  /** A store published from the files by time. */
  async dailyStore(): Promise<string> {
    const daily = await this.daily();
    return this.once("store-daily", (folder) => runProgram(this.#ends, publishCommand(daily, folder)));
  }
}

/** `npm run snapshot -- publish --json`, without npm. */
export function publishCommand(sources: string, store: string): string[] {
  const script = nodeCommand("scripts/snapshot.ts", "--max-semi-space-size=16", "--single-threaded-gc");
  return [...script, "publish", "--sources", sources, "--store", store, "--json"];
}

const newId = `regexp_replace(md5(concat('new ', id)),
  '^(.{8})(.{4})(.{4})(.{4})(.{12})$', '\\1-\\2-\\3-\\4-\\5')`;

async function writeEdited(sources: string, folder: string, edit: Edit, markets: number): Promise<void> {
  await mkdir(join(folder, "markets"), { recursive: true });
  const instance = await DuckDBInstance.create(":memory:", {
    memory_limit: "2GB",
    temp_directory: join(folder, ".duckdb"),
  });
  const sql = await instance.connect();
  const from = (files: string) => `read_parquet(${quoted(join(sources, files))}, filename = true)`;
  const copy = (query: string, file: string) =>
    sql.run(`COPY (${query}) TO ${quoted(join(folder, file))} (FORMAT parquet, COMPRESSION zstd)`);
  try {
    const all = `(SELECT id, resolved_at, filename FROM ${from("markets/*.parquet")})`;
    const changed = Math.max(1, Math.round(markets / 10_000));
    const among = Math.ceil(edit === "newest" ? markets / 20 : markets);
    await sql.run(`CREATE TABLE changed AS SELECT id FROM
      (FROM ${all} ORDER BY resolved_at DESC, id DESC LIMIT ${among}) ORDER BY hash(id, 1) LIMIT ${changed}`);
    const added = Math.max(1, Math.round(markets / 1000));
    await sql.run(`CREATE TABLE added AS SELECT id, row_number() OVER (ORDER BY id) AS n FROM
      (FROM ${all} ORDER BY hash(id, 2) LIMIT ${added})`);
    await sql.run(`CREATE TABLE newest AS SELECT max(resolved_at) AS moment FROM ${all}`);
    const files = await sql.runAndReadAll(`SELECT DISTINCT parse_filename(filename) FROM ${all} ORDER BY 1`);
    for (const [file] of files.getRows()) {
      const question = "CASE WHEN id IN (FROM changed) THEN concat(question, ' (edited)') ELSE question END";
      await copy(
        `SELECT * EXCLUDE (filename) REPLACE (${question} AS question) FROM ${from(`markets/${file}`)}`,
        `markets/${file}`,
      );
    }
    const moment =
      edit === "newest" ? "(SELECT moment FROM newest) + to_seconds(n)" : "resolved_at + to_seconds(1)";
    await copy(
      `SELECT * EXCLUDE (filename, n) REPLACE (${newId} AS id, ${moment} AS resolved_at)
       FROM ${from("markets/*.parquet")} JOIN added USING (id)`,
      "markets/part-added.parquet",
    );
    await copy(
      `SELECT * EXCLUDE (filename) FROM ${from("protocol_scores.parquet")}`,
      "protocol_scores.parquet",
    );
  } finally {
    sql.closeSync();
    instance.closeSync();
  }
}
