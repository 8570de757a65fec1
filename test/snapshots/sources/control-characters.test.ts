import { describe, expect, test } from "vitest";
import {
  expectRefused,
  readAll,
  refusalsOf,
  replaced,
  replacedDimensions,
  sourceFixtures,
} from "../../helpers/publish/sources.ts";

const fixtures = sourceFixtures();

const rule = "must have no control characters except tab, LF and CR, and no Unicode tags";
const points = [0, 7, 8, 11, 12, 14, 27, 31, 127, 128, 133, 155, 159, 0xe0000, 0xe0041, 0xe007f];
const allowed = [9, 10, 13, 32, 126, 160, 0xad, 0x202e, 0x2066, 0x2069, 0xfeff, 0xdffff, 0xe0080, 0xe0100];

test("each of them is refused with its row and column", async () => {
  const texts = points.map((point) => ({
    column: "question",
    value: `concat('a', chr(${point}))`,
    shown: /^"a./u,
    rule,
  }));
  await expectRefused(fixtures, "markets", texts);
});

test("tab, LF, CR and all others are published as they are", async () => {
  const text = allowed.map((point) => `chr(${point})`).join(" || ");
  const { markets } = await readAll(await fixtures.write({ markets: replaced("markets", "question", text) }));
  const question = String.fromCodePoint(...allowed);
  expect(markets.filter(({ json }) => JSON.parse(json).question === question)).toHaveLength(1);
});

describe("within values whose type the source chooses", () => {
  const references = (value: string, otherwise: string) =>
    replacedDimensions(`struct_update(d, "references" := CASE WHEN n = 7 AND d.key = 'oracle'
      THEN ${value} ELSE ${otherwise} END)`);

  test.each([
    ["texts", "['a', chr(27)]", "['a']", ["[1]"]],
    ["texts in structs", "[{'a': [chr(133)]}]", "[{'a': ['b']}]", ["[0].a[0]"]],
    [
      "keys and values of maps",
      "[MAP {'a': '', chr(917536): chr(0)}]",
      "[MAP {'k': 'v'}]",
      ["[0].keys[1]", "[0][1]"],
    ],
    [
      "JSON, however it is written",
      `[concat('["', chr(127), '"]')::JSON, '{"a": "\\\\\\u001B"}'::JSON, '["\\f"]'::JSON,
        '"\\udb40\\uDC41"'::JSON, '{"a\\u0000": 1}'::JSON]`,
      "['1'::JSON]",
      ["[0]", "[1]", "[2]", "[3]", "[4]"],
    ],
  ])("%s are refused", async (_, value, otherwise, paths) => {
    const refusals = await refusalsOf(await fixtures.write({ markets: references(value, otherwise) }));
    expect(refusals).toEqual(
      paths.map(() => ({
        file: "markets.parquet",
        row: expect.stringMatching(/^row 7 \(/),
        column: expect.stringMatching(/^dimensions\[\d\]\.references/),
        value: expect.anything(),
        rule,
      })),
    );
    expect(refusals.map(({ column }) => column!.replace(/^.*references/, ""))).toEqual(paths);
  });

  test("a name of a struct's member is refused with its file and column", async () => {
    const member = replacedDimensions(`struct_update(d, "references" := [{'a\u001b[2J': 1}])`);
    expect(await refusalsOf(await fixtures.write({ markets: member }))).toMatchObject([
      { file: "markets.parquet", column: "dimensions[].references[]", rule },
    ]);
  });

  test("what only looks like one is published", async () => {
    const value = `['{"\\\\u0007": "\\\\\\\\b \\\\f \\t \\u0009 \\u00a0 \\u0041"}'::JSON, '"\\\\\\\\"'::JSON]`;
    const { markets } = await readAll(await fixtures.write({ markets: references(value, "['1'::JSON]") }));
    const [found] = markets.flatMap(({ json }) =>
      JSON.parse(json).dimensions.flatMap(({ references }: { references: unknown[] }) =>
        references.length === 2 ? [references] : [],
      ),
    );
    expect(found).toEqual([{ "\\u0007": "\\\\b \\f \t \t \u00a0 A" }, "\\\\"]);
  });
});
