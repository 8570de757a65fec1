import { join } from "node:path";
import type { DuckDBConnection } from "@duckdb/node-api";
import { describe, expect, test } from "vitest";
import { type Fault, isFault } from "../../../schemas/errors.ts";
import type { Allowance } from "../../../snapshots/publish/guards.ts";
import type { Sources } from "../../../snapshots/sources/sources.ts";
import { directoryStorage } from "../../../snapshots/store/backends/directory.ts";
import { verify } from "../../../snapshots/verify/verify.ts";
import { withDuckDb } from "../../helpers/archive/sql.ts";
import { snapshotCommand } from "../../helpers/publish/commands.ts";
import {
  loadSample,
  publishCounted,
  type RunChoices,
  writeTables,
} from "../../helpers/publish/editable-sources.ts";
import { linkedStore } from "../../helpers/store/linked-store.ts";
import { contentOf, countingStorage } from "../../helpers/store/storages.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";

const folder = testFolder();
let places = 0;

const markets = 200;
const protocols = 20;

/** The rows at these places, from `first`; `count` of them. */
const some = (count: number, first = 0) =>
  `id IN (SELECT id FROM markets ORDER BY id LIMIT ${count} OFFSET ${first})`;
const remove = (count: number) => `DELETE FROM markets WHERE ${some(count)}`;
const change = (count: number, first = 0) =>
  `UPDATE markets SET question = concat(question, '?') WHERE ${some(count, first)}`;
const changeFormula = (count: number) =>
  `UPDATE markets SET question = concat(question, '?'), formula_version = 'bri-pm-v3' WHERE ${some(count)}`;
const move = (count: number) =>
  `UPDATE markets SET resolved_at = resolved_at - INTERVAL 1 HOUR WHERE ${some(count)}`;
const add = (count: number) => `INSERT INTO markets SELECT * EXCLUDE (n) REPLACE (
  concat('fff', n, id[5:]) AS id, resolved_at + INTERVAL 1 SECOND AS resolved_at)
  FROM markets, range(2) AS twice (n) LIMIT ${count}`;
const removeProtocols = (count: number) => `DELETE FROM scores WHERE slug IN
  (SELECT DISTINCT slug FROM scores ORDER BY slug LIMIT ${count})`;

/** Makes the tables of the sample that all stores begin with. */
const loadTables = (sql: DuckDBConnection) => loadSample(sql, folder, { markets, protocols });

/** A published store, and sources that differ from it by these edits. */
async function editedStore(...statements: readonly string[]) {
  places += 1;
  const place = join(folder, `place-${places}`);
  const sources = join(place, "sources");
  const storage = await linkedStore(folder, "sample", (fresh) =>
    withDuckDb(folder, async (sql) => {
      await loadTables(sql);
      await publishCounted(await writeTables(sql, join(folder, "sources")), fresh, folder);
    }),
  );
  await withDuckDb(folder, async (sql) => {
    await loadTables(sql);
    for (const statement of statements) await sql.run(statement);
    await writeTables(sql, sources);
  });
  const run = (choices: RunChoices = {}) =>
    publishCounted(sources, storage, folder, { freely: false, ...choices });
  return { place, sources, storage, run };
}

/** What a run is refused for: the numbers it names. */
async function refusalOf(run: Promise<unknown>): Promise<Fault> {
  const error = await run.catch((thrown: unknown) => thrown);
  if (isFault(error, "GUARD_REFUSED")) return error;
  throw error instanceof Error ? error : new Error("the run was not refused");
}

const everything = [remove(11), change(11), removeProtocols(2), add(211)];
const allNeeded = { removed: 13, changed: 11, added: 211 };

