import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { ExportFile } from "../../../../schemas/store/stored-objects.ts";
import { prunedFiles } from "../../../../snapshots/read/sharing/hints.ts";

/** Rows with a column of each kind that has an order. */
interface Row {
  composite: number | null;
  tier: string | null;
  resolved_at: string | null;
}
const columns = ["composite", "tier", "resolved_at"] as const;
const [tiers, times] = [
  ["CAST", "RAW", "\u{1f600}", "\uffee"],
  ["2025-01-01T00:00:00.000Z", "2025-06-01T00:00:00.000Z", "2026-01-01T00:00:00.500Z"],
];
const byBytes = (a: string, b: string) => Buffer.compare(Buffer.from(a), Buffer.from(b));

const rowOf = fc.record<Row>({
  composite: fc.option(fc.integer({ min: 300, max: 302 })),
  tier: fc.option(fc.constantFrom(...tiers)),
  resolved_at: fc.option(fc.constantFrom(...times)),
});

/** A file of rows, as an export tells of it. */
function fileOf(rows: readonly Row[], index: number): ExportFile {
  const stats = { minValues: {}, maxValues: {}, nullCount: {} } as NonNullable<ExportFile["stats"]>;
  for (const name of columns) {
    const values = rows.flatMap((row) => row[name] ?? []);
    values.sort((a, b) => (typeof a === "string" ? byBytes(a, String(b)) : a - Number(b)));
    stats.nullCount[name] = rows.length - values.length;
    if (values.length === 0) continue;
    stats.minValues[name] = values[0]!;
    stats.maxValues[name] = values.at(-1)!;
  }
  const hash = String(index).padStart(64, "0");
  return { hash, bytes: 1, rows: rows.length, root: hash, chunks: { hash, bytes: 32 }, stats };
}

const valueTypes = { composite: ["int", "long", "double"], tier: ["string"], resolved_at: ["timestamp"] };
const literalOf = fc.constantFrom(...columns).chain((name) =>
  fc.record({
    name: fc.constant(name),
    valueType: fc.constantFrom(...valueTypes[name]),
    value: fc.constantFrom(
      ...{ composite: ["299", "300", "301", "302", "303"], tier: [...tiers, "A"], resolved_at: times }[name],
    ),
  }),
);
type Json = { op: string; children?: Json[]; name?: string; value?: string; valueType?: string };
const signs = {
  equal: "=",
  lessThan: "<",
  lessThanOrEqual: "<=",
  greaterThan: ">",
  greaterThanOrEqual: ">=",
};
const comparison = fc
  .tuple(fc.constantFrom(...Object.keys(signs)), literalOf, fc.boolean())
  .map(([op, { name, value, valueType }, turned]): Json => {
    const children = [
      { op: "column", name, valueType },
      { op: "literal", value, valueType },
    ];
    return { op, children: turned ? children.reverse() : children };
  });
const nullCheck = fc
  .constantFrom(...columns)
  .map(
    (name): Json => ({ op: "isNull", children: [{ op: "column", name, valueType: valueTypes[name][0]! }] }),
  );
const { tree } = fc.letrec<{ tree: Json }>((tie) => ({
  tree: fc.oneof(
    { maxDepth: 3 },
    comparison,
    nullCheck,
    tie("tree").map((child) => ({ op: "not", children: [child] })),
    fc
      .tuple(fc.constantFrom("and", "or"), fc.array(tie("tree"), { minLength: 2, maxLength: 3 }))
      .map(([op, children]) => ({ op, children })),
  ),
}));

/** Whether a condition holds for a row in SQL's logic; null where that is unknown. */
function holdsFor(row: Row, { op, children = [] }: Json): boolean | null {
  const each = () => children.map((child) => holdsFor(row, child));
  if (op === "and") return each().includes(false) ? false : each().includes(null) ? null : true;
  if (op === "or") return each().includes(true) ? true : each().includes(null) ? null : false;
  if (op === "not") {
    const [child = null] = each();
    return child === null ? null : !child;
  }
  const named = row[(children.find((child) => child.op === "column")?.name ?? "tier") as keyof Row];
  if (op === "isNull") return named === null;
  if (named === null) return null;
  const sides = children.map((child) => (child.op === "column" ? named : child.value!));
  const order =
    typeof named === "number"
      ? Number(sides[0]) - Number(sides[1])
      : byBytes(String(sides[0]), String(sides[1]));
  const sign = signs[op as keyof typeof signs];
  return sign.includes(order === 0 ? "=" : order < 0 ? "<" : ">");
}

const files = fc.array(fc.array(rowOf, { minLength: 1, maxLength: 3 }), { minLength: 1, maxLength: 6 });

/** No file with a row that is wanted may be missing, and none of a single row that is not may be there. */
function expectPruned(all: readonly Row[][], kept: readonly ExportFile[], condition: Json): void {
  for (const [index, rows] of all.entries()) {
    const wanted = rows.some((row) => holdsFor(row, condition));
    const is = kept.some(({ hash }) => Number(hash) === index);
    if (wanted || rows.length === 1) expect(is).toBe(wanted);
  }
}

/** The condition of a hint in SQL. */
function sqlOf({ op, children = [] }: Json): string {
  const side = ({ op: kind, name, value = "", valueType }: Json) =>
    kind === "column" ? `\`${name}\`` : valueType === "int" ? value : `'${value}'`;
  return `${side(children[0]!)} ${signs[op as keyof typeof signs]} ${side(children[1]!)}`;
}

