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

const fresh = (
  n: number,
  id = "id",
) => `regexp_replace(md5(concat(${id}, ${n})), '^(.{8})(.{4})(.{4})(.{4})(.{12})$',
  '\\1-\\2-\\3-\\4-\\5')`;

const inDimensions = (change: string) =>
  `dimensions = list_transform(dimensions, lambda d, i: CASE WHEN i = 3 THEN ${change} ELSE d END)`;

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
  ...Object.fromEntries(
    [
      "resolved_at = date_trunc('millisecond', resolved_at) + to_microseconds(7)",
      "category = 'weather', resolved_outcome = concat('Maybe ', length(question)), disputed = NOT disputed",
      inDimensions("struct_update(d, score := 100 - d.score)"),
      inDimensions("struct_update(d, evidence := d.evidence[2:])"),
      "dimensions = list_reverse(dimensions)",
    ].map((change) => [
      `every fifth row: ${change}`,
      async (files: Files, { a, n }: Place) => {
        await files.run(`UPDATE rows SET ${change} WHERE file = '${a}' AND hash(id, ${n}) % 5 = 0`);
        await files.write(a);
      },
    ]),
  ),
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
const accidents = [
  "none",
  "none",
  "none",
  "an object lost",
  "an object rotten",
  "digests of another kind",
] as const;

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
