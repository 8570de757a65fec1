import { join } from "node:path";
import type { DuckDBConnection } from "@duckdb/node-api";
import { describe, expect, test } from "vitest";
import { integer, type Members, text } from "../../../schemas/shapes.ts";
import { jsonOfRow } from "../../../snapshots/sources/contract/file-column.ts";
import { marketsTable } from "../../../snapshots/sources/contract/source-tables.ts";
import { readParquet } from "../../../snapshots/sources/duckdb/duckdb.ts";
import { contractDigest, digestKind, rowDigest } from "../../../snapshots/sources/duckdb/markets.ts";
import { groupFiles } from "../../../snapshots/sources/files/file-groups.ts";
import type { Sources } from "../../../snapshots/sources/sources.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { withDuckDb } from "../../helpers/archive/sql.ts";
import {
  loadSample,
  publishCounted,
  publishTime,
  writeTables,
} from "../../helpers/publish/editable-sources.ts";
import { countingStorage, memoryStorage } from "../../helpers/store/storages.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";
import { faultsOf } from "../../helpers/store/verified.ts";

const folder = testFolder();
let places = 0;

/** Digests and records of rows that may share an id, which sources as a whole may not. */
async function digestsByRecord(sql: DuckDBConnection, query: string) {
  places += 1;
  const queries = { markets: query, scores: "FROM one LIMIT 0" };
  const path = join(await writeTables(sql, join(folder, `rows-${places}`), queries), "markets.parquet");
  const [group] = await groupFiles(sql, marketsTable(publishTime), [{ path, name: path, fingerprint: "" }]);
  const columns = `${rowDigest(group!)}, ${jsonOfRow(group!.fields)}`;
  const result = await sql.runAndReadAll(`SELECT ${columns} FROM ${readParquet(group!)}`);
  return result.getRows().map(([digest, json]) => ({ digest: digest as bigint, json: json as string }));
}

/** A table `one` with one market of a sample. */
async function loadOne(sql: DuckDBConnection): Promise<void> {
  await loadSample(sql, folder, { markets: 5, protocols: 2 });
  await sql.run("CREATE TABLE one AS FROM markets LIMIT 1");
}

/** A market whose third dimension has these parts; the others hold what they held. */
const withParts = (
  parts: Record<string, string>,
) => `SELECT * REPLACE (list_transform(dimensions, lambda d, i:
  struct_pack(key := d.key, name := ${parts.name ?? "d.name"}, score := d.score, weight := ${parts.weight ?? "d.weight"},
    description := ${parts.description ?? "d.description"}, evidence := ${parts.evidence ?? "d.evidence"},
    "references" := ${parts.references ?? "[]::VARCHAR[]"},
    computation := struct_pack(baseline := ${parts.baseline ?? "d.computation.baseline"},
      raises := ${parts.raises ?? "[]::VARCHAR[]"}, lowers := ${parts.lowers ?? "[]::VARCHAR[]"})))
  AS dimensions) FROM one`;
const item = (label: string, pattern = "p") => `{'type': 't', 'label': '${label}', 'pattern': '${pattern}',
  'reference': {'label': 'l', 'url': 'https://example.org/', 'kind': 'k'}}`;

/** A query by a side of a line below: other columns, or parts of dimensions. {a} and {a/b} are evidence. */
function queryOf(text: string): string {
  if (text === "FROM one" || text.startsWith("SELECT")) return text.replace(/^SELECT.*/, "$& FROM one");
  const sql = text.replaceAll(/\{(\w)(?:\/(\w))?\}/g, (_, label, pattern) => item(label, pattern));
  const parts = Object.fromEntries(
    sql.split("; ").map((part) => [part.slice(0, part.indexOf(" ")), part.slice(part.indexOf(" ") + 1)]),
  );
  const { evidence3 = "[]", evidence4 = "[]" } = parts;
  const evidence = `CASE i WHEN 3 THEN ${evidence3} WHEN 4 THEN ${evidence4} ELSE d.evidence[:0] END`;
  return withParts(sql.includes("evidence") ? { evidence } : parts);
}

/** Rows of equal columns whose records differ, in ways that hashing the parts one after the other might not see. */
const pairs = `
evidence3 [{a/b}] <> evidence3 [{b/a}]
raises [['a', 'b']] <> raises [['a'], ['b']]
raises [[]]::VARCHAR[][] <> raises []::VARCHAR[][]
raises [[]]::VARCHAR[][] <> raises [NULL]::VARCHAR[][]
raises ['a","b'] <> raises ['a', 'b']
evidence3 [{a}]; evidence4 [{b}] <> evidence3 [{a}, {b}]
references [['a', 'b']] <> references [['a'], ['b']]
lowers [['a', 'b']] <> lowers [['a'], ['b']]
raises ['a'] <> lowers ['a']
lowers ['a'] <> references ['a']
raises [{'a': 1, 'b': 2}] <> raises [{'b': 1, 'a': 2}]
raises [{'a': 1, 'b': 1}] <> raises [{'b': 1, 'a': 1}]
raises [1] <> raises ['1']
raises ['{"a":1}'::JSON] <> raises ['{"a":1}']
baseline 0::DOUBLE <> baseline -(0::DOUBLE)
baseline 0.1::DOUBLE + 0.2::DOUBLE <> baseline 0.3::DOUBLE
weight 0::DOUBLE <> weight -(0::DOUBLE)
description 'a' <> description 'a' || chr(9)
description 'a' <> description 'a '
description '\u00E9' <> description 'e\u0301'
name d.name <> name d.description; description d.name
FROM one <> SELECT * REPLACE (question AS slug, slug AS question)
FROM one <> SELECT * REPLACE (list_reverse(dimensions) AS dimensions)
FROM one <> SELECT * REPLACE (resolved_at + INTERVAL 1 MILLISECOND AS resolved_at)
SELECT * REPLACE ('a' AS formula_version, 'b' AS weight_version) <> \
SELECT * REPLACE ('b' AS formula_version, 'a' AS weight_version)
SELECT * REPLACE ('ab' AS formula_version, 'c' AS weight_version) <> \
SELECT * REPLACE ('a' AS formula_version, 'bc' AS weight_version)`;

