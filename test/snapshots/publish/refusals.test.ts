import { appendFileSync } from "node:fs";
import { readFile, rm, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { exitCodeOf, exitCodes } from "../../../scripts/cli.ts";
import { SourceRefusal } from "../../../snapshots/sources/contract/refusals.ts";
import { directoryStorage } from "../../../snapshots/store/directory.ts";
import {
  replaced,
  replacedDimension,
  replacedDimensions,
  type SourceFiles,
  sourceFixtures,
} from "../../helpers/publish/sources.ts";
import { countingStorage } from "../../helpers/store/archive-storage.ts";
import { contentOf, publishSources, testFolder } from "../../helpers/store/archive-store.ts";

const folder = testFolder();
const storage = directoryStorage(join(folder, "store"));
const fixtures = sourceFixtures();
let published: Record<string, string>;

beforeAll(async () => {
  await publishSources(await fixtures.write({}), storage, folder);
  published = await contentOf(storage);
});

const markets = (query: string): SourceFiles => ({ markets: query });
const scores = (query: string): SourceFiles => ({ protocol_scores: query });
const market = (column: string, value: string) => markets(replaced("markets", column, value));
const score = (column: string, value: string) => scores(replaced("scores", column, value));
const dimension = (value: string) => markets(replacedDimension(value));
const everyDimension = (value: string) => markets(replacedDimensions(value));
const computation = (baseline: string) =>
  `struct_update(d, computation := struct_update(d.computation, baseline := ${baseline}))`;

type Damage = (directory: string) => Promise<unknown>;
const marketsFile = (directory: string) => join(directory, "markets.parquet");

async function breakUtf8(directory: string): Promise<void> {
  const bytes = await readFile(marketsFile(directory));
  for (let at = bytes.indexOf("ZZ marked"); at >= 0; at = bytes.indexOf("ZZ marked", at)) {
    bytes.set([0xc3, 0x28], at);
  }
  await writeFile(marketsFile(directory), bytes);
}

/** Every rule of the source contract: what breaks it, and the place that the message must name. */
const refusals: [rule: string, files: SourceFiles, place: RegExp, damage?: Damage][] = [
  [
    "a missing column",
    markets("SELECT * EXCLUDE (category) FROM markets"),
    /^markets\.parquet, column category: /,
  ],
  [
    "DOUBLE for an integer",
    markets("SELECT * REPLACE (composite::DOUBLE AS composite) FROM markets"),
    /column composite: DOUBLE/,
  ],
  [
    "DECIMAL for an integer",
    scores("SELECT * REPLACE (bri::DECIMAL(9, 2) AS bri) FROM scores"),
    /column bri: DECIMAL/,
  ],
  [
    "a time without zone",
    markets("SELECT * REPLACE (resolved_at::TIMESTAMP AS resolved_at) FROM markets"),
    /column resolved_at: TIMESTAMP/,
  ],
  [
    "text for a boolean",
    markets("SELECT * REPLACE (disputed::VARCHAR AS disputed) FROM markets"),
    /column disputed: VARCHAR/,
  ],
  [
    "a retyped member of a dimension",
    everyDimension("struct_update(d, score := d.score::FLOAT)"),
    /dimensions.*score: FLOAT/,
  ],
  ["a missing member of a dimension", everyDimension("struct_pack(key := d.key)"), /dimensions/],
  [
    "a truncated file",
    {},
    /^markets\.parquet: .*cannot be read/,
    (directory) => truncate(marketsFile(directory), 5_000),
  ],
  [
    "an empty file",
    {},
    /^markets\.parquet: .*cannot be read/,
    (directory) => truncate(marketsFile(directory), 0),
  ],
  ["a missing source", {}, /^markets\.parquet: is missing/, (directory) => rm(marketsFile(directory))],
  ["no markets", markets("FROM markets WHERE n < 0"), /^markets\.parquet: has no rows/],
  ["no scores", scores("FROM scores WHERE n < 0"), /^protocol_scores\.parquet: has no rows/],
  ["null in a column", market("question", "NULL"), /row 7 \(.{36}\), column question: null/],
  [
    "null in a struct",
    score("cascade", "struct_update(cascade, upstream_deps := NULL)"),
    /row 7 .* column cascade\.upstream_deps: null/,
  ],
  ["null in a list", dimension("NULL"), /row 7 .* column dimensions.*: null/],
  ["NaN", dimension("struct_update(d, weight := 'nan'::DOUBLE)"), /row 7 .* column dimensions.*weight: nan/],
  ["Infinity", dimension(computation("'inf'::DOUBLE")), /row 7 .* column dimensions.*baseline: inf/],
  [
    "Infinity of a score",
    score("metadata", "struct_update(metadata, z_factor := '-inf'::DOUBLE)"),
    /row 7 .* column metadata\.z_factor: -inf/,
  ],
  [
    "an integer beyond 2^53 - 1",
    market("flagged_count", "9007199254740992::BIGINT"),
    /row 7 .* column flagged_count: 9007199254740992/,
  ],
  [
    "a duplicate id",
    { "markets/a": "FROM markets", "markets/b": "FROM markets WHERE n = 7" },
    /^markets\/a\.parquet, row 7 .* column id: .*two markets/,
  ],
  [
    "two scores of one moment",
    scores("FROM scores UNION ALL BY NAME (FROM scores WHERE n = 7)"),
    /^protocol_scores\.parquet, row 7 .* column updated_at/,
  ],
  ["an empty id", market("id", "''"), /row 7 .* column id: ""/],
  ["an id in capitals", market("id", "upper(id)"), /row 7 .* column id: "[0-9A-F-]{36}"/],
  ["an empty slug", market("slug", "''"), /row 7 .* column slug: ""/],
  ["an empty question", market("question", "''"), /row 7 .* column question: ""/],
  ["an empty category", market("category", "''"), /row 7 .* column category: ""/],
  ["an empty outcome", market("resolved_outcome", "''"), /row 7 .* column resolved_outcome: ""/],
  ["another status", market("status", "'open'"), /row 7 .* column status: "open"/],
  ["an unknown tier", market("tier", "'GOLD'"), /row 7 .* column tier: "GOLD"/],
  [
    "a number that is not the tier's",
    score("forge_scale_num", "forge_scale_num % 7 + 1"),
    /row 7 .* column forge_scale_num: /,
  ],
  ["five dimensions", market("dimensions", "dimensions[1:5]"), /row 7 .* column dimensions: /],
  ["a dimension twice", dimension("struct_update(d, key := 'design')"), /row 7 .* column dimensions: /],
  [
    "eleven protocol dimensions",
    scores("SELECT * REPLACE ({'opsec': 1} AS dimensions) FROM scores"),
    /^protocol_scores\.parquet, column dimensions/,
  ],
  [
    "invalid UTF-8",
    market("category", "'ZZ marked'"),
    /^markets\.parquet, column category: .*must be valid UTF-8/,
    breakUtf8,
  ],
  [
    "a URL of another scheme",
    market("resolution_source", "'javascript:alert(1)'"),
    /row 7 .* column resolution_source: "javascript/,
  ],
  [
    "a time before 2000",
    market("resolved_at", "TIMESTAMPTZ '1999-12-31 23:59:59.999+00'"),
    /row 7 .* column resolved_at: 1999/,
  ],
  [
    "a time ahead of the run",
    score("updated_at", "TIMESTAMPTZ '2030-01-01 00:05:00.001+00'"),
    /row 7 .* column updated_at: 2030/,
  ],
  ["bri 1001", score("bri", "1001"), /row 7 .* column bri: 1001/],
  ["confidence 101", score("confidence", "101"), /row 7 .* column confidence: 101/],
  ["delta -1001", score("delta", "-1001"), /row 7 .* column delta: -1001/],
  ["composite 299", market("composite", "299"), /row 7 .* column composite: 299/],
  ["a score of 101", dimension("struct_update(d, score := 101)"), /row 7 .* column dimensions.*score: 101/],
  [
    "a weight above 1",
    dimension("struct_update(d, weight := 1.01::DOUBLE)"),
    /row 7 .* column dimensions.*weight: 1\.01/,
  ],
  ["a negative count", market("flagged_count", "-1"), /row 7 .* column flagged_count: -1/],
  ["a slug out of its alphabet", score("slug", "'a/b'"), /row 7 .* column slug: "a\/b"/],
  ["the reserved slug", score("slug", "'batch'"), /row 7 .* column slug: "batch"/],
];

describe("sources are refused with exit code 3 and the place, and the store stays as it was", () => {
  test.for(refusals)("%s", async ([, files, place, damage]) => {
    const directory = await fixtures.write(files, ", COMPRESSION uncompressed");
    await damage?.(directory);
    await expectRefusal(directory, place);
  });

  test("a file that changes while it is read", async () => {
    const directory = await fixtures.write(
      markets("SELECT * REPLACE (concat(question, '?') AS question) FROM markets"),
    );
    const progress = () => appendFileSync(marketsFile(directory), "x");
    await expectRefusal(directory, /^markets\.parquet: changed while it was read/, { progress });
  });

  test("up to 20 places of each rule are named", async () => {
    const directory = await fixtures.write(
      markets("SELECT * REPLACE (1 AS composite, '' AS slug) FROM markets"),
    );
    const message = await expectRefusal(directory, /column composite: 1,/);
    expect(message.match(/column composite: 1,/g)).toHaveLength(20);
    expect(message.match(/column slug: "",/g)).toHaveLength(20);
  });
});

async function expectRefusal(directory: string, place: RegExp, choices = {}): Promise<string> {
  const counting = countingStorage(storage);
  const error = await publishSources(directory, counting, folder, choices).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(SourceRefusal);
  expect(exitCodeOf(error)).toBe(exitCodes.refused);
  const { message } = error as SourceRefusal;
  expect(message).toMatch(place);
  expect(counting.written()).toEqual([]);
  expect(await contentOf(storage)).toEqual(published);
  return message;
}
