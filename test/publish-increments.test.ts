import { cp } from "node:fs/promises";
import { join } from "node:path";
import type { DuckDBConnection } from "@duckdb/node-api";
import fc from "fast-check";
import { beforeAll, describe, expect, test } from "vitest";
import { newestCommit } from "../snapshots/commits.ts";
import { quoted } from "../snapshots/duckdb.ts";
import { readManifest } from "../snapshots/objects.ts";
import { directoryStorage } from "../snapshots/storage/directory.ts";
import type { Storage } from "../snapshots/storage/storage.ts";
import { verify } from "../snapshots/verify/verify.ts";
import { withDuckDb } from "./helpers/archive-sql.ts";
import { publishSources, testFolder, writeSources } from "./helpers/archive-store.ts";

const folder = testFolder();
const base = join(folder, "base");
const firstStore = join(folder, "first");
const marketsFile = (directory: string) => join(directory, "markets/part-00000.parquet");

beforeAll(async () => {
  await writeSources(base, { markets: 250 });
  await publishSources(base, directoryStorage(firstStore), folder);
});

const changeDimensions = (value: string) =>
  `UPDATE markets SET dimensions = list_transform(dimensions, lambda d, i: struct_update(d, ${value})) WHERE chosen`;
const changeComputation = (value: string) =>
  changeDimensions(`computation := struct_update(d.computation, ${value})`);
const addMarkets = (time: string) => `INSERT INTO markets SELECT * REPLACE (
  regexp_replace(md5(concat(id, salt)), '(.{8})(.{4})(.{4})(.{4})(.{12})', '\\1-\\2-\\3-\\4-\\5') AS id,
  ${time} AS resolved_at) FROM markets WHERE chosen`;

/** How the next run's sources may differ, as SQL over the table of markets; `chosen` holds for some of them. */
const edits = {
  "markets gone": "DELETE FROM markets WHERE chosen",
  "other scores": "UPDATE markets SET composite = 300 + (composite * 7 + 13) % 701 WHERE chosen",
  "other labels":
    "UPDATE markets SET resolved_outcome = concat(resolved_outcome, '!'), category = upper(category) WHERE chosen",
  "moved by weeks": "UPDATE markets SET resolved_at = resolved_at - to_days(composite % 90) WHERE chosen",
  "moved within a millisecond":
    "UPDATE markets SET resolved_at = date_trunc('milliseconds', resolved_at) + to_microseconds(1) WHERE chosen",
  "other evidence": changeDimensions("evidence := d.evidence[2:], description := concat(d.description, '.')"),
  "evidence in another order": changeDimensions("evidence := list_reverse(d.evidence)"),
  "labels and patterns exchanged": changeDimensions(`evidence := list_transform(d.evidence,
    lambda e: struct_update(e, label := e.pattern, pattern := e.label))`),
  "evidence of the next dimension": changeDimensions("evidence := dimensions[1 + i % 6].evidence"),
  "signals of the next dimension": changeComputation("raises := dimensions[1 + i % 6].computation.raises"),
  "baselines of zero": changeComputation("baseline := 0::DOUBLE"),
  "baselines of minus zero": changeComputation("baseline := '-0.0'::DOUBLE"),
  "new at the end": addMarkets("TIMESTAMPTZ '2026-02-01 00:00:00+00' + to_minutes(composite)"),
  "new in between": addMarkets("resolved_at"),
  "as in the beginning": "DELETE FROM markets; INSERT INTO markets FROM base",
  "nothing different": "SELECT 1",
};
type Edit = keyof typeof edits;

interface Step {
  edit: Edit;
  /** Percent of the markets. */
  share: number;
  salt: number;
}

/** Changes the table, and writes it as sources in another order of rows. */
async function writeEdited(sql: DuckDBConnection, { edit, share, salt }: Step, directory: string) {
  const chosen = `(hash(id, ${salt}) % 100 < ${share})`;
  for (const statement of edits[edit].split("; "))
    await sql.run(statement.replaceAll("chosen", chosen).replaceAll("salt", String(salt)));
  await cp(base, directory, { recursive: true });
  await sql.run(
    `COPY (FROM markets ORDER BY hash(id, ${salt})) TO ${quoted(marketsFile(directory))} (FORMAT parquet)`,
  );
}

/** The newest manifest without the digests of source rows: rows that differ may be published as equal records. */
async function served(storage: Storage) {
  const { segments, ...manifest } = await readManifest(storage, (await newestCommit(storage))!.manifest);
  return { ...manifest, segments: segments.map(({ rows: _, ...segment }) => segment) };
}

/** Publishes after every step, on top of what there was and into an empty store, and compares the snapshots. */
async function expectIncrements(name: string, steps: readonly Step[]): Promise<void> {
  const at = (what: string) => join(folder, `${name}-${what}`);
  await cp(firstStore, at("store"), { recursive: true });
  const storage = directoryStorage(at("store"));
  await withDuckDb(folder, async (sql) => {
    await sql.run(`CREATE TABLE base AS FROM read_parquet(${quoted(marketsFile(base))})`);
    await sql.run("CREATE TABLE markets AS FROM base");
    for (const [number, step] of steps.entries()) {
      await writeEdited(sql, step, at(`sources-${number}`));
      await publishSources(at(`sources-${number}`), storage, folder);
      const fresh = directoryStorage(at(`fresh-${number}`));
      await publishSources(at(`sources-${number}`), fresh, folder);
      expect(await served(storage), step.edit).toEqual(await served(fresh));
    }
  });
  expect((await verify(storage, () => {})).faults).toEqual([]);
}

describe("a publish on top of another equals one into an empty store", () => {
  test.for(Object.keys(edits) as Edit[])("with %s", async (edit) => {
    await expectIncrements(edit, [{ edit, share: 10, salt: 1 }]);
  });

  test("with zeros that change their sign", async () => {
    const share = 10;
    const salt = 2;
    await expectIncrements("signs", [
      { edit: "baselines of zero", share, salt },
      { edit: "baselines of minus zero", share, salt },
      { edit: "baselines of zero", share, salt },
    ]);
  });

  test("with any of these after one another", async () => {
    const step = fc.record({
      edit: fc.constantFrom(...(Object.keys(edits) as Edit[])),
      share: fc.constantFrom(1, 5, 40),
      salt: fc.nat(1_000_000),
    });
    let runs = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 2, maxLength: 4 }), async (steps) => {
        runs += 1;
        await expectIncrements(`run-${runs}`, steps);
      }),
      { numRuns: 5, interruptAfterTimeLimit: 60_000 },
    );
  });
});
