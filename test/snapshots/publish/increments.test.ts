import { rm } from "node:fs/promises";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Manifest } from "../../../schemas/store/stored-objects.ts";
import { readPages } from "../../../snapshots/index/segment.ts";
import { directoryStorage } from "../../../snapshots/store/backends/directory.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { newestCommit } from "../../../snapshots/store/log/commits.ts";
import { readManifest } from "../../../snapshots/store/manifest.ts";
import { readObject } from "../../../snapshots/store/objects.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import { segmentEnds } from "../../helpers/archive/odd-markets.ts";
import { firstColumn, withDuckDb } from "../../helpers/archive/sql.ts";
import { loadSample, publishCounted, writeTables } from "../../helpers/publish/editable-sources.ts";
import { countingStorage } from "../../helpers/store/storages.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";
import { faultsOf } from "../../helpers/store/verified.ts";

const folder = testFolder();
let places = 0;

function newPlace(): string {
  places += 1;
  return join(folder, `place-${places}`);
}

async function currentManifest(storage: Storage): Promise<Manifest> {
  const commit = await newestCommit(storage);
  return readManifest(storage, commit!);
}

/** Edits of the tables; `seed` decides which rows, `share` of how many is one. */
const newId = (seed: number) => `regexp_replace(md5(concat(id, ${seed})),
  '^(.{8})(.{4})(.{4})(.{4})(.{12})$', '\\1-\\2-\\3-\\4-\\5')`;
const chosen = (seed: number, share: number) => `hash(id, ${seed}) % ${share} = 0`;
const update = (change: string) => (seed: number, share: number) =>
  `UPDATE markets SET ${change} WHERE ${chosen(seed, share)}`;
const updateDimension = (change: string) =>
  update(`dimensions = list_transform(dimensions, lambda d, i: CASE WHEN i = 3 THEN ${change} ELSE d END)`);
const insert = (time: (seed: number) => string) => (seed: number, share: number) =>
  `INSERT INTO markets SELECT * REPLACE (${newId(seed)} AS id, ${time(seed)} AS resolved_at)
   FROM markets WHERE ${chosen(seed, share)}`;

const edits = {
  "new at the end": insert(() => "(SELECT max(resolved_at) FROM markets) + INTERVAL 1 MINUTE"),
  "late anywhere": insert((seed) => `resolved_at - to_minutes((hash(id, ${seed}, 'late') % 50000)::INTEGER)`),
  "late at the same time": insert(() => "resolved_at"),
  removed: (seed, share) => `DELETE FROM markets WHERE ${chosen(seed, share)}`,
  moved: update("resolved_at = resolved_at - INTERVAL 3 DAY"),
  "moved by less than a millisecond": update(
    "resolved_at = date_trunc('millisecond', resolved_at) + to_microseconds(7)",
  ),
  question: update("question = concat(question, '…')"),
  labels: update("category = 'weather', resolved_outcome = concat('Maybe ', length(question))"),
  numbers: update("composite = 1000 - (composite - 300), tier = 'RAW', flagged_count = flagged_count + 1"),
  "disputed, formula": update("disputed = NOT disputed, formula_version = 'bri-pm-v9'"),
  "score of a dimension": updateDimension("struct_update(d, score := 100 - d.score)"),
  "order of dimensions": update("dimensions = list_reverse(dimensions)"),
  "evidence gone": updateDimension("struct_update(d, evidence := d.evidence[2:])"),
  "evidence's reference": updateDimension(`struct_update(d, evidence := list_transform(d.evidence,
    lambda e: struct_update(e, "reference" := struct_update(e."reference", kind := 'post'))))`),
  computation: updateDimension(`struct_update(d, computation := struct_update(d.computation,
    baseline := d.computation.baseline + 0.1, raises := list_append(d.computation.raises, NULL),
    lowers := d.computation.lowers[2:]))`),
  "references of a dimension": updateDimension(
    `struct_update(d, "references" := list_concat(d."references", [{'title': 'Added', 'page': NULL}]))`,
  ),
  "protocol scored again":
    () => `INSERT INTO scores SELECT * REPLACE (updated_at + INTERVAL 1 HOUR AS updated_at,
    confidence - 1 AS confidence, evidence_hash || 'x' AS evidence_hash) FROM scores
    QUALIFY row_number() OVER (ORDER BY updated_at DESC, slug) = 1`,
  "protocol gone": () => `DELETE FROM scores WHERE slug = (SELECT max(slug) FROM scores)
    AND (SELECT count(DISTINCT slug) FROM scores) > 3`,
  "protocol new": (seed) => `INSERT INTO scores SELECT * REPLACE (concat('new-${seed}-', slug) AS slug)
    FROM scores WHERE slug = (SELECT min(slug) FROM scores) AND length(slug) < 60`,
} satisfies Record<string, (seed: number, share: number) => string>;

