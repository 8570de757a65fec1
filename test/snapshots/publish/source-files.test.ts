import { copyFile, mkdir, readdir, readFile, rename, rm, stat, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { DuckDBConnection } from "@duckdb/node-api";
import fc from "fast-check";
import { expect, test, vi } from "vitest";
import type { Manifest } from "../../../schemas/snapshot.ts";
import { idHash } from "../../../snapshots/index/id-table.ts";
import { ExternalSort } from "../../../snapshots/publish/external-sort.ts";
import { SourceRefusal } from "../../../snapshots/sources/contract/refusals.ts";
import { quoted } from "../../../snapshots/sources/duckdb/sql-literals.ts";
import { contentOf, hashContents } from "../../../snapshots/sources/files/file-hashes.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { newestCommit } from "../../../snapshots/store/log/commits.ts";
import { readManifest } from "../../../snapshots/store/manifest.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import { segmentEnds } from "../../helpers/archive/odd-markets.ts";
import { firstColumn, withDuckDb } from "../../helpers/archive/sql.ts";
import { snapshotCommand } from "../../helpers/publish/commands.ts";
import {
  loadSample,
  publishCounted,
  type RunChoices,
  writeTables,
} from "../../helpers/publish/editable-sources.ts";
import { startSmallS3 } from "../../helpers/store/small-s3.ts";
import { memoryStorage } from "../../helpers/store/storages.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";
import { faultsOf } from "../../helpers/store/verified.ts";

const folder = testFolder();
/** The edits of a run; EDITS=500 looks for long. */
const edits = Number(process.env.EDITS ?? 6);

/** A folder of market files, made of the table `rows`, which has the name of its file with each market. */
class Files {
  readonly #sql: DuckDBConnection;
  readonly #folder: string;

  constructor(sql: DuckDBConnection, directory: string) {
    this.#sql = sql;
    this.#folder = join(directory, "markets");
  }

  static async create(sql: DuckDBConnection, directory: string): Promise<Files> {
    await loadSample(sql, folder, { markets: 240, protocols: 2 });
    for (const [n, id] of [...segmentEnds().take(3)].entries())
      await sql.run(`UPDATE markets SET id = '${id}' WHERE id =
        (SELECT id FROM markets ORDER BY resolved_at, id LIMIT 1 OFFSET ${50 + 60 * n})`);
    await writeTables(sql, directory);
    await rm(join(directory, "markets.parquet"));
    await mkdir(join(directory, "markets"));
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

/** Where an edit takes place: `a` and `b` are files, `n` tells one from others of its kind. */
interface Place {
  a: string;
  b: string;
  n: number;
}

const one = (
  file: string,
  n: number,
) => `id = (SELECT id FROM rows WHERE file = '${file}' ORDER BY hash(id, ${n}) LIMIT 1)
  AND file = '${file}'`;
const fresh = (
  n: number,
  id = "id",
) => `regexp_replace(md5(concat(${id}, ${n})), '^(.{8})(.{4})(.{4})(.{4})(.{12})$',
  '\\1-\\2-\\3-\\4-\\5')`;

const kinds: Record<string, (files: Files, place: Place) => Promise<void>> = {
  nothing: async () => {},
  touched: async (files, { a }) => utimes(files.path(a), new Date(), new Date()),
  renamed: (files, { a, n }) => files.rename(a, `r${n}`),
  "two names swapped": async (files, { a, b }) => {
    if (a === b) return;
    for (const [from, to] of [
      [a, "swap"],
      [b, a],
      ["swap", b],
    ] as const)
      await files.rename(from, to);
  },
  split: async (files, { a, n }) => {
    await files.run(`UPDATE rows SET file = 's${n}' WHERE file = '${a}' AND hash(id) % 2 = 0`);
    await files.write(a, `s${n}`);
  },
  merged: async (files, { a, b }) => {
    await files.run(`UPDATE rows SET file = '${a}' WHERE file = '${b}'`);
    await files.write(a, b);
  },
  "all in one": async (files) => {
    const names = await files.names();
    await files.run("UPDATE rows SET file = 'all'");
    await files.write("all", ...names);
  },
  "by another rule": async (files, { n }) => {
    const names = await files.names();
    await files.run(`UPDATE rows SET file = concat('h${n}-', hash(id, ${n}) % 5)`);
    await files.write(...names, ...(await files.names()));
  },
  "a row moved": async (files, { a, b, n }) => {
    await files.run(`UPDATE rows SET file = '${b}' WHERE ${one(a, n)}`);
    await files.write(a, b);
  },
  "a row moved and changed": async (files, { a, b, n }) => {
    await files.run(`UPDATE rows SET file = '${b}', question = concat(question, '…') WHERE ${one(a, n)}`);
    await files.write(a, b);
  },
  "an id moved": async (files, { a, b, n }) => {
    await files.run(`DELETE FROM rows WHERE ${one(b, n + 1)}`);
    await files.run(
      `UPDATE rows SET file = '${b}', resolved_at = resolved_at - INTERVAL 9 DAY WHERE ${one(a, n)}`,
    );
    await files.write(a, b);
  },
  "two ids swapped": async (files, { a, b, n }) => {
    await files.run(`CREATE OR REPLACE TABLE pair AS
      SELECT id, CASE id WHEN min(id) OVER () THEN max(id) OVER () ELSE min(id) OVER () END AS other FROM rows
      WHERE (${one(a, n)}) OR (${one(b, n)})`);
    await files.run("UPDATE rows SET id = pair.other FROM pair WHERE rows.id = pair.id");
    await files.write(a, b);
  },
  "a row changed": async (files, { a, n }) => {
    await files.run(`UPDATE rows SET composite = 1300 - composite WHERE ${one(a, n)}`);
    await files.write(a);
  },
  "changed, with the same size and time": async (files, { a, n }) => {
    const before = await stat(files.path(a));
    await files.run(`UPDATE rows SET formula_version = reverse(formula_version) WHERE ${one(a, n)}`);
    await files.write(a);
    await utimes(files.path(a), before.atime, before.mtime);
  },
  "a row removed": async (files, { a, n }) => {
    await files.run(`DELETE FROM rows WHERE ${one(a, n)} AND (SELECT count(*) FROM rows) > 60`);
    await files.write(a);
  },
  "a file removed": async (files, { a }) => {
    await files.run(`DELETE FROM rows WHERE file = '${a}'
      AND (SELECT count(*) FROM rows WHERE file <> '${a}') > 60`);
    await files.write(a);
  },
  "rows added": async (files, { a, n }) => {
    await files.run(`INSERT INTO rows SELECT * REPLACE (${fresh(n)} AS id, resolved_at + INTERVAL 1 HOUR AS resolved_at)
      FROM rows WHERE file = '${a}' LIMIT 9`);
    await files.write(a);
  },
  "a file added": async (files, { a, n }) => {
    await files.run(`INSERT INTO rows
      SELECT * REPLACE (${fresh(n)} AS id, 'n${n}' AS file) FROM rows WHERE file = '${a}' LIMIT 20`);
    await files.write(`n${n}`);
  },
  "rows in another order": (files, { a }) => files.copy(a, "SELECT * EXCLUDE (file)", "md5(id)"),
  "other types": (files, { a }) =>
    files.copy(a, "SELECT * EXCLUDE (file) REPLACE (composite::BIGINT AS composite)"),
  "a column more": (files, { a, n }) => files.copy(a, `SELECT * EXCLUDE (file), ${n} AS more`),
  "DuckDB's own column": (files, { a, n }) =>
    files.copy(a, `SELECT * EXCLUDE (file), ${n % 7} AS "File_Index"`),
  "an empty file": (files, { n }) => files.copy(`e${n % 3}`, "SELECT * EXCLUDE (file)"),
  "an id in two files": async (files, { a, b, n }) => {
    await files.run(`INSERT INTO rows
      SELECT * REPLACE ('${b}' AS file, resolved_at - INTERVAL 1 DAY AS resolved_at) FROM rows WHERE ${one(a, n)}`);
    await files.write(b);
  },
  "a row in two files": async (files, { a, b, n }) => {
    await files.run(`INSERT INTO rows SELECT * REPLACE ('${b}' AS file) FROM rows WHERE ${one(a, n)}`);
    await files.write(b);
  },
  "a file twice": async (files, { a, n }) => copyFile(files.path(a), files.path(`twice${n}`)),
  "a row that breaks a rule": async (files, { a, n }) =>
    files.copy(
      a,
      `SELECT * EXCLUDE (file) REPLACE (CASE WHEN ${one(a, n)} THEN 1001 ELSE composite END AS composite)`,
    ),
  "a column less": (files, { a }) => files.copy(a, "SELECT * EXCLUDE (file, tier)"),
  "no Parquet": (files, { a, n }) => writeFile(files.path(a), `no Parquet ${n}`),
};

/** What is mended after a refusal, so that not every later run is refused as well. */
async function mend(files: Files): Promise<void> {
  await files.run(`DELETE FROM rows WHERE rowid NOT IN (SELECT min(rowid) FROM rows GROUP BY id)`);
  const names = await files.names();
  for (const name of await files.all())
    if (!names.includes(name.slice(0, -8))) await rm(files.path(name.slice(0, -8)));
  await files.write(...names);
}

/** What happens to the store, or to the publisher, between two runs. */
const accidents = [
  "none",
  "none",
  "none",
  "objects lost",
  "an object rotten",
  "digests of another kind",
] as const;

const anyEdit = fc.record({
  kind: fc.constantFrom(...Object.keys(kinds)),
  more: fc.option(fc.constantFrom(...Object.keys(kinds))),
  a: fc.nat(),
  b: fc.nat(),
  n: fc.nat({ max: 10_000 }),
  accident: fc.constantFrom(...accidents),
});

async function currentManifest(storage: Storage): Promise<Manifest> {
  return readManifest(storage, (await newestCommit(storage))!.manifest);
}

async function keysOf(storage: Storage, prefix: string): Promise<string[]> {
  const keys: string[] = [];
  for await (const { key } of storage.list(prefix)) keys.push(key);
  return keys.sort();
}

/** The snapshot that a run gives, or the text of its refusal, and how many files it took over unread. */
async function outcomeOf(directory: string, storage: Storage, choices: RunChoices = {}) {
  let unread = 0;
  const change: RunChoices["change"] = (sources) => {
    unread = sources.files.filter(({ unchanged }) => unchanged).length;
    return choices.change ? choices.change(sources) : sources;
  };
  try {
    const { report } = await publishCounted(directory, storage, folder, { ...choices, change });
    return { snapshotId: report.snapshotId, outcome: report.outcome, unread };
  } catch (error) {
    if (!(error instanceof SourceRefusal)) throw error;
    return { refusal: error.message, unread };
  }
}

test(`after each of ${edits} random edits of a set of files, a run gives what one from nothing gives`, async () => {
  await withDuckDb(folder, async (sql) => {
    const property = fc.asyncProperty(
      fc.array(anyEdit, { minLength: edits, maxLength: edits }),
      async (list) => {
        const directory = join(folder, `edited-${list.length}-${Math.random()}`);
        const files = await Files.create(sql, directory);
        const storage = memoryStorage(new Map());
        await publishCounted(directory, storage, folder);
        const lost = new Set<string>();
        const seen = { unread: 0, refused: 0, published: 0, unchanged: 0 };
        for (const { kind, more, a, b, n, accident } of list) {
          const names = await files.names();
          const place = { a: names[a % names.length]!, b: names[b % names.length]!, n };
          await kinds[kind]!(files, place);
          const left = await files.names();
          const others = { a: left[b % left.length]!, b: left[a % left.length]!, n: n + 10_001 };
          if (more !== null) await kinds[more]!(files, others);
          if (accident === "objects lost") {
            const prefix = [layout.origins, layout.sourceFiles, layout.pages, layout.rows, layout.segments][
              n % 5
            ]!;
            const keys = await keysOf(storage, prefix);
            const key = keys[a % keys.length]!;
            await storage.delete(key);
            lost.add(key);
          }
          if (accident === "an object rotten") {
            const keys = await keysOf(storage, [layout.origins, layout.sourceFiles][n % 2]!);
            const key = keys[a % keys.length]!;
            await storage.put(key, Buffer.alloc((await storage.get(key))!.length, 1));
            lost.add(key);
          }
          const choices: RunChoices =
            accident === "digests of another kind"
              ? { change: (sources) => ({ ...sources, rowDigests: `another-${n}` }) }
              : {};
          const run = await outcomeOf(directory, storage, choices);
          const alone = memoryStorage(new Map());
          const expected = await outcomeOf(directory, alone, choices);
          const what = JSON.stringify({ kind, more, place, others, accident, run });
          expect(run.snapshotId, what).toBe(expected.snapshotId);
          expect(run.refusal, what).toBe(expected.refusal);
          seen.unread += run.unread;
          if (run.refusal !== undefined) {
            seen.refused += 1;
            await mend(files);
            continue;
          }
          seen[run.outcome === "published" ? "published" : "unchanged"] += 1;
          if (run.outcome === "published")
            expect(await currentManifest(storage), what).toEqual(await currentManifest(alone));
        }
        // What a superseded snapshot has lost does not come back.
        expect((await faultsOf(storage)).filter(({ key }) => !lost.has(key))).toEqual([]);
        if (edits >= 100) {
          console.log(seen);
          for (const count of Object.values(seen)) expect(count).toBeGreaterThan(10);
        }
        await rm(directory, { recursive: true });
      },
    );
    await fc.assert(property, { numRuns: 1, endOnFailure: true });
  });
}, 3_600_000);

test("files without rows are taken over unread, however many, and do not stand for rows", async () => {
  await withDuckDb(folder, async (sql) => {
    const directory = join(folder, "empty");
    const files = await Files.create(sql, directory);
    for (const name of ["e0", "e1"]) await files.copy(name, "SELECT * EXCLUDE (file)");
    const storage = memoryStorage(new Map());
    const first = await outcomeOf(directory, storage);
    expect(first).toMatchObject({ outcome: "published", unread: 0 });
    const unread = (await files.all()).length;
    expect(await outcomeOf(directory, storage)).toEqual({ ...first, outcome: "unchanged", unread });
    await files.run("DELETE FROM rows");
    await files.write(
      ...(await files.all()).map((file) => file.slice(0, -8)).filter((name) => !/^e/.test(name)),
    );
    expect(await files.all()).toEqual(["e0.parquet", "e1.parquet"]);
    const refusal = "markets/: has no rows";
    expect(await outcomeOf(directory, storage)).toEqual({ refusal, unread: 0 });
  });
});

test("a new id whose hash begins as another's does not make a run read all files", async () => {
  const seen = new Map<number, string>();
  const alike: string[] = [];
  for (let n = 0; alike.length === 0; n += 1) {
    const id = `00000000-0000-4000-8000-${n.toString(16).padStart(12, "0")}`;
    const known = seen.get(idHash(id));
    if (known) alike.push(known, id);
    seen.set(idHash(id), id);
  }
  await withDuckDb(folder, async (sql) => {
    const directory = join(folder, "alike");
    const files = await Files.create(sql, directory);
    const storage = memoryStorage(new Map());
    await files.run(`UPDATE rows SET id = '${alike[0]}' WHERE ${one("f1", 1)}`);
    await files.write("f1");
    expect(await outcomeOf(directory, storage)).toMatchObject({ outcome: "published" });
    await files.run(`UPDATE rows SET id = '${alike[1]}' WHERE ${one("f2", 1)}`);
    await files.write("f2");
    const unread = (await files.all()).length - 1;
    expect(await outcomeOf(directory, storage)).toMatchObject({ outcome: "published", unread });
    await files.run(`UPDATE rows SET id = '${alike[0]}' WHERE ${one("f3", 1)}`);
    await files.write("f3");
    expect(await outcomeOf(directory, storage)).toMatchObject({
      refusal: expect.stringContaining("markets/f1.parquet"),
    });
  });
});

test("a file that changes while others are taken over unread is refused at once; nothing is read again", async () => {
  await withDuckDb(folder, async (sql) => {
    const directory = join(folder, "changing");
    const files = await Files.create(sql, directory);
    const storage = memoryStorage(new Map());
    await publishCounted(directory, storage, folder);
    let opened = 0;
    const change: RunChoices["change"] = (sources) => {
      opened += 1;
      return {
        ...sources,
        async *markets(known) {
          await utimes(files.path("f2"), new Date(), new Date());
          yield* sources.markets(known);
        },
      };
    };
    expect(await outcomeOf(directory, storage, { change })).toMatchObject({
      refusal: "markets/f2.parquet: changed while it was read",
      unread: (await files.all()).length,
    });
    expect(opened).toBe(1);
  });
});

test("a failure is told, and the sources are closed, even when what was sorted cannot be removed", async () => {
  await withDuckDb(folder, async (sql) => {
    const directory = join(folder, "failing");
    await Files.create(sql, directory);
    const removal = vi.spyOn(ExternalSort.prototype, "close").mockRejectedValue(new Error("cannot remove"));
    let closed = false;
    const change: RunChoices["change"] = (sources) => ({
      ...sources,
      async *markets() {
        yield [];
        throw new Error("the first failure");
      },
      close() {
        closed = true;
        return sources.close();
      },
    });
    const run = outcomeOf(directory, memoryStorage(new Map()), { change });
    await expect(run)
      .rejects.toThrow("the first failure")
      .finally(() => removal.mockRestore());
    expect(closed).toBe(true);
  });
});

test("the cause is told when the bytes of a file cannot be read", async () => {
  const file = { path: join(folder, "nowhere.parquet"), name: "nowhere.parquet", fingerprint: "" };
  const hashed = await hashContents([file]);
  expect(() => contentOf(file, hashed)).toThrow(
    expect.objectContaining({ cause: expect.objectContaining({ code: "ENOENT" }) }),
  );
});

test("files on S3 that have not changed are not even fetched, whichever machine runs the publisher", async () => {
  await withDuckDb(folder, async (sql) => {
    const place = join(folder, "remote");
    const directory = join(place, "sources");
    const files = await Files.create(sql, directory);
    const remote = memoryStorage(new Map());
    const upload = async (...names: string[]) => {
      for (const name of names) await remote.put(`sources/${name}`, await readFile(join(directory, name)));
    };
    const nameOf = (file: string) => `markets/${file}.parquet`;
    for (const name of ["e0", "e1"]) await files.copy(name, "SELECT * EXCLUDE (file)");
    const everything = [
      ...(await files.all()).map((name) => `markets/${name}`).sort(),
      "protocol_scores.parquet",
    ];
    await upload(...everything);
    const s3 = await startSmallS3(remote);
    let fetched: string[] = [];
    s3.fault = (method, key) => {
      if (method === "GET" && key !== "") fetched.push(key.replace("sources/", ""));
      return undefined;
    };
    let machine = 0;
    const run = async (store: string, sources = "s3://bucket/sources") => {
      fetched = [];
      machine += 1;
      const env = { ...s3.environment, XDG_CACHE_HOME: join(place, `cache-${machine}`) };
      const args = ["publish", "--sources", sources, "--store", join(place, store), "--json"];
      const { code, stdout, stderr } = await snapshotCommand(args, { from: folder, env });
      const refusals = stderr.split("\n").filter((line) => line.includes("must not"));
      return {
        code,
        id: code === 0 ? JSON.parse(stdout).snapshotId : undefined,
        refusals,
        fetched: fetched.sort(),
      };
    };
    try {
      const all = await run("store");
      expect(all.fetched).toEqual(everything);
      expect(await run("store")).toEqual({ ...all, fetched: ["protocol_scores.parquet"] });
      const [a, b] = await files.names();
      await files.run(`UPDATE rows SET question = 'Really?' WHERE ${one(a!, 1)}`);
      await files.write(a!);
      await upload(nameOf(a!));
      const changed = await run("store");
      expect(changed.fetched).toEqual([nameOf(a!), "protocol_scores.parquet"]);
      expect(changed.id).toBe((await run("alone", directory)).id);
      await files.run(`INSERT INTO rows SELECT * REPLACE ('${a}' AS file) FROM rows WHERE ${one(b!, 1)}`);
      await files.write(a!);
      await upload(nameOf(a!));
      const refused = await run("store");
      expect(refused.refusals).toHaveLength(2);
      expect(refused).toEqual({ ...(await run("nothing")), fetched: refused.fetched });
    } finally {
      await s3.stop();
    }
  });
});
