import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { ExportFile } from "../../../../schemas/store/stored-objects.ts";
import { noSnapshot } from "../../../../snapshots/read/catalog/catalog.ts";
import { damagedLog } from "../../../../snapshots/read/catalog/commit-log.ts";
import { prunedFiles } from "../../../../snapshots/read/sharing/hints.ts";
import {
  changesOf,
  deltaSchema,
  fileLine,
  findVersion,
  isoOf,
  type TableSource,
  tableLines,
  versionSince,
} from "../../../../snapshots/read/sharing/sharing.ts";

const iso = (n: number) => new Date(Date.UTC(2026, 0, n)).toISOString();
const fileOf = (
  name: string,
  rows = 3,
  stats: ExportFile["stats"] = { minValues: { id: "a" }, maxValues: { id: "b" }, nullCount: { id: 0 } },
): ExportFile => {
  const hash = name.padEnd(64, "0");
  return { hash, bytes: 7, rows, root: hash, chunks: { hash, bytes: 32 }, stats };
};

interface Made {
  /** How many commits there are, one a day, each with its snapshot unless it is told below. */
  commits: number;
  /** The snapshots of commits; others have one of their own. */
  snapshots?: Record<number, string>;
  exported?: (commit: number) => boolean;
  withdrawn?: readonly number[];
  /** Whether a commit has a record of its changes, and whether that is exported. */
  changes?: (commit: number) => "exported" | "recorded" | undefined;
  /** The log is damaged before this commit. */
  oldest?: number;
}

/** What a catalog and exports tell of commits that are described. */
function catalogOf({
  commits,
  snapshots = {},
  exported = () => true,
  withdrawn = [],
  changes,
  oldest = 1,
}: Made): TableSource {
  const numbers = Array.from({ length: commits }, (_, place) => commits - place);
  const idOf = (commit: number) => snapshots[commit] ?? `s${commit}`;
  const stateOf = changes ?? ((commit: number) => (commit > 1 ? "exported" : undefined));
  const log = numbers.map((commit) => {
    const hash = { hash: `c${commit}` };
    return {
      commit,
      snapshotId: idOf(commit),
      publishedAt: iso(commit),
      changes: stateOf(commit) ? hash : null,
    };
  });
  const believed = log.filter(({ commit }) => commit >= oldest);
  const damaged = (commit: number) => {
    if (commit > 0 && commit < oldest) throw damagedLog(iso(oldest), new Error("gone"));
  };
  const records = numbers
    .filter(exported)
    .map((commit) => ({ snapshotId: idOf(commit), files: [fileOf("e")] }));
  const told = {
    catalog: {
      requireCurrent() {
        if (commits === 0) throw noSnapshot();
      },
      log: {
        believed: async () => believed,
        believable: async (number: number) => believed.find(({ commit }) => commit === number),
        entry: async (number: number) => believed.find(({ commit }) => commit === number) ?? damaged(number),
        find: async (fits: (entry: (typeof log)[number]) => boolean) =>
          believed.find(fits) ?? damaged(oldest - 1),
        isWithdrawn: (commit: number) => withdrawn.includes(commit),
      },
    },
    exports: {
      list: async () => records,
      changes: async (hash: string) =>
        stateOf(Number(hash.slice(1))) === "exported" ? [fileOf(hash)] : undefined,
    },
  };
  return told as unknown as TableSource;
}

test("a day in Delta Sharing is its beginning", () => {
  expect(isoOf("timestamp", "2026-02-01")).toBe("2026-02-01T00:00:00.000Z");
});