const anyEdit = fc.record({
  kind: fc.constantFrom(...(Object.keys(edits) as (keyof typeof edits)[])),
  seed: fc.integer({ min: 0, max: 1_000_000 }),
  share: fc.constantFrom(20, 80, 350),
});

describe("four increments of random edits", () => {
  test("give what the same sources give at once, and render only the rows that differ", async () => {
    await withDuckDb(folder, async (sql) => {
      const property = fc.asyncProperty(
        fc.array(fc.array(anyEdit, { minLength: 1, maxLength: 3 }), { minLength: 4, maxLength: 4 }),
        async (increments) => {
          const place = newPlace();
          const storage = directoryStorage(join(place, "store"));
          await loadSample(sql, place, { markets: 500 });
          // Several segments, as a large archive has.
          for (const [n, id] of [...segmentEnds().take(9)].entries()) {
            await sql.run(`UPDATE markets SET id = '${id}' WHERE id =
              (SELECT id FROM markets ORDER BY resolved_at, id LIMIT 1 OFFSET ${40 + 47 * n})`);
          }
          await publishCounted(await writeTables(sql, join(place, "sources")), storage, folder);
          await sql.run("CREATE OR REPLACE TABLE published AS FROM markets");
          for (const increment of increments) {
            for (const { kind, seed, share } of increment) await sql.run(edits[kind](seed, share));
            const directory = await writeTables(sql, join(place, "sources"));
            const [differing] = await firstColumn<bigint>(
              sql,
              "SELECT count(*) FROM (FROM markets EXCEPT FROM published)",
            );
            const { report, rendered } = await publishCounted(directory, storage, folder);
            expect(rendered).toBe(Number(differing));
            if (report.outcome === "published") {
              await sql.run("CREATE OR REPLACE TABLE published AS FROM markets");
              const fresh = directoryStorage(join(place, "fresh"));
              const atOnce = await publishCounted(directory, fresh, folder);
              expect(report.snapshotId).toBe(atOnce.report.snapshotId);
              // The report also counts the change record, which the first commit of a store does not have.
              expect((await newestCommit(storage))?.size).toEqual((await newestCommit(fresh))?.size);
              // Names are hashes of contents: this compares pages, segments, row digests and score objects.
              expect(await currentManifest(storage)).toEqual(await currentManifest(fresh));
              await rm(join(place, "fresh"), { recursive: true });
            }
          }
          expect(await faultsOf(storage)).toEqual([]);
          await rm(place, { recursive: true });
        },
      );
      await fc.assert(property, { numRuns: 1, endOnFailure: true });
    });
  });
});

describe("a small edit", () => {
  test.for([
    ["one field of one market", "UPDATE markets SET question = 'Really?' WHERE id = $id", 1],
    ["a market removed", "DELETE FROM markets WHERE id = $id", 0],
    [
      "a market elsewhere",
      "UPDATE markets SET resolved_at = resolved_at - INTERVAL 30 DAY WHERE id = $id",
      1,
    ],
  ] as const)("renders and uploads what is near it: %s", async ([, edit, rows]) => {
    const place = newPlace();
    const storage = directoryStorage(join(place, "store"));
    await withDuckDb(folder, async (sql) => {
      await loadSample(sql, folder, { markets: 700 });
      const first = await publishCounted(await writeTables(sql, join(place, "sources")), storage, folder);
      expect(first).toMatchObject({ known: 0, rendered: 700 });
      const [id] = await firstColumn<string>(
        sql,
        "SELECT id FROM markets ORDER BY resolved_at, id LIMIT 1 OFFSET 300",
      );
      await sql.run(edit, { id: id! });
      const counting = countingStorage(storage);
      const run = await publishCounted(await writeTables(sql, join(place, "sources")), counting, folder);
      expect(run.rendered).toBe(rows);
      expect(run.known).toBe(run.report.counts.markets - rows);
      const written = counting.written();
      const pages = written.filter((key) => key.startsWith(layout.page.prefix)).length;
      // A page at most where it was and one where it is; one more each if it was where a page ended.
      expect(pages).toBeGreaterThan(0);
      expect(pages).toBeLessThanOrEqual(4);
      expect(written.filter((key) => key.startsWith(layout.publicObject.prefix))).toEqual([]);
      expect(await faultsOf(storage)).toEqual([]);
    });
  });
});

