import { describe, expect, test } from "vitest";
import type { ExportFile } from "../../../../schemas/store/stored-objects.ts";
import { noSnapshot } from "../../../../snapshots/read/catalog/catalog.ts";
import { damagedLog } from "../../../../snapshots/read/catalog/commit-log.ts";
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
const fileOf = (name: string): ExportFile => {
  const hash = name.padEnd(64, "0");
  const stats = { minValues: { id: "a" }, maxValues: { id: "b" }, nullCount: { id: 0 } };
  return { hash, bytes: 7, rows: 3, root: hash, chunks: { hash, bytes: 32 }, stats };
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
