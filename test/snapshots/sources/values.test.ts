import { readFileSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { beforeAll, expect, test } from "vitest";
import { protocolDimensionKeys } from "../../../schemas/protocol.ts";
import { HistoricalMarket, ProtocolScore } from "../../../schemas/records.ts";
import { exitCodeOf, exitCodes } from "../../../scripts/cli.ts";
import {
  contractJsonSchema,
  contractMarkdown,
  contractSql,
} from "../../../snapshots/sources/contract/describe-contract.ts";
import { quoted } from "../../../snapshots/sources/duckdb/sql-literals.ts";
import type { Refusal } from "../../../snapshots/sources/sources.ts";
import { publishSources } from "../../helpers/publish/sample-sources.ts";
import {
  checkedRefusals,
  readAll,
  refusalsOf,
  refusedBy,
  type SourceContent,
  sourceFixtures,
} from "../../helpers/publish/sources.ts";
import { countingStorage, memoryStorage } from "../../helpers/store/storages.ts";

const fixtures = sourceFixtures();

type Source = "markets" | "protocol_scores";

/** A row of values.txt. */
interface Row {
  /** The row as it is written. */
  text: string;
  /** The column or member that is replaced. */
  path: string;
  sql: string;
  /** What a refusal shows, and its rule; patterns are between slashes. */
  shown: string;
  rule: string;
  /** For a value of any type, the place within it. */
  inside: string;
  /** What is published, where it is not refused. */
  published: string | undefined;
}

const whole = readFileSync(new URL("values.txt", import.meta.url), "utf8").replace(/^(#.*)?\n/gm, "");
const rules = new Map([...whole.matchAll(/^: (\w+) \| (.*)$/gm)].map(([, name, rule]) => [name!, rule!]));
/** A text with what its {names} stand for. */
const spelled = (text: string): string =>
  text.replace(/\{(\w+)\}/g, (written, name) => (rules.has(name) ? spelled(rules.get(name)!) : written));
/** By kind: what a section is about, and its lines. */
const sections = Map.groupBy(
  whole
    .split(/^> /m)
    .slice(1)
    .map((section) => {
      const [head = "", ...lines] = section.trimEnd().split("\n");
      const [, kind = "", title = ""] = /^(\w+)(?: of|:)? ?(.*)$/.exec(head)!;
      const source: Source = title.startsWith("protocol_scores") ? "protocol_scores" : "markets";
      return { kind, title, source, lines };
    }),
  ({ kind }) => kind,
);

function anyRow(text: string): Row {
  const [sql = "", published] = text.split(" => ");
  const [value = "", refused = ""] = sql.split(" -> ");
  const [shown = "", rule = "", inside = ""] = refused.split(" | ");
  return { text, path: "dimensions[2].references[0]", sql: value, shown, rule, inside, published };
}

function rowsOf(text: string): Row[] {
  const [paths = ""] = text.split(" = ");
  const all = paths.replace(
    "dimensions.*",
    protocolDimensionKeys.map((key) => `dimensions.${key}`).join(" "),
  );
  const row = anyRow(text.slice(paths.length + 3));
  return all.split(" ").map((path) => ({ ...row, text, path }));
}

const expected = (text: string) =>
  /^\/.+\/$/.test(text) ? expect.stringMatching(new RegExp(text.slice(1, -1), "u")) : text;
/** What is to be published. */
const publishedOf = (text: string) => (text.startsWith("/") ? expected(text) : JSON.parse(text));
const ruleOf = ({ rule }: Row) => expected(rules.get(rule) ?? rule);
const partsOf = (path: string) => path.match(/\[\d*\]|\w+/g)!;

const evidence = `{'type': 'a', 'label': 'b', 'pattern': 'c', 'reference': {'label': 'd', 'url': 'https://example.org',
  'kind': 'e'}}`;

/** SQL for a value with another one at a place within it. */
function placed(outer: string, [part, ...within]: string[], sql: string): string {
  if (part === undefined) return sql;
  if (part === "[]" && within.length === 0) return `[${sql}]`;
  if (part === "[]") return `list_transform(${outer}, lambda d: ${placed("d", within, sql)})`;
  if (part === "[0]") return `[${placed(evidence, within, sql)}]`;
  if (part.startsWith("["))
    return `list_transform(${outer}, lambda d, i: CASE WHEN i = ${Number(part.slice(1, -1)) + 1}
      THEN ${placed("d", within, sql)} ELSE d END)`;
  const inner = outer.startsWith("{") ? `(${outer}).${part}` : `${outer}."${part}"`;
  return `struct_update(${outer}, "${part}" := ${placed(inner, within, sql)})`;
}

/** What a record has at a place. */
const valueAt = (json: string, path: string): unknown =>
  partsOf(path)
    .map((part) => part.replace(/[[\]]/g, "").replace(/_(\w)/g, (_, letter) => letter.toUpperCase()))
    .reduce((value, name) => value[name], JSON.parse(json));

const numberOf = ({ row }: Refusal) => Number(/^row (\d+)/.exec(row ?? "")?.[1]);
const byNumber = (a: Refusal, b: Refusal) => numberOf(a) - numberOf(b);
const byColumn = (...[a, b]: Pick<Refusal, "file" | "column">[]) =>
  `${a!.file} ${a!.column}` < `${b!.file} ${b!.column}` ? -1 : 1;

let names: Record<Source, string[]>;
beforeAll(async () => {
  const namesOf = async (column: string, table: string) =>
    (await fixtures.rows(`SELECT ${column} FROM ${table} ORDER BY n`)).map(([name]) => String(name));
  names = { markets: await namesOf("id", "markets"), protocol_scores: await namesOf("slug", "scores") };
});

const tables = { markets: "markets", protocol_scores: "scores" };

/** Sources in which the value of each row stands in a row of its own, the n-th in row n. */
async function withValues(source: Source, rows: readonly Row[], table = tables[source]): Promise<string> {
  expect(rows.length).toBeLessThanOrEqual(names[source].length);
  const changes = Map.groupBy(rows.entries(), ([, { path }]) => partsOf(path)[0]!);
  const columns = [...changes].map(([column, all]) => {
    const cases = all.map(([n, { path, sql }]) => {
      const [, ...within] = partsOf(path);
      return `WHEN n = ${n} THEN ${placed(column, within, sql)}`;
    });
    return `CASE ${cases.join(" ")} ELSE ${column} END AS ${column}`;
  });
  return fixtures.write({ [source]: `SELECT * REPLACE (${columns.join(", ")}) FROM ${table} ORDER BY n` });
}

/** A query for rows that have these values, whose types differ from what they should be. */
function withTypes(source: Source, rows: readonly Row[]): string {
  const columns = rows.map(({ path, sql }) => {
    const [column = "", ...within] = partsOf(path);
    return `${placed(column, within, sql)} AS ${column}`;
  });
  return `SELECT * REPLACE (${columns.join(", ")}) FROM ${tables[source]}`;
}

/** A validator of the contract as JSON Schema 2020-12. It comes with what checks the description of the API. */
function validator(): (value: unknown, part?: string) => boolean {
  const ofRedocly = createRequire(fileURLToPath(import.meta.resolve("@redocly/openapi-core")));
  const Ajv2020 = ofRedocly("@redocly/ajv/dist/2020.js").default;
  const ajv = new Ajv2020({ strict: true, strictRequired: false, validateFormats: false });
  const schema = contractJsonSchema();
  expect(ajv.validateSchema(schema), JSON.stringify(ajv.errors)).toBe(true);
  ajv.addSchema(schema, "contract");
  return (value, part = "") => ajv.validate(`contract${part}`, value);
}
const isValid = validator();

/** The rows of a source as JSON that the contract allows. */
async function jsonRows(source: Source, directory: string): Promise<object[]> {
  const time = source === "markets" ? "resolved_at" : "updated_at";
  const rows = await fixtures.rows(`SELECT to_json(row)::VARCHAR FROM (SELECT *
    REPLACE (strftime(${time}, '%Y-%m-%dT%H:%M:%S.%gZ') AS ${time})
    FROM read_parquet(${quoted(join(directory, `${source}.parquet`))})) row`);
  return rows.map(([text]) => JSON.parse(String(text).replace(/:(NaN|-?Infinity)\b/gi, ":null")));
}

const isSound = (source: Source, row: object) => isValid(row, `#/$defs/${source}`);

/** Rules of which readers know nothing: they came later than records that break them, or bound what is read. */
const onlySources = /^(early|late|control)$|characters$/;
const recordOf = { markets: HistoricalMarket, protocol_scores: ProtocolScore };
/** Whether a row would be a record as readers take it. */
const isRecord = (source: Source, row: object) => {
  const name = (_: string, letter: string) => letter.toUpperCase();
  const text = JSON.stringify(row).replace(/"\w+":/g, (member) => member.replace(/_(\w)/g, name));
  return recordOf[source].safeParse(JSON.parse(text)).success;
};

/** What a schema cannot say: a time that depends on the run, and lengths in bytes. */
const beyondSchema = ({ rule, sql }: Row) => rule === "late" || (rule === "label" && /[^ -~]/.test(sql));

test("the contract as JSON Schema takes sound rows, with more columns and with no fewer", async () => {
  const directory = await fixtures.write({});
  const markets = await jsonRows("markets", directory);
  const scores = await jsonRows("protocol_scores", directory);
  expect(isValid({ markets, protocol_scores: scores })).toBe(true);
  expect(isValid({ markets: [], protocol_scores: scores })).toBe(false);
  expect(isValid({ markets, protocol_scores: markets })).toBe(false);
  expect(isSound("markets", { ...markets[0], other: "is ignored" })).toBe(true);
  for (const name of Object.keys(markets[0]!))
    expect([name, isSound("markets", { ...markets[0], [name]: undefined })]).toEqual([name, false]);
});

// That its SQL makes tables which take sound rows is seen in test/scripts/sessions/scripts.txt.
test("the contract in Markdown has a row for every column and member", () => {
  const text = contractMarkdown();
  const paths = [...text.matchAll(/^\| `([^`]+)` \| [A-Z]+ \|/gm)].map(([, path]) => path);
  expect(paths).toEqual(expect.arrayContaining(["id", "dimensions[].evidence[].reference.url"]));
  expect(paths).toEqual(expect.arrayContaining(["metadata.z_factor", "dimensions.cascade_exposure"]));
  expect(new Set(text.match(/^## .*/gm))).toEqual(new Set(["## markets", "## protocol_scores"]));
  const meaning = "Composite score of a market, from 300 to 1,000";
  expect(text).toContain(`| \`composite\` | INTEGER | must be from 300 to 1000 | ${meaning}`);
  expect(JSON.stringify(contractJsonSchema())).toContain(`"description":"${meaning}`);
  expect(text).toContain("`id` must not be the id of two markets");
  for (const contract of [text, contractSql(), JSON.stringify(contractJsonSchema())])
    expect(contract).toContain("no control characters except tab, LF and CR, and no Unicode tags");
});

test.for(sections.get("values")!)("values of $title: refused", async ({ source, lines }) => {
  const rows = lines.flatMap(rowsOf);
  const directory = await withValues(source, rows);
  const refusals = await refusalsOf(directory);
  const key = source === "markets" ? "id" : "slug";
  expect(refusals.toSorted(byNumber)).toEqual(
    rows.map((row, n) => ({
      file: `${source}.parquet`,
      row: row.path === key ? expect.stringMatching(`^row ${n} \\(`) : `row ${n} (${names[source][n]})`,
      column: row.path,
      value: expected(row.shown),
      rule: ruleOf(row),
    })),
  );
  const all = await jsonRows(source, directory);
  const verdicts = all.map((row) => isSound(source, row));
  for (const [n, row] of rows.entries()) {
    if (!beyondSchema(row)) expect([row.path, row.sql, verdicts[n]]).toEqual([row.path, row.sql, false]);
    if (!onlySources.test(row.rule))
      expect([row.path, row.sql, isRecord(source, all[n]!)]).toEqual([row.path, row.sql, false]);
  }
  expect(verdicts.slice(rows.length)).not.toContain(false);
});

/** In groups without two rows of one column, for each of which sources are written. */
function grouped(rows: readonly Row[]): Row[][] {
  const groups: Row[][] = [];
  for (const row of rows) {
    const column = partsOf(row.path)[0];
    const free = groups.find((group) => group.every(({ path }) => partsOf(path)[0] !== column));
    if (free) free.push(row);
    else groups.push([row]);
  }
  return groups;
}

test.for(sections.get("types")!)("types of $title: refused", async ({ source, lines }) => {
  const groups = grouped(lines.flatMap(rowsOf)).map((rows, n) => ({ rows, file: `${source}/${n}` }));
  const files = groups.map(({ rows, file }) => [file, withTypes(source, rows)]);
  const refusals = await refusalsOf(await fixtures.write(Object.fromEntries(files)));
  const wanted = groups.flatMap(({ rows, file }) =>
    rows.map((row) => ({
      file: `${file}.parquet`,
      column: row.path,
      value: expected(row.shown),
      rule: ruleOf(row),
    })),
  );
  expect(refusals.toSorted(byColumn)).toEqual(wanted.toSorted(byColumn));
});

test.for(sections.get("published")!)("values of $title: published", async ({ source, lines }) => {
  const rows = lines.flatMap(rowsOf);
  // A score for each protocol.
  const ofMany = "(SELECT * REPLACE (concat('p', n) AS slug) FROM scores)";
  const directory = await withValues(source, rows, source === "markets" ? undefined : ofMany);
  for (const row of await jsonRows(source, directory))
    expect([row, isSound(source, row)]).toEqual([row, true]);
  const { markets, scores } = await readAll(directory);
  const found = source === "markets" ? markets : scores.map(({ json, entry }) => ({ id: entry.slug, json }));
  for (const [n, { text, path, published }] of rows.entries()) {
    const own = source === "markets" ? names.markets[n] : `p${n}`;
    const id = path === "slug" && source === "protocol_scores" ? JSON.parse(published!) : own;
    const { json } = found.find((one) => one.id === id)!;
    expect([text, valueAt(json, path)]).toEqual([text, publishedOf(published!)]);
    recordOf[source].parse(JSON.parse(json));
  }
});

/** A query for rows in which these values, which are of one type, stand where any is allowed, each in its row. */
const withAny = (rows: readonly (readonly [number, Row])[]) => {
  const cases = rows.map(([n, { sql }]) => `WHEN n = ${n} AND i = 3 THEN [${sql}]`).join(" ");
  const list = `CASE ${cases} ELSE [] END`;
  return `SELECT * REPLACE (list_transform(dimensions, lambda d, i: struct_update(d, "references" := ${list},
    computation := struct_update(d.computation, raises := ${rows[0]![1].published ? list : "[]"}))) AS dimensions)
    FROM markets WHERE n IN (${rows.map(([n]) => n)}) ORDER BY n`;
};

test.for([
  ["refused with its place", false],
  ["published as it is", true],
] as const)("any value is %s, or the other", async ([, published]) => {
  const all = sections.get("any")!.flatMap(({ lines }) => lines.map(anyRow));
  const rows = all.filter((row) => (row.published !== undefined) === published);
  const [types = []] = await fixtures.rows(`SELECT ${rows.map(({ sql }) => `typeof(${sql})`).join(", ")}`);
  const groups = [...Map.groupBy(rows.entries(), ([n]) => types[n]).values()];
  const files = groups.map((group, n) => [`markets/${n}`, withAny(group)]);
  const directory = await fixtures.write(Object.fromEntries(files));
  if (!published) {
    const refusals = await refusalsOf(directory);
    // What is too large is so for its column, too.
    const inside = refusals.filter(({ column }) => column !== "dimensions");
    const wanted = groups.flatMap((group, file) =>
      group.map(([n, row], place) => ({
        file: `markets/${file}.parquet`,
        row: `row ${place} (${names.markets[n]})`,
        column: `${row.path}${row.inside}`,
        value: expected(row.shown),
        rule: ruleOf(row),
      })),
    );
    const byRow = (...[a, b]: Pick<Refusal, "row">[]) => (a!.row! < b!.row! ? -1 : 1);
    expect(inside.toSorted(byRow)).toEqual(wanted.toSorted(byRow));
    return;
  }
  const { markets } = await readAll(directory);
  for (const [n, { text, path, published }] of rows.entries()) {
    const { json } = markets.find(({ id }) => id === names.markets[n])!;
    const [value, found] = [publishedOf(published!), valueAt(json, path)];
    const raised = valueAt(json, "dimensions[2].computation.raises[0]");
    expect([text, found, raised]).toEqual([text, value, value]);
  }
});

const store = new Map<string, Buffer>();
beforeAll(async () => {
  await publishSources(await fixtures.write({}), memoryStorage(store), fixtures.folder);
});

/** The lines of a refusal; names between parentheses are of a line each. */
const linesOf = (text: string) => {
  const [, before = "", names, after = ""] = /^- (.*column .*?)\(([a-z_. ]+)\)(: .*)$/.exec(text) ?? [];
  return names ? names.split(" ").map((name) => before + name + after) : [text.slice(2)];
};

/** Sources of queries by file. `bytes` in their files take the place of others, as DuckDB would not write them. */
async function writeLines(lines: readonly string[]): Promise<string> {
  const all = lines.map((line) => /^(bytes )?(.+?) = (.*)$/.exec(spelled(line))!.slice(1));
  const [bytes = [], queries = []] = [true, false].map((wanted) => all.filter(([is]) => !!is === wanted));
  const files = Object.fromEntries(queries.map(([, name, query]) => [name, query!]));
  const { options = bytes.length > 0 ? "COMPRESSION uncompressed" : "", ...own } = files;
  const directory = await fixtures.write(own, options && `, ${options}`);
  for (const name of bytes.length > 0 ? Object.keys(own) : []) {
    const path = join(directory, `${name}.parquet`);
    let content = await readFile(path, "latin1");
    for (const [, from, to] of bytes) content = content.replaceAll(from!, JSON.parse(`"${to}"`));
    await writeFile(path, content, "latin1");
  }
  return directory;
}

/** The lines of a section that tell what is said, and the others. */
const toldIn = (lines: readonly string[]) =>
  [true, false].map((told) => lines.filter((line) => line.startsWith("- ") === told)) as [string[], string[]];

test.for(sections.get("files")!)("files are refused, and nothing is written: $title", async ({ lines }) => {
  const [refused, queries] = toldIn(lines);
  const directory = await writeLines(queries);
  const storage = countingStorage(memoryStorage(store));
  const error = await refusedBy(publishSources(directory, storage, fixtures.folder));
  const told = error.message.replace(/[0-9a-f]{8}-[0-9a-f-]{27}/g, "ID").split("\n");
  expect(told).toEqual(refused.flatMap(linesOf));
  expect(exitCodeOf(error)).toBe(exitCodes.refused);
  expect(storage.written()).toEqual([]);
  expect(await checkedRefusals(directory)).toEqual(expect.arrayContaining([...error.refusals]));
});

let plain: SourceContent;
beforeAll(async () => {
  plain = await readAll(await fixtures.write({}));
});

// That what is read are the rows which another Parquet reader finds is seen where they are served: walks.test.ts.
test.for(sections.get("same")!)("files give what plain ones give: $title", async ({ lines }) => {
  const [warnings, queries] = toldIn(lines);
  const told = warnings.map((line) => line.slice(2));
  expect(await readAll(await writeLines(queries))).toEqual({ ...plain, warnings: told });
});

const points = [0, 7, 8, 11, 12, 14, 27, 31, 127, 128, 133, 155, 159, 0xe0000, 0xe0041, 0xe007f];
test("each control character and Unicode tag is refused", async () => {
  const rows = points.flatMap((point) => rowsOf(`question = concat('a', chr(${point})) -> /^"a./ | control`));
  const refusals = await refusalsOf(await withValues("markets", rows));
  expect(refusals.map(({ rule }) => rule)).toEqual(points.map(() => rules.get("control")));
  expect(refusals.map(numberOf).sort((a, b) => a - b)).toEqual([...points.keys()]);
});