describe("objects that somebody deleted", () => {
  const place = join(folder, "healed");
  const storage = directoryStorage(join(place, "store"));

  test("are there again after the next run of the same sources, whichever they are", async () => {
    await withDuckDb(folder, async (sql) => {
      await loadSample(sql, place, { markets: 400, protocols: 4 });
      for (const [n, id] of [...segmentEnds().take(8)].entries()) {
        await sql.run(`UPDATE markets SET id = '${id}' WHERE id =
          (SELECT id FROM markets ORDER BY resolved_at, id LIMIT 1 OFFSET ${40 + 43 * n})`);
      }
      await writeTables(sql, join(place, "sources"));
    });
    await publishCounted(join(place, "sources"), storage, folder);
    const manifest = await currentManifest(storage);
    expect(manifest.segments.length).toBeGreaterThan(2);
    const { segments, scores } = manifest;
    const middle = segments[1]!;
    const key = layout.segment(middle.hash);
    const [page] = readPages(key, await readObject(storage, key, middle));
    const record = Object.values(scores.records)[0]!;
    const kinds = {
      page: [layout.page(page!.hash)],
      segment: [key],
      rows: [layout.rows(middle.rows.hash)],
      "ids of one segment, and words of another": [
        layout.ids(middle.ids.hash),
        layout.words(segments[0]!.words.hash),
      ],
      "objects of scores": [
        layout.publicObject(scores.list.hash),
        layout.publicObject(record.hash),
        layout.privateObject(Object.values(scores.histories)[0]!.hash),
        layout.privateObject(Object.values(scores.dimensions)[1]!.hash),
        layout.stableScore(Object.keys(scores.records)[2]!),
      ],
      "all of a segment": [key, layout.rows(middle.rows.hash), layout.page(page!.hash)],
      "all segments": segments.map(({ hash }) => layout.segment(hash)),
    };
    for (const [kind, keys] of Object.entries(kinds)) {
      const bytes = await Promise.all(keys.map((lost) => storage.get(lost)));
      for (const lost of keys) await storage.delete(lost);
      const { report } = await publishCounted(join(place, "sources"), storage, folder);
      expect(report, kind).toMatchObject({ outcome: "unchanged", commit: 1 });
      expect(await Promise.all(keys.map((lost) => storage.get(lost))), kind).toEqual(bytes);
      expect(await faultsOf(storage), kind).toEqual([]);
    }
    // Cut short is as good as gone.
    const whole = await storage.get(key);
    await storage.put(key, whole!.subarray(0, 100));
    await publishCounted(join(place, "sources"), storage, folder);
    expect(await storage.get(key)).toEqual(whole);
    // So is what only publishers read, when it has rotted.
    const [sourceFiles, origins] = [manifest.sources!, manifest.segments[1]!.origins!];
    for (const rotten of [layout.sourceFiles(sourceFiles.hash), layout.origins(origins.hash)]) {
      const sound = (await storage.get(rotten))!;
      await storage.put(rotten, Buffer.alloc(sound.length, 1));
      const { report } = await publishCounted(join(place, "sources"), storage, folder);
      expect(report, rotten).toMatchObject({ outcome: "unchanged", commit: 1, uploaded: { objects: 1 } });
      expect(await storage.get(rotten)).toEqual(sound);
    }
  });
});

describe("the same rows in other types and orders", () => {
  test("are rendered again, change nothing that is served, and make no commit", async () => {
    const place = newPlace();
    const storage = directoryStorage(join(place, "store"));
    await withDuckDb(folder, async (sql) => {
      await loadSample(sql, place, { markets: 500 });
      const sources = join(place, "sources");
      await publishCounted(await writeTables(sql, sources), storage, folder);
      for (const [spelling, rendered] of [
        ["FROM markets ORDER BY md5(id)", 0],
        ["SELECT * REPLACE (composite::BIGINT AS composite) FROM markets ORDER BY question", 500],
        ["SELECT dimensions, * EXCLUDE (dimensions) FROM markets", 500],
      ] as const) {
        const counting = countingStorage(storage);
        const run = await publishCounted(
          await writeTables(sql, sources, { markets: spelling }),
          counting,
          folder,
        );
        expect(run).toMatchObject({ rendered, report: { outcome: "unchanged", commit: 1 } });
        // What only publishers read, and no commit names.
        const ownPrefixes = [layout.rows.prefix, layout.origins.prefix, layout.sourceFiles.prefix];
        const written = counting.written().filter((key) => !ownPrefixes.some((own) => key.startsWith(own)));
        // A store is probed before the first object is written to it.
        expect(written).toEqual(rendered > 0 ? [layout.probe, layout.checked] : [layout.checked]);
      }
      expect(await faultsOf(storage)).toEqual([]);
    });
  });
});
