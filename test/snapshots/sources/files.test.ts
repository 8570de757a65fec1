import { appendFile, cp, readFile, rename, rm, symlink, truncate, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { openSources } from "../../../snapshots/sources/open-sources.ts";
import { SourceRefusal } from "../../../snapshots/sources/sources.ts";
import {
  readAll,
  refusalsOf,
  replaced,
  replacedDimensions,
  sourceFixtures,
  start,
  withSources,
} from "../../helpers/publish/sources.ts";

const fixtures = sourceFixtures();

describe("files", () => {
  test("no sources at all", async () => {
    const empty = join(fixtures.folder, "nothing here");
    const refusals = await refusalsOf(empty);
    expect(refusals.map(({ file }) => file)).toEqual(["markets.parquet", "protocol_scores.parquet"]);
    expect(refusals[0]?.rule).toContain("is missing");
  });

  test.each([
    ["markets.parquet", { markets: "FROM markets WHERE n < 0" }],
    ["protocol_scores.parquet", { protocol_scores: "FROM scores WHERE n < 0" }],
    ["markets/", { "markets/a": "FROM markets WHERE n < 0", "markets/b": "FROM markets WHERE n < 0" }],
  ])("%s without rows", async (file, files) => {
    expect(await refusalsOf(await fixtures.write(files))).toEqual([{ file, rule: "has no rows" }]);
  });

  test.each([
    ["empty", async (path: string) => truncate(path, 0)],
    ["cut short by a byte", async (path: string) => truncate(path, (await readFile(path)).length - 1)],
    ["cut in half", async (path: string) => truncate(path, (await readFile(path)).length >> 1)],
    ["not Parquet", async (path: string) => writeFile(path, "id,slug\n1,2\n")],
    ["a link to nothing", async (path: string) => rm(path).then(() => symlink("/nowhere/x.parquet", path))],
  ])("a file that is %s", async (_, damage) => {
    const directory = await fixtures.write({
      "markets/a": "FROM markets",
      "markets/b": "FROM markets WHERE n < 0",
    });
    await damage(join(directory, "markets/b.parquet"));
    const refusals = await refusalsOf(directory);
    expect(refusals).toEqual([
      { file: "markets/b.parquet", rule: expect.stringMatching(/cannot be read|link to nothing/) },
    ]);
  });

  test("a damaged page names the file and the column", async () => {
    const directory = await fixtures.write(
      { "markets/a": "FROM markets WHERE n < 20", "markets/b": "FROM markets WHERE n >= 20" },
      ", COMPRESSION zstd",
    );
    const path = join(directory, "markets/b.parquet");
    const bytes = await readFile(path);
    // The frame header of the first compressed page: column id.
    const frame = bytes.indexOf(Buffer.from([0x28, 0xb5, 0x2f, 0xfd]));
    bytes.fill(0xff, frame, frame + 4);
    await writeFile(path, bytes);
    expect(await refusalsOf(directory)).toEqual([
      { file: "markets/b.parquet", column: "id", rule: expect.stringContaining("cannot be read") },
    ]);
  });

  test.each([
    ["markets", "category", replaced("markets", "category", "'ZZ marked'")],
    ["markets", "dimensions", replacedDimensions("struct_update(d, name := 'ZZ marked')")],
    ["protocol_scores", "evidence_hash", replaced("scores", "evidence_hash", "'ZZ marked'")],
    [
      "protocol_scores",
      "metadata",
      "SELECT * REPLACE (struct_update(metadata, tvl := 'ZZ marked') AS metadata) FROM scores",
    ],
  ])("invalid UTF-8 in %s.%s", async (source, column, query) => {
    const directory = await fixtures.write({ [source]: query }, ", COMPRESSION uncompressed");
    const path = join(directory, `${source}.parquet`);
    const bytes = await readFile(path);
    for (let at = bytes.indexOf("ZZ marked"); at >= 0; at = bytes.indexOf("ZZ marked", at)) {
      bytes.set([0xc3, 0x28], at);
    }
    await writeFile(path, bytes);
    const [refusal] = await refusalsOf(directory);
    expect(refusal).toMatchObject({ file: `${source}.parquet`, column, rule: "must be valid UTF-8" });
    expect(refusal?.value).toContain("marked");
  });

  test("names with wildcards, quotes and links are taken as they are", async () => {
    // As patterns, the first matches the second, the third all of them, and the folder's name not even itself.
    const odd = ["day1", "[x]/day[1]", "[x]/*", `[x]/it's [a] "*" file?`, "back\\slash"];
    const directory = await fixtures.write(
      Object.fromEntries(
        odd.map((name, n) => [`markets/${name}`, `FROM markets WHERE n < 20 AND n % ${odd.length} = ${n}`]),
      ),
    );
    const elsewhere = await fixtures.write({ markets: "FROM markets WHERE n >= 20" });
    await symlink(join(elsewhere, "markets.parquet"), join(directory, "markets/linked.parquet"));
    expect((await readAll(directory)).markets).toHaveLength(40);
    const linked = join(fixtures.folder, "linked");
    await symlink(directory, linked);
    expect((await readAll(linked)).markets).toHaveLength(40);
    const both = await fixtures.write({ "markets/own": "FROM markets WHERE n < 20" });
    await rename(elsewhere, join(fixtures.folder, "moved"));
    await symlink(join(fixtures.folder, "moved"), join(both, "markets/2025"));
    await rm(join(fixtures.folder, "moved/protocol_scores.parquet"));
    expect((await readAll(both)).markets).toHaveLength(40);
  });

  test("folders named like Hive partitions add no columns", async () => {
    const directory = await fixtures.write({
      "markets/composite=1/a": "FROM markets WHERE n < 20",
      "markets/composite=2/a": "FROM markets WHERE n >= 20",
    });
    const { markets, warnings } = await readAll(directory);
    expect(warnings).toEqual([]);
    expect(Math.min(...markets.map(({ values }) => values.composite))).toBeGreaterThanOrEqual(300);
  });
});

describe("a file that changes while it is read", () => {
  const changes: [string, (directory: string, path: string) => Promise<unknown>, RegExp][] = [
    ["is written to", (_, path) => appendFile(path, "x"), /a\.parquet: changed/],
    ["is touched", (_, path) => utimes(path, start, start), /a\.parquet: changed/],
    [
      "is replaced by a copy",
      async (_, path) => cp(path, `${path}.new`).then(() => rename(`${path}.new`, path)),
      /a\.parquet: changed/,
    ],
    ["is removed", (_, path) => rm(path), /a\.parquet: changed/],
    [
      "gets a neighbour",
      (directory, path) => cp(path, join(directory, "markets/z.parquet")),
      /z\.parquet: appeared/,
    ],
  ];

  test.each(changes)("when one %s", async (_, change, message) => {
    const directory = await fixtures.write({
      "markets/a": "FROM markets WHERE n < 20",
      "markets/b": "FROM markets WHERE n >= 20",
    });
    const reading = withSources(directory, async (sources) => {
      let changed = false;
      for await (const _rows of sources.markets()) {
        if (!changed) await change(directory, join(directory, "markets/a.parquet"));
        changed = true;
      }
    });
    await expect(reading).rejects.toThrow(message);
    await expect(reading).rejects.toBeInstanceOf(SourceRefusal);
  });

  test("between opening and reading the scores", async () => {
    const directory = await fixtures.write({});
    const reading = withSources(directory, async (sources) => {
      await appendFile(join(directory, "protocol_scores.parquet"), "x");
      return sources.scores();
    });
    await expect(reading).rejects.toThrow("protocol_scores.parquet: changed while it was read");
  });
});

test("an error that no file explains passes through", async () => {
  const directory = await fixtures.write({});
  await expect(
    openSources({ path: directory }, { now: start, temporaryDirectory: join(tmpdir(), "no", "folder") }),
  ).rejects.toThrow("ENOENT");
  const starved = withSources(
    directory,
    async (sources) => {
      for await (const _rows of sources.markets());
    },
    { memoryMegabytes: 1 },
  );
  await expect(starved).rejects.toThrow("Out of Memory");
  await expect(starved).rejects.not.toBeInstanceOf(SourceRefusal);
});

test("reading can stop early, and again", async () => {
  const directory = await fixtures.write({});
  await withSources(directory, async (sources) => {
    for (let times = 0; times < 3; times += 1) {
      for await (const rows of sources.markets()) {
        expect(rows.length).toBeGreaterThan(0);
        break;
      }
    }
    await expect(
      (async () => {
        for await (const _rows of sources.markets()) throw new Error("the caller's own");
      })(),
    ).rejects.toThrow("the caller's own");
  });
});
