import { readFileSync } from "node:fs";
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
  /** How many commits there are, one a day, each with a snapshot of its own, of which one may come again. */
  commits: number;
  again?: readonly number[];
  isExported?: boolean;
  /** Whether a commit has a record of its changes; each is exported. */
  hasRecord?: (commit: number) => boolean;
  /** The log is damaged before this commit. */
  oldest?: number;
}

/** What a catalog and exports tell of commits that are described. */
function catalogOf({
  commits,
  again = [],
  isExported = true,
  hasRecord = (commit) => commit > 1,
  oldest = 1,
}: Made): TableSource {
  const log = Array.from({ length: commits - oldest + 1 }, (_, place) => {
    const commit = commits - place;
    const snapshotId = again.includes(commit) ? "again" : `s${commit}`;
    const changes = hasRecord(commit) ? { hash: `c${commit}` } : null;
    return { commit, snapshotId, publishedAt: iso(commit), changes };
  });
  const damaged = (commit: number) => {
    if (commit > 0 && commit < oldest) throw damagedLog(iso(oldest), new Error("gone"));
  };
  const believable = async (number: number) => log.find(({ commit }) => commit === number);
  const told = {
    catalog: {
      requireCurrent() {
        if (commits === 0) throw noSnapshot();
      },
      log: {
        ...{ believed: async () => log, believable, isWithdrawn: () => false },
        entry: async (number: number) => (await believable(number)) ?? damaged(number),
        find: async (fits: (entry: (typeof log)[number]) => boolean) => log.find(fits) ?? damaged(oldest - 1),
      },
    },
    exports: {
      list: async () =>
        log.flatMap(({ snapshotId }) => (isExported ? { snapshotId, files: [fileOf("e")] } : [])),
      changes: async (hash: string) => [fileOf(hash)],
    },
  };
  return told as unknown as TableSource;
}

// What is refused in other stores, and which versions are meant, is in test/proxy/corpus.txt and in
// test/proxy/delta-sharing/protocol.test.ts.
describe("a version of the table", () => {
  test("is not told by what is left of a damaged log where one before may be meant", async () => {
    const damaged = catalogOf({ commits: 5, oldest: 3 });
    expect((await versionSince(damaged, iso(4))).version).toBe(4);
    for (const meant of [versionSince(damaged, iso(3)), findVersion(damaged, { timestamp: iso(2) })])
      await expect(meant).rejects.toMatchObject({ code: "DAMAGED_LOG" });
    await expect(findVersion(damaged, { version: 2 })).rejects.toMatchObject({ code: "DAMAGED_LOG" });
  });

  test.each<[what: object, told: string, commits: number, isExported?: boolean]>([
    [{ version: 99 }, `1 (${iso(1)}).`, 20],
    [{ version: 99 }, `6 (${iso(6)}) and 5 older ones.`, 25],
    [{}, "The table has no version yet; the publisher exports snapshots.", 1, false],
    [{}, "No snapshot is loaded yet", 0],
  ])(
    "%j that there is not is answered with those that there are: %s",
    async (what, told, commits, isExported = true) => {
      await expect(findVersion(catalogOf({ commits, isExported }), what)).rejects.toThrow(told);
    },
  );
});

describe("changes of the table", () => {
  const versions = async (startingVersion: number, made: Made) =>
    (await changesOf(catalogOf(made), new Map([["startingVersion", `${startingVersion}`]]))).versions;

  test("are of at most a thousand versions", async () => {
    expect(await versions(2, { commits: 1001 })).toHaveLength(1000);
    await expect(versions(1, { commits: 1001 })).rejects.toThrow("at most 1000 versions");
  });

  test("are all rows of the first version, files of what changed, or nothing where a snapshot comes again", async () => {
    const told = await versions(1, { commits: 4, again: [2, 3] });
    expect(told.map(({ version, kind, changes, files }) => [version, kind, changes, files])).toEqual([
      [1, "add", undefined, [fileOf("e")]],
      [2, "cdf", "c2", [fileOf("c2")]],
      [3, "cdf", "c3", []],
      [4, "cdf", "c4", [fileOf("c4")]],
    ]);
    expect(told[3]!.publishedAt).toBe(iso(4));
  });

  test("are not those of a commit without a record, though its snapshot is exported", async () => {
    const made = { commits: 4, hasRecord: (commit: number) => commit === 2 || commit === 4 };
    await expect(versions(2, made)).rejects.toThrow("What version 3 changed was not exported");
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

/** The condition of a hint in SQL. */
function sqlOf({ op, children = [] }: Json): string {
  const side = ({ op: kind, name, value = "", valueType }: Json) =>
    kind === "column" ? `\`${name}\`` : valueType === "int" ? value : `'${value}'`;
  return `${side(children[0]!)} ${signs[op as keyof typeof signs]} ${side(children[1]!)}`;
}

describe("hints", () => {
  test("spare files that hold no row which is wanted, and no other, in JSON and in SQL", () => {
    let spared = 0;
    const files = fc.array(fc.array(rowOf, { minLength: 1, maxLength: 3 }), { minLength: 1, maxLength: 6 });
    const property = fc.property(files, tree, (all, condition) => {
      const listed = all.map(fileOfRows);
      const kept = prunedFiles(listed, { jsonPredicateHints: JSON.stringify(condition) });
      spared += listed.length - kept.length;
      for (const [index, rows] of all.entries()) {
        const wanted = rows.some((row) => holdsFor(row, condition));
        // A file of several rows may be kept though none is wanted.
        if (wanted || rows.length === 1) expect(kept.includes(listed[index]!)).toBe(wanted);
      }
      if (condition.op in signs)
        expect(prunedFiles(listed, { predicateHints: [sqlOf(condition)] })).toEqual(kept);
    });
    fc.assert(property, { numRuns: 500 });
    expect(spared).toBeGreaterThan(100);
  });

  const two = [
    fileOfRows([{ composite: 300, tier: "RAW", resolved_at: null }]),
    fileOfRows([{ composite: 310, tier: "CAST", resolved_at: times[0]! }]),
  ];
  const column = { op: "column", name: "composite", valueType: "int" };
  const literal = (value: string) => ({ op: "literal", value, valueType: "int" });
  const larger = { op: "greaterThan", children: [column, literal("305")] };
  const words: Record<string, object> = { COLUMN: column, LITERAL: literal("400"), LARGER: larger };
  const rows = readFileSync(new URL("hints.txt", import.meta.url), "utf8").replace(/^(#.*)?\n/gm, "");
  const conditions = rows
    .trimEnd()
    .split("\n")
    .flatMap((row) => {
      const [some = "", count] = row.split(" | ");
      return some.split("  ").map((condition) => ({ condition, count: Number(count) }));
    });
  test.each(conditions)("leave $count of two files: $condition", ({ condition, count }) => {
    const json = condition.replace(/COLUMN|LITERAL|LARGER/g, (word) => JSON.stringify(words[word]));
    const hints = /^(null$|\{)/.test(json) ? { jsonPredicateHints: json } : { predicateHints: [json] };
    expect(prunedFiles(two, hints)).toHaveLength(count);
  });

  test.each(["and", "or", "not"])("spare nothing where %s is nested as deeply as a body allows", (op) => {
    for (const levels of [1000, 1500, 2000, 2500]) {
      const text = `{"op":"${op}","children":[`.repeat(levels) + "]}".repeat(levels);
      expect(prunedFiles(two, { jsonPredicateHints: text })).toEqual(two);
    }
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