describe("the digest of a row", () => {
  test("differs with every one of these", async () => {
    await withDuckDb(folder, async (sql) => {
      await loadOne(sql);
      for (const pair of pairs.trim().split("\n")) {
        const [one, other] = pair.split(" <> ");
        const [a] = await digestsByRecord(sql, queryOf(one!));
        const [b] = await digestsByRecord(sql, queryOf(other!));
        expect(a!.json, pair).not.toBe(b!.json);
        expect(a!.digest, pair).not.toBe(b!.digest);
      }
    });
  });
});

test("rows that are as they were are not rendered again, whatever became of others", async () => {
  const storage = memoryStorage(new Map());
  const sources = join(folder, "edited");
  const isAmongFirst = (count: number) => `id IN (SELECT id FROM markets ORDER BY id LIMIT ${count})`;
  await withDuckDb(folder, async (sql) => {
    await loadSample(sql, folder, { markets: 200, protocols: 3 });
    await publishCounted(await writeTables(sql, sources), storage, folder);
    for (const [edit, known, rendered] of [
      [`UPDATE markets SET question = 'Really?' WHERE ${isAmongFirst(5)}`, 195, 5],
      ["DELETE FROM markets WHERE question = 'Really?'", 195, 0],
      [`UPDATE markets SET resolved_at = resolved_at - INTERVAL 30 DAY WHERE ${isAmongFirst(6)}`, 189, 6],
    ] as const) {
      await sql.run(edit);
      const run = await publishCounted(await writeTables(sql, sources), storage, folder);
      expect(run, edit).toMatchObject({ known, rendered, report: { outcome: "published" } });
    }
  });
});

describe("digests of another kind", () => {
  test("are those under another contract, since what unread files gave would not keep it", async () => {
    const table = marketsTable(new Date(0));
    const kind = await withDuckDb(folder, digestKind);
    expect(kind).toMatch(new RegExp(`^duckdb-v\\d+\\.\\d+\\.\\d+-\\d+-${contractDigest(table)}$`));
    const { members } = table;
    const all = Object.entries(members);
    const contracts: Members[] = [
      { ...members, added: text },
      Object.fromEntries(all.toReversed()),
      Object.fromEntries(all.map(([name, shape]) => [name === "slug" ? "other" : name, shape])),
      { ...members, composite: integer({ min: 300, max: 1001 }) },
      { ...members, slug: text },
      { ...members, category: { ...text, pattern: /^.{9}$/, rule: "must be short" } },
      { ...members, category: { ...text, pattern: /^.{8}$/, rule: "must be short" } },
    ];
    const digests = [...contracts, members].map((members) => contractDigest({ ...table, members }));
    expect(new Set(digests).size).toBe(digests.length);
    expect(digests.at(-1)).toBe(contractDigest(marketsTable(new Date(0))));
  });

  test("tell nothing: everything is rendered again, and equal content makes no commit", async () => {
    const storage = memoryStorage(new Map());
    const sources = join(folder, "sources");
    await withDuckDb(folder, async (sql) => {
      await loadSample(sql, folder, { markets: 200, protocols: 3 });
      await writeTables(sql, sources);
      const change = (opened: Sources) => ({ ...opened, rowDigests: "duckdb-v0-0" });
      await publishCounted(sources, storage, folder, { change });
      const counting = countingStorage(storage);
      const again = await publishCounted(sources, counting, folder);
      expect(again).toMatchObject({ rendered: 200, known: 0, report: { outcome: "unchanged", commit: 1 } });
      expect(again.report.uploaded).toEqual({ objects: 0, bytes: 0 });
      expect(counting.written()).toEqual([layout.checked]);
      // With a change there is a commit, and its digests are of the new kind.
      await sql.run("UPDATE markets SET question = 'Really?' WHERE id = (SELECT min(id) FROM markets)");
      await writeTables(sql, sources);
      const changed = await publishCounted(sources, storage, folder);
      expect(changed).toMatchObject({ rendered: 200, report: { outcome: "published", commit: 2 } });
      const settled = await publishCounted(sources, storage, folder);
      expect(settled).toMatchObject({ known: 200, report: { outcome: "unchanged", commit: 2 } });
      expect(await faultsOf(storage)).toEqual([]);
    });
  });
});
