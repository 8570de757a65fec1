import { mkdir, readdir, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { DuckDBConnection } from "@duckdb/node-api";
import { quoted } from "../../../snapshots/sources/duckdb/sql-literals.ts";
import { SourceRefusal } from "../../../snapshots/sources/sources.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import { segmentEnds } from "../archive/odd-markets.ts";
import { firstColumn } from "../archive/sql.ts";
import { loadSample, publishSources, type RunChoices } from "./sample-sources.ts";

/** A folder of market files, made of the table `rows`, which has the name of its file with each market. */
export class Files {
  readonly #sql: DuckDBConnection;
  readonly #folder: string;

  constructor(sql: DuckDBConnection, directory: string) {
    this.#sql = sql;
    this.#folder = join(directory, "markets");
  }

  static async create(sql: DuckDBConnection, directory: string): Promise<Files> {
    await loadSample(sql, `${directory}-sample`, 240, { protocols: 2 });
    for (const [n, id] of [...segmentEnds().take(3)].entries())
      await sql.run(`UPDATE markets SET id = '${id}' WHERE id =
        (SELECT id FROM markets ORDER BY resolved_at, id LIMIT 1 OFFSET ${50 + 60 * n})`);
    await mkdir(join(directory, "markets"), { recursive: true });
    await sql.run(`COPY scores TO ${quoted(join(directory, "protocol_scores.parquet"))}`);
    await sql.run(`CREATE OR REPLACE TABLE rows AS SELECT concat('f', (row_number() OVER (ORDER BY resolved_at)) // 41)
      AS file, * FROM markets`);
    const files = new Files(sql, directory);
    for (const file of await files.names()) await files.write(file);
    return files;
  }

  path(file: string): string {
    return join(this.#folder, `${file}.parquet`);
  }

  /** The files that have rows. */
  async names(): Promise<string[]> {
    return firstColumn<string>(this.#sql, "SELECT DISTINCT file FROM rows ORDER BY file");
  }

  /** Writes what the table has of these files; those of which it has nothing go. */
  async write(...files: readonly string[]): Promise<void> {
    const names = await this.names();
    for (const file of files) {
      if (!names.includes(file)) await rm(this.path(file), { force: true });
      else await this.copy(file, "SELECT * EXCLUDE (file)");
    }
  }

  async copy(file: string, select: string, order = "resolved_at"): Promise<void> {
    await this.#sql.run(`COPY (${select} FROM rows WHERE file = '${file}' ORDER BY ${order}, id)
      TO ${quoted(this.path(file))} (FORMAT parquet, COMPRESSION uncompressed)`);
  }

  async run(sql: string): Promise<void> {
    await this.#sql.run(sql);
  }

  async rename(from: string, to: string): Promise<void> {
    await this.run(`UPDATE rows SET file = '${to}' WHERE file = '${from}'`);
    await rename(this.path(from), this.path(to));
  }

  all(): Promise<string[]> {
    return readdir(this.#folder);
  }
}

/** SQL for one row of a file; `n` chooses it. */
export const one = (
  file: string,
  n: number,
) => `id = (SELECT id FROM rows WHERE file = '${file}' ORDER BY hash(id, ${n}) LIMIT 1)
  AND file = '${file}'`;
/** The snapshot that a run gives, or the text of its refusal, and how many files it took over unread. */
export async function outcomeOf(directory: string, storage: Storage, choices: RunChoices = {}) {
  let unread = 0;
  const change: RunChoices["change"] = (sources) => {
    unread = sources.files.filter(({ unchanged }) => unchanged).length;
    return choices.change ? choices.change(sources) : sources;
  };
  try {
    const { snapshotId, outcome } = await publishSources(directory, storage, dirname(directory), {
      ...choices,
      change,
    });
    return { snapshotId, outcome, unread };
  } catch (error) {
    if (!(error instanceof SourceRefusal)) throw error;
    return { refusal: error.message, unread };
  }
}
