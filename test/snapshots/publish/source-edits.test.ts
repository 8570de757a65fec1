import { readFileSync } from "node:fs";
import { copyFile, rm, stat, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { layout } from "../../../snapshots/store/layout.ts";
import { newestCommit } from "../../../snapshots/store/log/commits.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import { withDuckDb } from "../../helpers/archive/sql.ts";
import { Files, one, outcomeOf } from "../../helpers/publish/market-files.ts";
import { publishSources, type RunChoices } from "../../helpers/publish/sample-sources.ts";
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

/** Edits in edits.txt: of the table of rows, and of files. */
const [rowEdits = [], fileEdits = []] = readFileSync(new URL("edits.txt", import.meta.url), "utf8")
  .replaceAll(/\n {2,}/g, " ")
  .split("\n\n")
  .slice(1)
  .map((section) => section.match(/^[^#].*/gm)!.map((line) => line.split(" | ")));

async function editRows(files: Files, place: Place, written: string, sql: string): Promise<void> {
  const before = await files.names();
  await files.run(placed(sql, place));
  const all = async () => [...before, ...(await files.names())];
  await files.write(...(written === "*" ? await all() : placed(written, place).split(" ")));
}

type Kind = (files: Files, place: Place) => Promise<void>;
/** By name, which begins with = where the markets stay as they are. */
const kinds: Record<string, Kind> = Object.fromEntries([
  ...rowEdits.map(([name, written, sql]): [string, Kind] => [
    name!,
    (files, place) => editRows(files, place, written!, sql!),
  ]),
  ...fileEdits.map(([name, file, columns, order]): [string, Kind] => [
    name!,
    (files, place) => files.copy(placed(file!, place), `SELECT ${placed(columns!, place)}`, order),
  ]),
]);
Object.assign(kinds, {
  "= nothing": async () => {},
  "= touched": async (files, { a }) => utimes(files.path(a), new Date(), new Date()),
  "= renamed": (files, { a, n }) => files.rename(a, `r${n}`),
  "= two names swapped": async (files, { a, b }) => {
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
} satisfies Record<string, Kind>);

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
        let shown: string | undefined = (await publishSources(directory, storage, folder)).snapshotId;
        const lost = new Set<string>();
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
          if (shown !== undefined && kind.startsWith("=") && more?.startsWith("=") !== false)
            expect(run.snapshotId, what).toBe(shown);
          shown = run.snapshotId;
          if (run.refusal !== undefined) {
            await mend(files);
            continue;
          }
          const manifestOf = async (of: Storage) => (await newestCommit(of))!.manifest;
          if (run.outcome === "published")
            expect(await manifestOf(storage), what).toEqual(await manifestOf(alone));
        }
        // What a superseded snapshot has lost does not come back.
        expect((await faultsOf(storage)).filter(({ key }) => !lost.has(key))).toEqual([]);
        await rm(directory, { recursive: true });
      },
    );
    await fc.assert(property, { numRuns: 1, endOnFailure: true });
  });
}, 3_600_000);
