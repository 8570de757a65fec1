import { copyFile, rm, stat, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { layout } from "../../../snapshots/store/layout.ts";
import { newestCommit } from "../../../snapshots/store/log/commits.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import { withDuckDb } from "../../helpers/archive/sql.ts";
import { publishCounted, type RunChoices } from "../../helpers/publish/editable-sources.ts";
import { Files, one, outcomeOf } from "../../helpers/publish/market-files.ts";
import { listed, memoryStorage } from "../../helpers/store/storages.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";
import { faultsOf } from "../../helpers/store/verified.ts";

const folder = testFolder();
/** The edits of a run; EDITS=500 looks for long. */
const edits = Number(process.env.EDITS ?? 6);

/** Where an edit takes place: `a` and `b` are files, `n` tells one from others of its kind. */
interface Place {
  a: string;
  b: string;
  n: number;
}

/** SQL, or names of files, at a place: {one a} is a row of a file, and {fifth} is every fifth one. */
const placed = (text: string, { a, b, n }: Place) =>
  text
    .replace(
      /\{one (a|b)( other)?\}/g,
      (_, file, other) => `(${one(file === "a" ? a : b, other ? n + 1 : n)})`,
    )
    .replaceAll("{fifth}", `file = '{a}' AND hash(id, {n}) % 5 = 0`)
    .replaceAll("{a}", a)
    .replaceAll("{b}", b)
    .replaceAll("{n of 3}", String(n % 3))
    .replaceAll("{n}", String(n));

/** The parts of each line; what is indented goes on with the line before. */
const partsOf = (text: string) =>
  text
    .replaceAll(/\n {2,}/g, " ")
    .trim()
    .split("\n")
    .map((line) => line.split(" | "));

/** Edits of the table of rows: the files that are written then, of which * are all before and after, and SQL. */
const rowEdits = partsOf(`
split | {a} s{n} | UPDATE rows SET file = 's{n}' WHERE file = '{a}' AND hash(id) % 2 = 0
merged | {a} {b} | UPDATE rows SET file = '{a}' WHERE file = '{b}'
all in one | * | UPDATE rows SET file = 'all'
by another rule | * | UPDATE rows SET file = concat('h{n}-', hash(id, {n}) % 5)
a row moved | {a} {b} | UPDATE rows SET file = '{b}' WHERE {one a}
a row moved and changed | {a} {b} | UPDATE rows SET file = '{b}', question = concat(question, '…') WHERE {one a}
an id moved | {a} {b} | DELETE FROM rows WHERE {one b other};
  UPDATE rows SET file = '{b}', resolved_at = resolved_at - INTERVAL 9 DAY WHERE {one a}
two ids swapped | {a} {b} | CREATE OR REPLACE TABLE pair AS
  SELECT id, CASE id WHEN min(id) OVER () THEN max(id) OVER () ELSE min(id) OVER () END AS other FROM rows
  WHERE {one a} OR {one b}; UPDATE rows SET id = pair.other FROM pair WHERE rows.id = pair.id
a row changed | {a} | UPDATE rows SET composite = 1300 - composite WHERE {one a}
times of every fifth row | {a} | UPDATE rows SET
  resolved_at = date_trunc('millisecond', resolved_at) + to_microseconds(7) WHERE {fifth}
labels of every fifth row | {a} | UPDATE rows SET category = 'weather',
  resolved_outcome = concat('Maybe ', length(question)), disputed = NOT disputed WHERE {fifth}
a score of every fifth row | {a} | UPDATE rows SET dimensions = list_transform(dimensions,
  lambda d, i: CASE WHEN i = 3 THEN struct_update(d, score := 100 - d.score) ELSE d END) WHERE {fifth}
evidence of every fifth row | {a} | UPDATE rows SET dimensions = list_transform(dimensions,
  lambda d, i: CASE WHEN i = 3 THEN struct_update(d, evidence := d.evidence[2:]) ELSE d END) WHERE {fifth}
order in every fifth row | {a} | UPDATE rows SET dimensions = list_reverse(dimensions) WHERE {fifth}
a row removed | {a} | DELETE FROM rows WHERE {one a} AND (SELECT count(*) FROM rows) > 60
a file removed | {a} | DELETE FROM rows WHERE file = '{a}' AND (SELECT count(*) FROM rows WHERE file <> '{a}') > 60
rows added | {a} | INSERT INTO rows SELECT * REPLACE (md5(concat(id, {n}))::UUID::VARCHAR AS id,
  resolved_at + INTERVAL 1 HOUR AS resolved_at) FROM rows WHERE file = '{a}' LIMIT 9
a file added | n{n} | INSERT INTO rows SELECT * REPLACE (md5(concat(id, {n}))::UUID::VARCHAR AS id, 'n{n}' AS file)
  FROM rows WHERE file = '{a}' LIMIT 20
an id in two files | {b} | INSERT INTO rows
  SELECT * REPLACE ('{b}' AS file, resolved_at - INTERVAL 1 DAY AS resolved_at) FROM rows WHERE {one a}
a row in two files | {b} | INSERT INTO rows SELECT * REPLACE ('{b}' AS file) FROM rows WHERE {one a}`);

/** Files that are written otherwise than the table says: their columns, and the order of their rows. */
const fileEdits = partsOf(`
rows in another order | {a} | * EXCLUDE (file) | md5(id)
other types | {a} | * EXCLUDE (file) REPLACE (composite::BIGINT AS composite)
a column more | {a} | * EXCLUDE (file), {n} AS more
DuckDB's own column | {a} | * EXCLUDE (file), {n} % 7 AS "File_Index"
an empty file | e{n of 3} | * EXCLUDE (file)
a row that breaks a rule | {a} | * EXCLUDE (file)
  REPLACE (CASE WHEN {one a} THEN 1001 ELSE composite END AS composite)
a column less | {a} | * EXCLUDE (file, tier)`);

async function editRows(files: Files, place: Place, written: string, sql: string): Promise<void> {
  const before = await files.names();
  await files.run(placed(sql, place));
  const all = async () => [...before, ...(await files.names())];
  await files.write(...(written === "*" ? await all() : placed(written, place).split(" ")));
}

type Kind = (files: Files, place: Place) => Promise<void>;
const kinds: Record<string, Kind> = {
  ...Object.fromEntries(
    rowEdits.map(([name, written, sql]): [string, Kind] => [
      name!,
      (files, place) => editRows(files, place, written!, sql!),
    ]),
  ),
  ...Object.fromEntries(
    fileEdits.map(([name, file, columns, order]): [string, Kind] => [
      name!,
      (files, place) => files.copy(placed(file!, place), `SELECT ${placed(columns!, place)}`, order),
    ]),
  ),
  nothing: async () => {},
  touched: async (files, { a }) => utimes(files.path(a), new Date(), new Date()),
  renamed: (files, { a, n }) => files.rename(a, `r${n}`),
  "two names swapped": async (files, { a, b }) => {
    if (a === b) return;
    await files.rename(a, "swap");
    await files.rename(b, a);
    await files.rename("swap", b);
  },
  "changed, with the same size and time": async (files, place) => {
    const { atime, mtime } = await stat(files.path(place.a));
    await editRows(
      files,
      place,
      "{a}",
      "UPDATE rows SET formula_version = reverse(formula_version) WHERE {one a}",
    );
    await utimes(files.path(place.a), atime, mtime);
  },
  "a file twice": async (files, { a, n }) => copyFile(files.path(a), files.path(`twice${n}`)),
  "no Parquet": (files, { a, n }) => writeFile(files.path(a), `no Parquet ${n}`),
};

/** Edits of files alone: the markets stay as they are. */
const sameMarkets = new Set([
  "nothing",
  "touched",
  "renamed",
  "two names swapped",
  "split",
  "merged",
  "all in one",
  "by another rule",
  "a row moved",
  "rows in another order",
  "other types",
  "a column more",
]);

/** What is mended after a refusal, so that not every later run is refused as well. */
async function mend(files: Files): Promise<void> {
  await files.run(`DELETE FROM rows WHERE rowid NOT IN (SELECT min(rowid) FROM rows GROUP BY id)`);
  const names = await files.names();
  for (const name of await files.all())
    if (!names.includes(name.slice(0, -8))) await rm(files.path(name.slice(0, -8)));
  await files.write(...names);
}

/** What happens to the store, or to the publisher, between two runs. */
const accidents = ["none", "none", "none", "an object lost", "an object rotten", "digests of another kind"];

/** Takes an object away or lets it rot. Returns its key. */
async function harm(storage: Storage, accident: string, { a, n }: Pick<Place, "n"> & { a: number }) {
  const read = [layout.origins.prefix, layout.sourceFiles.prefix];
  const isLost = accident === "an object lost";
  const prefixes = isLost ? [...read, layout.page.prefix, layout.rows.prefix, layout.segment.prefix] : read;
  const keys = (await listed(storage, prefixes[n % prefixes.length])).map((info) => info.key).sort();
  const key = keys[a % keys.length]!;
  if (isLost) await storage.delete(key);
  else await storage.put(key, Buffer.alloc((await storage.get(key))!.length, 1));
  return key;
}

const anyEdit = fc.record({
  kind: fc.constantFrom(...Object.keys(kinds)),
  more: fc.option(fc.constantFrom(...Object.keys(kinds))),
  a: fc.nat(),
  b: fc.nat(),
  n: fc.nat({ max: 10_000 }),
  accident: fc.constantFrom(...accidents),
});

test(`after each of ${edits} random edits of a set of files, a run gives what one from nothing gives`, async () => {
  await withDuckDb(folder, async (sql) => {
    const property = fc.asyncProperty(
      fc.array(anyEdit, { minLength: edits, maxLength: edits }),
      async (list) => {
        const directory = join(folder, `edited-${list.length}-${Math.random()}`);
        const files = await Files.create(sql, directory);
        const storage = memoryStorage(new Map());
        // The snapshot of the files as they are; undefined after a refusal, when they are mended.
        let shown: string | undefined = (await publishCounted(directory, storage, folder)).report.snapshotId;
        const lost = new Set<string>();
        const seen = { unread: 0, refused: 0, published: 0, unchanged: 0 };
        for (const { kind, more, a, b, n, accident } of list) {
          const names = await files.names();
          const place = { a: names[a % names.length]!, b: names[b % names.length]!, n };
          await kinds[kind]!(files, place);
          const left = await files.names();
          const others = { a: left[b % left.length]!, b: left[a % left.length]!, n: n + 10_001 };
          if (more !== null) await kinds[more]!(files, others);
          const harmed = accident.startsWith("an object")
            ? await harm(storage, accident, { a, n })
            : undefined;
          if (harmed) lost.add(harmed);
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
          if (shown !== undefined && sameMarkets.has(kind) && sameMarkets.has(more ?? "nothing"))
            expect(run.snapshotId, what).toBe(shown);
          shown = run.snapshotId;
          seen.unread += run.unread;
          if (run.refusal !== undefined) {
            seen.refused += 1;
            await mend(files);
            continue;
          }
          seen[run.outcome === "published" ? "published" : "unchanged"] += 1;
          const manifestOf = async (of: Storage) => (await newestCommit(of))!.manifest;
          if (run.outcome === "published")
            expect(await manifestOf(storage), what).toEqual(await manifestOf(alone));
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