describe("hints", () => {
  type Hints = Parameters<typeof prunedFiles>[1];
  test.for<[string, fc.Arbitrary<Json[]>, (conditions: Json[]) => Hints]>([
    ["JSON", tree.map((one) => [one]), ([one]) => ({ jsonPredicateHints: JSON.stringify(one) })],
    [
      "SQL, all of which count,",
      fc.array(comparison, { minLength: 1, maxLength: 3 }),
      (all) => ({ predicateHints: all.map(sqlOf) }),
    ],
  ])("in %s spare files that hold no row which is wanted, and no other", ([_, conditions, hintsOf]) => {
    let spared = 0;
    const property = fc.property(files, conditions, (all, children) => {
      const listed = all.map(fileOf);
      const kept = prunedFiles(listed, hintsOf(children));
      spared += listed.length - kept.length;
      expectPruned(all, kept, { op: "and", children });
    });
    fc.assert(property, { numRuns: 500 });
    expect(spared).toBeGreaterThan(100);
  });

  const two = [
    fileOf([{ composite: 300, tier: "RAW", resolved_at: null }], 1),
    fileOf([{ composite: 310, tier: "CAST", resolved_at: times[0]! }], 2),
  ];
  test.each([
    // Comparisons by the other signs are among those above.
    ["Composite <> 300", 1],
    ["300 <> composite", 1],
    ["composite is null", 0],
    ["resolved_at IS NULL", 1],
    ["resolved_at is not null", 1],
    ["resolved_at >= '2024-01-01T00:00:00Z'", 1],
    ["resolved_at >= '2024-01-01'", 2],
    ["resolved_at >= '9999-13-01T00:00:00Z'", 2],
    ["resolved_at >= '9999-01-01T00:00:00.000Z'", 0],
    ["resolved_at >= '9999-01-01T00:00:00.0001Z'", 2],
    ["composite > 305 OR true", 2],
    ["question = 'Why?'", 2],
    ["tier = 5", 2],
    ["tier <> 5", 2],
    ["composite = ''", 2],
    ["", 2],
  ])("in SQL: %s", (condition, count) => {
    expect(prunedFiles(two, { predicateHints: [condition] })).toHaveLength(count);
  });

  const literal = { op: "literal", value: "400", valueType: "int" };
  const composite = (valueType = "int") => ({ op: "column", name: "composite", valueType });
  const both = (op: string, ...children: unknown[]) => ({ op, children });
  const compare = (op: string, value: unknown, valueType = "int"): unknown =>
    both(op, composite(), { op: "literal", value, valueType });
  const larger = compare("greaterThan", "305");
  test.each<[string, unknown, number]>([
    ["one of two of which one is unknown", both("or", both("like"), larger), 2],
    ["two of which one is unknown", both("and", both("like"), larger), 1],
    ["two of which one has no literal", both("and", both("equal", literal), larger), 1],
    ["two of which one has another type", both("and", compare("lessThan", "1", "long"), larger), 1],
    ["a literal of another type", compare("greaterThan", "305", "long"), 2],
    ["a literal that is no text", compare("greaterThan", 305), 2],
    ["no object", null, 2],
    ["an unknown comparison", compare("like", "305"), 2],
    ["a comparison with nothing", both("equal", literal), 2],
    ["not all of nothing", both("not", both("and")), 2],
    ["no children", { op: "and" }, 2],
    ["children that are no list", { op: "or", children: 5 }, 2],
    ["two literals", both("equal", literal, literal), 2],
    ["a column and no literal", both("equal", composite(), { ...literal, op: "like" }), 2],
    ["another type", both("equal", composite("string"), literal), 2],
    ["a type of another order", both("equal", composite("string"), { ...literal, valueType: "string" }), 2],
    ["an unknown column", both("equal", { op: "column", name: "toString", valueType: "int" }, literal), 2],
  ])("in JSON: %s", (_, condition, count) => {
    expect(prunedFiles(two, { jsonPredicateHints: JSON.stringify(condition) })).toHaveLength(count);
  });

  test.each(["and", "or", "not"])("spare nothing where %s is nested as deeply as a body allows", (op) => {
    for (const levels of [1000, 1500, 2000, 2500]) {
      const text = `{"op":"${op}","children":[`.repeat(levels) + "]}".repeat(levels);
      expect(prunedFiles(two, { jsonPredicateHints: text })).toEqual(two);
    }
  });

  test("name columns and not what else objects have", () => {
    const hints = ["IS NOT NULL", "IS NULL", "> '2020-01-01T00:00:00Z'"];
    const predicateHints = hints.map((hint) => `constructor ${hint}`);
    expect(prunedFiles(two, { predicateHints })).toEqual(two);
  });

  test("limit the files to those that suffice, but only where no condition counts", () => {
    expect(prunedFiles(two, { limitHint: 0 })).toEqual([]);
    expect(prunedFiles(two, { limitHint: 1 })).toEqual(two.slice(0, 1));
    expect(prunedFiles(two, { limitHint: 2 })).toEqual(two);
    for (const hints of [{ predicateHints: ["composite >= 300"] }, { jsonPredicateHints: "{" }])
      expect(prunedFiles(two, { limitHint: 1, ...hints })).toEqual(two);
  });

  test("keep files of which nothing is told", () => {
    const { stats = undefined, ...bare } = two[0]!;
    const half = { ...bare, stats: { ...stats!, maxValues: {} } };
    for (const file of [bare, half])
      expect(prunedFiles([file], { predicateHints: ["composite > 900"] })).toEqual([file]);
  });
});
