import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { integer, type Members, text } from "../../../schemas/shapes.ts";
import { jsonOfRow } from "../../../snapshots/sources/contract/file-column.ts";
import { marketsTable } from "../../../snapshots/sources/contract/source-tables.ts";
import { readParquet } from "../../../snapshots/sources/duckdb/duckdb.ts";
import { contractDigest, digestKind, rowDigest } from "../../../snapshots/sources/duckdb/markets.ts";
import { groupFiles } from "../../../snapshots/sources/files/file-groups.ts";
import type { Sources } from "../../../snapshots/sources/sources.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import { publishSources, publishTime, type RunChoices } from "../../helpers/publish/sample-sources.ts";
import { sourceFixtures } from "../../helpers/publish/sources.ts";
import { countingStorage, memoryStorage } from "../../helpers/store/storages.ts";
import { faultsOf } from "../../helpers/store/verified.ts";

const fixtures = sourceFixtures();
const { folder } = fixtures;

/** Digests and records of rows that may share an id, which sources as a whole may not. */
async function digestsByRecord(query: string) {
  const path = join(await fixtures.write({ markets: query }), "markets.parquet");
  const files = [{ path, name: path, fingerprint: "" }];
  const [group] = await groupFiles(fixtures.sql, marketsTable(publishTime), files);
  const columns = `${rowDigest(group!)}, ${jsonOfRow(group!.fields)}`;
  const result = await fixtures.sql.runAndReadAll(`SELECT ${columns} FROM ${readParquet(group!)}`);
  return result.getRows().map(([digest, json]) => ({ digest: digest as bigint, json: json as string }));
}

const one = "FROM markets WHERE n = 0";

/** A market whose third dimension has these parts; the others hold what they held. */
const withParts = (
  parts: Record<string, string>,
) => `SELECT * REPLACE (list_transform(dimensions, lambda d, i:
  struct_pack(key := d.key, name := ${parts.name ?? "d.name"}, score := d.score, weight := ${parts.weight ?? "d.weight"},
    description := ${parts.description ?? "d.description"}, evidence := ${parts.evidence ?? "d.evidence"},
    "references" := ${parts.references ?? "[]::VARCHAR[]"},
    computation := struct_pack(baseline := ${parts.baseline ?? "d.computation.baseline"},
      raises := ${parts.raises ?? "[]::VARCHAR[]"}, lowers := ${parts.lowers ?? "[]::VARCHAR[]"})))
  AS dimensions) ${one}`;
const item = (label: string, pattern = "p") => `{'type': 't', 'label': '${label}', 'pattern': '${pattern}',
  'reference': {'label': 'l', 'url': 'https://example.org/', 'kind': 'k'}}`;

/** A query by a side of a line below: other columns, or parts of dimensions. {a} and {a/b} are evidence. */
function queryOf(text: string): string {
  if (/^SELECT/.test(text)) return `${text} ${one}`;
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
SELECT * <> SELECT * REPLACE (question AS slug, slug AS question)
SELECT * <> SELECT * REPLACE (list_reverse(dimensions) AS dimensions)
SELECT * <> SELECT * REPLACE (resolved_at + INTERVAL 1 MILLISECOND AS resolved_at)
SELECT * REPLACE ('a' AS formula_version, 'b' AS weight_version) <> \
SELECT * REPLACE ('b' AS formula_version, 'a' AS weight_version)
SELECT * REPLACE ('ab' AS formula_version, 'c' AS weight_version) <> \
SELECT * REPLACE ('a' AS formula_version, 'bc' AS weight_version)`;

test.for(pairs.trim().split("\n"))("the digest of a row differs: %s", async (pair) => {
  const [first, other] = pair.split(" <> ");
  const [a] = await digestsByRecord(queryOf(first!));
  const [b] = await digestsByRecord(queryOf(other!));
  expect(a!.json).not.toBe(b!.json);
  expect(a!.digest).not.toBe(b!.digest);
});

const publishRows = async (storage: Storage, markets: string, choices: RunChoices = {}) =>
  publishSources(await fixtures.write({ markets }), storage, folder, choices);
const asked = (count: number) =>
  `SELECT * REPLACE (CASE WHEN n < ${count} THEN 'Really?' ELSE question END AS question) FROM markets`;

test("rows that are as they were are not rendered again, whatever became of others", async () => {
  const storage = memoryStorage(new Map());
  await publishRows(storage, "FROM markets");
  const early = "resolved_at - INTERVAL (CASE WHEN n < 11 THEN 30 ELSE 0 END) DAY AS resolved_at";
  for (const [markets, known, rendered] of [
    [asked(5), 35, 5],
    ["FROM markets WHERE n >= 5", 35, 0],
    [`SELECT * REPLACE (${early}) FROM markets WHERE n >= 5`, 29, 6],
  ] as const)
    expect(await publishRows(storage, markets)).toMatchObject({ known, rendered, outcome: "published" });
});

describe("digests of another kind", () => {
  test("are those under another contract, since what unread files gave would not keep it", async () => {
    const table = marketsTable(new Date(0));
    const kind = await digestKind(fixtures.sql);
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
    const change = (opened: Sources) => ({ ...opened, rowDigests: "duckdb-v0-0" });
    await publishRows(storage, "FROM markets", { change });
    const counting = countingStorage(storage);
    expect(await publishRows(counting, "FROM markets")).toMatchObject({
      ...{ rendered: 40, known: 0, outcome: "unchanged", commit: 1 },
      uploaded: { objects: 0, bytes: 0 },
    });
    expect(counting.written()).toEqual([layout.checked]);
    // With a change there is a commit, and its digests are of the new kind.
    expect(await publishRows(storage, asked(1))).toMatchObject({ rendered: 40, commit: 2 });
    expect(await publishRows(storage, asked(1))).toMatchObject({
      known: 40,
      outcome: "unchanged",
      commit: 2,
    });
    expect(await faultsOf(storage)).toEqual([]);
  });
});