describe("a version of the table", () => {
  const some = catalogOf({ commits: 5, exported: (commit) => commit !== 2, withdrawn: [4] });
  const found = async (wanted: Parameters<typeof findVersion>[1]) =>
    (await findVersion(some, wanted)).version;

  test("has years of four digits, also where an offset leads beyond them", async () => {
    const [beyond, before] = ["9999-12-31T23:59:59-01:00", "0000-01-01T00:00:00+01:00"];
    expect(await found({ timestamp: beyond })).toBe(5);
    expect((await versionSince(some, before)).version).toBe(1);
    for (const none of [found({ timestamp: before }), versionSince(some, beyond)])
      await expect(none).rejects.toMatchObject({ code: "VERSION_NOT_FOUND" });
  });

  test("is not told by what is left of a damaged log where one before may be meant", async () => {
    const damaged = catalogOf({ commits: 5, oldest: 3 });
    expect((await versionSince(damaged, iso(4))).version).toBe(4);
    await expect(versionSince(damaged, iso(3))).rejects.toMatchObject({ code: "DAMAGED_LOG" });
  });

  test("that there is not is answered with those that there are", async () => {
    const all = `it has 5 (${iso(5)}), 3 (${iso(3)}), 1 (${iso(1)}).`;
    await expect(found({ version: 4 })).rejects.toThrow(`There is no version 4; ${all}`);
    const before = "2025-12-31T00:00:00.000Z";
    await expect(found({ timestamp: before })).rejects.toThrow(
      `The table has no version at or before ${before}; ${all}`,
    );
    await expect(versionSince(some, iso(6))).rejects.toThrow(
      `The table has no version at or after ${iso(6)}; ${all}`,
    );
    for (const [commits, end] of [
      [1, `1 (${iso(1)}).`],
      [20, `1 (${iso(1)}).`],
      [25, `6 (${iso(6)}) and 5 older ones.`],
    ] as const) {
      const told = (await findVersion(catalogOf({ commits }), { version: 99 }).catch(String)) as string;
      expect(told.endsWith(end) && told).toContain(`it has ${commits} (`);
    }
    const none = catalogOf({ commits: 1, exported: () => false });
    await expect(findVersion(none, {})).rejects.toThrow(
      "The table has no version yet; the publisher exports snapshots.",
    );
  });

  test("is wanted by number or by time, of a store that has a snapshot", async () => {
    await expect(found({ version: 1, timestamp: iso(1) })).rejects.toThrow("exclude each other");
    const empty = catalogOf({ commits: 0 });
    await expect(findVersion(empty, {})).rejects.toMatchObject({ code: "SNAPSHOT_UNAVAILABLE" });
    await expect(versionSince(empty, iso(1))).rejects.toMatchObject({ code: "SNAPSHOT_UNAVAILABLE" });
  });
});

