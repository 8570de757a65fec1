import { beforeAll, describe, expect, test } from "vitest";
import {
  readAll,
  replaced,
  replacedDimensions,
  type SourceContent,
  type SourceFiles,
  sourceFixtures,
} from "../../helpers/publish/sources.ts";

const fixtures = sourceFixtures();
let plain: SourceContent;
beforeAll(async () => {
  plain = await readAll(await fixtures.write({}));
});

// That what is read are the rows which another Parquet reader finds is seen where they are served: walks.test.ts.

describe("variations that make no difference", () => {
  const reordered = `{'weight': d.weight, 'computation': {'lowers': d.computation.lowers,
      'baseline': d.computation.baseline, 'raises': d.computation.raises}, 'references': d."references", 'key': d.key,
    'evidence': list_transform(d.evidence, lambda e: {'reference': {'kind': e.reference.kind, 'url': e.reference.url,
      'label': e.reference.label}, 'pattern': e.pattern, 'label': e.label, 'type': e.type}),
    'description': d.description, 'score': d.score::UTINYINT, 'name': d.name}`;
  const half = (query: string, part: string) => `FROM (${query}) WHERE ${part}`;
  const backwards = `SELECT n, dimensions, weight_version, formula_version, flagged_count::UBIGINT AS flagged_count,
    top_risk_driver, disputed, resolution_source, resolved_at, resolved_outcome, status, tier,
    composite::SMALLINT AS composite, category, question, slug, id FROM (${replacedDimensions(reordered)})`;

  const integers = (
    composite: string,
    flagged: string,
  ) => `SELECT * REPLACE (composite::${composite} AS composite,
    flagged_count::${flagged} AS flagged_count) FROM markets`;
  const wide = replacedDimensions("struct_update(d, score := d.score::BIGINT)");
  const scores = `SELECT n, metadata, findings, cascade, dimensions, evidence_hash, updated_at, delta::SMALLINT AS delta,
    confidence::UTINYINT AS confidence, forge_scale_num::BIGINT AS forge_scale_num, forge_scale,
    bri::UBIGINT AS bri, slug FROM scores ORDER BY hash(slug, updated_at)`;
  const older = "SELECT * REPLACE (bri::BIGINT AS bri) FROM scores";

  test.each<[string, SourceFiles]>([
    ["small integers", { markets: integers("SMALLINT", "UTINYINT") }],
    ["large integers", { markets: integers("UBIGINT", "BIGINT") }],
    ["columns and members in another order", { markets: backwards }],
    [
      "files that differ in types and order",
      {
        "markets/a": half(backwards, "n < 13"),
        "markets/b": "FROM markets WHERE n >= 13 AND n < 29",
        "markets/deep/er/c": half(wide, "n >= 29"),
      },
    ],
    [
      "files without rows among others",
      { "markets/a": half("FROM markets", "n < 0"), "markets/b": "FROM markets" },
    ],
    ["rows in another order", { markets: "FROM markets ORDER BY hash(id)" }],
    ["scores of other integers and orders", { protocol_scores: scores }],
    [
      "scores in several files",
      {
        "protocol_scores/new": half("FROM scores", "n % 2 = 0"),
        "protocol_scores/old": half(older, "n % 2 = 1"),
      },
    ],
  ])("%s", async (_, files) => {
    expect(await readAll(await fixtures.write(files))).toEqual(plain);
  });

  test.each(["ROW_GROUP_SIZE 8", "COMPRESSION gzip", "PARQUET_VERSION v2"])("%s", async (option) => {
    expect(await readAll(await fixtures.write({}, `, ${option}`))).toEqual(plain);
  });

  test.each([1, 2, 8])("%i threads", async (threads) => {
    expect(await readAll(await fixtures.write({}), { threads })).toEqual(plain);
  });

  test("extra columns and members, with one warning for each source", async () => {
    const directory = await fixtures.write({
      "markets/a": "SELECT *, 1 AS note, 'x' AS filename, 2 AS file_row_number FROM markets WHERE n < 9",
      "markets/b": `FROM (${replacedDimensions("struct_insert(d, hint := [1])")}) WHERE n >= 9`,
      protocol_scores: "SELECT * REPLACE (struct_insert(cascade, depth := 3) AS cascade) FROM scores",
    });
    const ignored = "ignored columns and members that the contract does not name";
    const warnings = [
      `markets: ${ignored}: dimensions[].hint, file_row_number, filename, note`,
      `protocol_scores: ${ignored}: cascade.depth`,
    ];
    expect(await readAll(directory)).toEqual({ ...plain, warnings });
  });
});

test("dimensions keep their order", async () => {
  const markets = replaced("markets", "dimensions", "list_reverse(dimensions)");
  const keysIn = (content: SourceContent) =>
    content.markets.map(({ json }) => JSON.parse(json).dimensions.map(({ key }: { key: string }) => key));
  const [before, after] = [keysIn(plain), keysIn(await readAll(await fixtures.write({ markets })))];
  const other = after.findIndex(([key]) => key !== before[0]![0]);
  expect(after).toEqual(before.with(other, before[other]!.toReversed()));
});

test("JSON and text in files read together stay what they are", async () => {
  const of = (value: string, part: string) =>
    `FROM (${replacedDimensions(`struct_update(d, "references" := [${value}])`)}) WHERE ${part}`;
  const { markets } = await readAll(
    await fixtures.write({ "markets/a": of("'[1]'::JSON", "n < 20"), "markets/b": of("'[1]'", "n >= 20") }),
  );
  const kinds = markets.map(({ json }) => JSON.stringify(JSON.parse(json).dimensions[0].references));
  expect(kinds.filter((kind) => kind === "[[1]]")).toHaveLength(20);
  expect(kinds.filter((kind) => kind === '["[1]"]')).toHaveLength(20);
});

test("two scores of a protocol may be a millisecond apart", async () => {
  const at = (micros: string) =>
    `SELECT * REPLACE (TIMESTAMPTZ '2025-12-01 00:00:00.${micros}+00' AS updated_at) FROM scores WHERE n = 7`;
  const directory = await fixtures.write({ protocol_scores: `${at("001999")} UNION ALL ${at("002000")}` });
  expect((await readAll(directory)).scores).toHaveLength(1);
});