describe("a guard", () => {
  test.for<[string, string[], string[], Allowance]>([
    ["markets gone", [remove(10)], [remove(11)], { removed: 11 }],
    ["protocols gone", [removeProtocols(1)], [removeProtocols(2)], { removed: 2 }],
    [
      "few markets with many protocols",
      [remove(5), removeProtocols(1)],
      [remove(5), removeProtocols(2)],
      { removed: 7 },
    ],
    ["markets changed", [change(10)], [change(11)], { changed: 11 }],
    ["markets moved", [move(10)], [move(11)], { changed: 11 }],
    ["an archive doubled", [add(199)], [add(200)], { added: 200 }],
    // Markets that go and others that come are not changes.
    ["markets replaced", [remove(10), add(10)], [remove(11), add(11)], { removed: 11 }],
    ["some of each", [remove(10), change(10), removeProtocols(1), add(209)], everything, allNeeded],
  ])("lets the most pass that is allowed, and refuses one more: %s", async ([, most, more, needed]) => {
    const passing = await editedStore(...most);
    expect((await passing.run()).report).toMatchObject({ outcome: "published", commit: 2 });
    const { run } = await editedStore(...more);
    expect((await refusalOf(run())).extras.needed).toEqual(needed);
  });

  test("refuses before it writes anything, in a dry run with the same words", async () => {
    const { sources, storage, run } = await editedStore(...everything);
    const before = await contentOf(storage);
    const counting = countingStorage(storage);
    const refused = await refusalOf(publishCounted(sources, counting, folder, { freely: false }));
    expect(counting.written()).toEqual([]);
    expect(await contentOf(storage)).toEqual(before);
    expect((await refusalOf(run({ dryRun: true }))).message).toBe(refused.message);
    expect(refused.message).toBe(
      "The sources look broken: " +
        "11 of 200 markets and 2 of 20 protocols are gone; if that is meant, publish with --allow-removed 13. " +
        "11 of 200 markets changed under an unchanged formula_version; " +
        "if that is meant, publish with --allow-changed 11. " +
        "the archive grows from 200 to 400 markets, 211 of them new; if that is meant, publish with --allow-added 211.",
    );
  });

  test("is passed by the numbers that it names, all of them and no others", async () => {
    const { storage, run } = await editedStore(...everything);
    const wrong: Allowance[] = [
      { ...allNeeded, removed: 12 },
      { ...allNeeded, changed: 12 },
      { ...allNeeded, added: 1000 },
      { removed: 13, changed: 11 },
      { added: 211 },
    ];
    for (const allow of wrong) expect((await refusalOf(run({ allow }))).extras.needed).toEqual(allNeeded);
    const { message } = await refusalOf(run({ allow: { ...allNeeded, removed: 5000 } }));
    expect(message).toContain("publish with --allow-removed 13, not 5000.");
    expect((await refusalOf(run({ allow: { removed: 13 } }))).message).not.toContain("--allow-removed");
    expect((await run({ allow: allNeeded })).report).toMatchObject({ outcome: "published", commit: 2 });
    expect((await verify(storage, () => {})).faults).toEqual([]);
    // Allowances that are no longer needed do no harm.
    expect((await run({ allow: allNeeded })).report).toMatchObject({ outcome: "unchanged", commit: 2 });
  });

  test("does not count what comes with another formula_version", async () => {
    const free = await editedStore(changeFormula(200));
    expect((await free.run()).report).toMatchObject({ outcome: "published", commit: 2 });
    const { run } = await editedStore(changeFormula(150), change(11, 150));
    expect((await refusalOf(run())).extras.needed).toEqual({ changed: 11 });
  });

  test("counts the same when every row is rendered again", async () => {
    const otherKind = (opened: Sources) => ({ ...opened, rowDigests: "another kind" });
    const few = await editedStore(change(10), remove(10));
    expect(await few.run({ change: otherKind })).toMatchObject({ known: 0, rendered: 190 });
    const { run } = await editedStore(...everything);
    expect((await refusalOf(run({ change: otherKind }))).extras.needed).toEqual(allNeeded);
    expect((await run({ change: otherKind, allow: allNeeded })).report.commit).toBe(2);
  });
});

describe("npm run snapshot -- publish", () => {
  test("ends a refused run with exit code 3 and the numbers to allow, and takes exactly these", async () => {
    const { place, storage } = await editedStore(...everything);
    const publish = (...options: string[]) =>
      snapshotCommand(["publish", "--sources", "sources", "--store", storage.location, ...options], {
        from: place,
      });
    const before = await contentOf(storage);
    const dry = await publish("--dry-run", "--json");
    const refused = await publish("--json");
    for (const { code, stdout, stderr } of [dry, refused]) {
      expect(code).toBe(3);
      const message = stderr.trimEnd().split("\n").at(-1);
      expect(JSON.parse(stdout)).toEqual({ error: { exitCode: 3, message, refusals: [] } });
      for (const option of ["--allow-removed 13", "--allow-changed 11", "--allow-added 211"]) {
        expect(stderr).toContain(option);
      }
      expect(stderr).not.toMatch(/^\s+at /m);
    }
    expect(await contentOf(storage)).toEqual(before);
    const allow = ["--allow-removed", "13", "--allow-changed", "11", "--allow-added"];
    expect(await publish(...allow, "210")).toMatchObject({ code: 3, stdout: "" });
    expect(await publish(...allow, "-1")).toMatchObject({ code: 2 });
    const passed = await publish(...allow, "211", "--json");
    expect(passed.code).toBe(0);
    expect(JSON.parse(passed.stdout)).toMatchObject({
      outcome: "published",
      commit: 2,
      counts: { markets: 400 },
    });
  });
});

test("a run tells what it changes, and a dry run what it would", async () => {
  const { place, storage, run } = await editedStore(
    change(5, 10),
    changeFormula(2),
    `DELETE FROM markets WHERE ${some(1, 50)}`,
    removeProtocols(1),
    "UPDATE scores SET confidence = 100 - confidence WHERE slug = (SELECT max(slug) FROM scores)",
  );
  const command = async (...more: string[]) => {
    const { code, stdout, stderr } = await snapshotCommand(
      ["publish", "--sources", "sources", "--store", storage.location, ...more],
      { from: place },
    );
    expect(code, stderr).toBe(0);
    return stdout;
  };
  const first = { added: [], changed: [expect.any(String)], removed: [expect.any(String)] };
  const changes = {
    markets: { added: 0, changed: 7, removed: 1 },
    protocols: { added: 0, changed: 1, removed: 1, first },
  };
  expect(JSON.parse(await command("--dry-run", "--json"))).toMatchObject({ outcome: "dry-run", changes });
  const told = /change \+0 ~7 -1 markets, ~1 protocol \([a-z0-9._-]+\), -1 protocol \([a-z0-9._-]+\)$/m;
  const dry = await command("--dry-run");
  expect(dry).toMatch(told);
  expect(dry).toContain("It would change ");
  const real = await command();
  expect(real).toContain("It changes +0 ~7 -1 markets, ");
  expect(await command()).not.toMatch(/changes? \+/);
  expect((await run()).report.changes).toMatchObject({ markets: { added: 0, changed: 0, removed: 0 } });
});

test("a first publish adds everything", async () => {
  await withDuckDb(folder, async (sql) => {
    const place = join(folder, "first");
    await loadSample(sql, place, { markets, protocols });
    const sources = await writeTables(sql, join(place, "sources"));
    const { report } = await publishCounted(sources, directoryStorage(join(place, "store")), folder);
    expect(report.changes).toMatchObject({
      markets: { added: markets, changed: 0, removed: 0 },
      protocols: { added: protocols, changed: 0, removed: 0 },
    });
  });
});