describe("changes of the table", () => {
  const asked = (query: string, source: TableSource) =>
    changesOf(source, new Map(new URLSearchParams(query)));
  const versions = async (query: string, made: Made = { commits: 5, exported: (commit) => commit !== 5 }) => {
    const { first, versions: told, newest } = await asked(query, catalogOf(made));
    return [first, told.map(({ version }) => version), newest.version];
  };

  test.each<[string, first: number, expected: number[]]>([
    ["startingVersion=0", 1, [1, 2, 3, 4]],
    ["startingVersion=4", 4, [4]],
    ["startingVersion=2&endingVersion=2", 2, [2]],
    ["startingVersion=2&endingVersion=9", 2, [2, 3, 4]],
  ])("from a first to a last version, both included: %s", async (query, first, expected) => {
    expect(await versions(query)).toEqual([first, expected, 4]);
  });

  test.each([
    ["startingVersion=5", "The changes begin after they end: the newest version is 4."],
    ["startingVersion=3&endingVersion=2", "begin after they end"],
    [`startingTimestamp=${iso(5)}`, "begin after they end"],
    ["startingVersion=1&endingTimestamp=2025-12-31T00:00:00Z", "begin after they end"],
    ["endingVersion=2", "Give startingVersion or startingTimestamp."],
    ["startingVersion=-1", "must be an integer from 0 to"],
    [`startingVersion=1&startingTimestamp=${iso(1)}`, "startingVersion and startingTimestamp exclude"],
    [
      `startingVersion=1&endingVersion=2&endingTimestamp=${iso(2)}`,
      "endingVersion and endingTimestamp exclude",
    ],
  ])("are refused: %s", async (query, message) => {
    await expect(versions(query)).rejects.toThrow(message);
  });

  test("are of at most a thousand versions", async () => {
    const [, told] = await versions("startingVersion=2", { commits: 1001 });
    expect(told).toHaveLength(1000);
    await expect(versions("startingVersion=1", { commits: 1001 })).rejects.toThrow("at most 1000 versions");
  });

  test("are all rows of the first version, files of what changed, or nothing where a snapshot comes again", async () => {
    const made = { commits: 4, snapshots: { 2: "again", 3: "again" } };
    const { versions: told } = await asked("startingVersion=1", catalogOf(made));
    const of = (version: number, changes: string | undefined, files: ExportFile[]) => ({
      ...{ version, publishedAt: iso(version), changes, files },
      kind: version === 1 ? "add" : "cdf",
    });
    expect(told).toEqual([
      of(1, undefined, [fileOf("e")]),
      of(2, "c2", [fileOf("c2")]),
      of(3, "c3", []),
      of(4, "c4", [fileOf("c4")]),
    ]);
  });

  test.each<[string, number, Partial<Made>]>([
    ["the first has no export", 1, { exported: (commit) => commit > 1 }],
    ["its record is not exported", 3, { changes: (commit) => (commit === 3 ? "recorded" : "exported") }],
    ["it has no record", 3, { changes: (commit) => (commit === 3 || commit === 1 ? undefined : "exported") }],
  ])("are refused where %s", async (_, version, made) => {
    await expect(versions(`startingVersion=${version}`, { commits: 4, ...made })).rejects.toThrow(
      `What version ${version} changed was not exported`,
    );
  });
});

test("lines in either form tell the table, its files, and those of changes", async () => {
  const version = { version: 5, publishedAt: iso(5), files: [fileOf("a"), fileOf("b")] };
  const [file] = version.files as [ExportFile];
  const address = { url: "https://x/y", expirationTimestamp: 9 };
  const lines = (["parquet", "delta"] as const).flatMap((form) => [
    ...[false, true].flatMap((isAsked) => tableLines(form, version, isAsked)),
    ...(["file", "add", "cdf"] as const).map((kind) => fileLine(form, version, kind, file, address)),
  ]);
  const shown = (_: string, value: unknown) => (value === deltaSchema ? "the schema" : value);
  const text = lines.map((line) => `${JSON.stringify(line, shown)}\n`).join("");
  await expect(text).toMatchFileSnapshot("lines.ndjson");
});

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
function fileOfRows(rows: readonly Row[]): ExportFile {
  const stats = { minValues: {}, maxValues: {}, nullCount: {} } as NonNullable<ExportFile["stats"]>;
  for (const name of columns) {
    const values = rows.flatMap((row) => row[name] ?? []);
    values.sort((a, b) => (typeof a === "string" ? byBytes(a, String(b)) : a - Number(b)));
    stats.nullCount[name] = rows.length - values.length;
    if (values.length === 0) continue;
    stats.minValues[name] = values[0]!;
    stats.maxValues[name] = values.at(-1)!;
  }
  return fileOf("f", rows.length, stats);
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
function expectPruned(
  all: readonly Row[][],
  listed: readonly ExportFile[],
  kept: readonly ExportFile[],
  condition: Json,
): void {
  for (const [index, rows] of all.entries()) {
    const wanted = rows.some((row) => holdsFor(row, condition));
    const is = kept.includes(listed[index]!);
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
      const listed = all.map(fileOfRows);
      const kept = prunedFiles(listed, hintsOf(children));
      spared += listed.length - kept.length;
      expectPruned(all, listed, kept, { op: "and", children });
    });
    fc.assert(property, { numRuns: 500 });
    expect(spared).toBeGreaterThan(100);
  });

  const two = [
    fileOfRows([{ composite: 300, tier: "RAW", resolved_at: null }]),
    fileOfRows([{ composite: 310, tier: "CAST", resolved_at: times[0]! }]),
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
