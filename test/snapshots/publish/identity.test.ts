import { mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { constants, crc32, deflateRawSync, gunzipSync } from "node:zlib";
import { beforeAll, describe, expect, test } from "vitest";
import type { SegmentRef, Size } from "../../../schemas/store/stored-objects.ts";
import { joinGzip, storedPiece } from "../../../snapshots/format/gzip.ts";
import { type compressPage, runHashesOf, runMarkets } from "../../../snapshots/format/page.ts";
import { readPages } from "../../../snapshots/index/segment.ts";
import { quoted } from "../../../snapshots/sources/duckdb/sql-literals.ts";
import { directoryStorage } from "../../../snapshots/store/backends/directory.ts";
import { layout, sha256 } from "../../../snapshots/store/layout.ts";
import { listCommits, newestCommit } from "../../../snapshots/store/log/commits.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import { verify } from "../../../snapshots/verify/verify.ts";
import { leaf, sealed } from "../../helpers/archive/plain-tree.ts";
import { runSql, withDuckDb } from "../../helpers/archive/sql.ts";
import { publishRecords, recordsOf } from "../../helpers/publish/records.ts";
import { publishSources, writePlainSources, writeSources } from "../../helpers/publish/sample-sources.ts";
import { contentOf, countingStorage, memoryStorage } from "../../helpers/store/storages.ts";
import { newestEntry, newestManifest, type Objects, rebuild } from "../../helpers/store/tamper.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";

/** How the same rows are spread over files. */
interface Spelling {
  /** Files that each file becomes. */
  parts: number;
  /** Rows of a row group, at most. */
  rowGroup: number;
  codec: string;
  /** SQL over `key`, which tells rows apart, that rows are ordered by. */
  order: string;
}

/** The files of `writeSources`, where their parts go, and the columns that come first, some in another type. */
const files = [
  {
    from: "markets/part-00000",
    to: "markets/deeper/part",
    key: "id",
    first: { dimensions: "dimensions", flagged_count: "flagged_count::BIGINT" },
  },
  {
    from: "markets/odd",
    to: "markets/odd",
    key: "id",
    first: { question: "question", composite: "composite::USMALLINT" },
  },
  {
    from: "protocol_scores",
    to: "protocol_scores/part",
    key: "concat(slug, updated_at)",
    first: { metadata: "metadata", bri: "bri::UBIGINT" },
  },
];

/** Writes the sources of `writeSources` again: other files, other order of rows and columns, other integer types. */
async function respellSources(directory: string, target: string, how: Spelling): Promise<void> {
  await mkdir(target, { recursive: true });
  await withDuckDb(target, async (sql) => {
    for (const { from, to, key, first } of files) {
      await mkdir(dirname(join(target, to)), { recursive: true });
      const columns = Object.entries(first).map(([name, value]) => `${value} AS ${name}`);
      const source = `SELECT ${columns.join(", ")}, * EXCLUDE (${Object.keys(first).join(", ")}), ${key} AS key
        FROM read_parquet(${quoted(join(directory, `${from}.parquet`))})`;
      for (let part = 0; part < how.parts; part += 1) {
        await sql.run(`COPY (SELECT * EXCLUDE (key) FROM (${source}) WHERE hash(key) % ${how.parts} = ${part}
            ORDER BY ${how.order}) TO ${quoted(join(target, `${to}-${part}.parquet`))}
          (FORMAT parquet, ROW_GROUP_SIZE ${how.rowGroup}, COMPRESSION ${how.codec})`);
      }
    }
  });
}

const folder = testFolder();
let stores = 0;

function newStore(): Storage {
  stores += 1;
  return directoryStorage(join(folder, `store-${stores}`));
}

/** Without what is for publishers, which depends on the source files, and what names it. */
async function servedContentOf(storage: Storage): Promise<Record<string, string>> {
  const { rows, origins, sourceFiles, segmentList, manifest, commit, logTile } = layout;
  const unserved = [rows, origins, sourceFiles, segmentList, manifest, commit, logTile];
  const content = Object.entries(await contentOf(storage));
  return Object.fromEntries(content.filter(([key]) => !unserved.some((kind) => kind.has(key))));
}

describe("equal content", () => {
  const sources = join(folder, "sources");
  const storage = directoryStorage(join(folder, "first"));
  let snapshotId: string;
  let total: Size;

  beforeAll(async () => {
    await writeSources(sources);
    ({ snapshotId, total } = await publishSources(sources, storage, folder));
  });

  test.for([
    { parts: 1, rowGroup: 122_880, codec: "snappy", order: "key" },
    { parts: 3, rowGroup: 256, codec: "uncompressed", order: "md5(key)" },
    { parts: 5, rowGroup: 128, codec: "zstd", order: "reverse(key) DESC" },
  ])(
    "gives the same snapshot from $parts file(s) by $order, $codec, row groups of $rowGroup",
    async (how) => {
      const respelled = join(folder, `respelled-${how.parts}`);
      await respellSources(sources, respelled, how);
      const second = newStore();
      expect(await publishSources(respelled, second, folder)).toMatchObject({
        outcome: "published",
        snapshotId,
      });
      expect(await servedContentOf(second)).toEqual(await servedContentOf(storage));
      // And none at all where it is published already, not even of what tells its files. Only digests of its rows are
      // new.
      const counting = countingStorage(storage);
      const again = await publishSources(respelled, counting, folder);
      expect(again).toMatchObject({ outcome: "unchanged", snapshotId, total });
      const written = counting.written().filter((key) => !key.startsWith(layout.rows.prefix));
      expect(written).toEqual([layout.probe, layout.checked]);
      expect(await listCommits(storage)).toEqual([1]);
    },
  );

  test.for([1, 4])("gives the same snapshot with %i threads", async (threads) => {
    const second = newStore();
    await publishSources(sources, second, folder, { threads });
    expect(await servedContentOf(second)).toEqual(await servedContentOf(storage));
  });

  test("uploads nothing again, and says that it was checked", async () => {
    const counting = countingStorage(storage);
    const report = await publishSources(sources, counting, folder);
    expect(report).toMatchObject({ outcome: "unchanged", commit: 1, uploaded: { objects: 0, bytes: 0 } });
    expect(report.total).toEqual(report.unchanged);
    expect(counting.written()).toEqual([layout.checked]);
  });
});

const leafOf = (text: string) => leaf(Buffer.from(text));

describe("the snapshot id", () => {
  const objects: Objects = new Map();
  const storage = memoryStorage(objects);

  beforeAll(async () => {
    await publishRecords(storage, recordsOf(0, 400));
  });

  test("is the hash that snapshots/SPEC.md describes", () => {
    const { segments, scores } = newestManifest(objects);
    const { counts, archiveRoot, scoresRoot, snapshotId } = newestEntry(objects);
    const pagesOf = ({ hash }: SegmentRef) =>
      readPages("segment", objects.get(layout.segment(hash))!).map((page) => {
        const [, ...lines] = String(gunzipSync(objects.get(layout.page(page.hash))!)).split("\n");
        return lines.slice(0, -1).map((line) => line.replace(/,$/, ""));
      });
    const archive = segments.map((segment) => pagesOf(segment).map((lines) => lines.reverse()));
    const inSegments = archive.map((pages) => {
      const inPages = pages.map((lines) => sealed(2, lines.length, lines.map(leafOf)));
      return { markets: pages.flat().length, root: sealed(3, pages.flat().length, inPages) };
    });
    const inArchive = sealed(
      4,
      counts.markets,
      inSegments.map((segment) => segment.root),
    );
    expect(archiveRoot).toBe(inArchive.toString("hex"));
    expect(segments.map((segment) => segment.root)).toEqual(
      inSegments.map((segment) => segment.root.toString("hex")),
    );
    const lines = [`scores ${scores.list.hash}`];
    for (const [part, refs] of [
      ["score", scores.records],
      ["history", scores.histories],
      ["dimensions", scores.dimensions],
    ] as const) {
      for (const slug of ["aave", "constructor", "curve.fi", "lido-dao"])
        lines.push(`${part} ${slug} ${refs[slug]!.hash}`);
    }
    expect(scoresRoot).toBe(sealed(5, lines.length, lines.map(leafOf)).toString("hex"));
    const content = `markets ${counts.markets}\nprotocols 4\narchive ${archiveRoot}\nscores ${scoresRoot}`;
    const text = `prs-snapshot 1 bri-pm-v1\n${content}\n`;
    expect(snapshotId).toBe(sha256(text));
  });

  test("does not depend on the zlib that wrote the pages, and pages of another one stay as they are", async () => {
    const before = newestManifest(objects);
    const old = new Map(objects);
    await rebuild(old, () => {}, fastPage);
    const rewritten = newestManifest(old);
    const [entry, { snapshotId, indexRoot }] = [newestEntry(old), newestEntry(objects)];
    expect(entry).toMatchObject({ snapshotId, indexRoot });
    expect(rewritten.segments).not.toEqual(before.segments);
    expect((await verify(memoryStorage(old), () => {})).faults).toEqual([]);

    const counting = countingStorage(memoryStorage(old));
    // The rewritten manifest tells nothing of source files. No commit would name what this run could tell of them.
    const again = await publishRecords(counting, recordsOf(0, 400));
    expect(again).toMatchObject({ outcome: "unchanged", commit: 1, uploaded: { objects: 0, bytes: 0 } });
    expect(again.total).toEqual(again.unchanged);
    expect(counting.written()).toEqual([layout.checked]);
    // One market more at the newest end: the oldest page of the segment is not compressed anew.
    const [oldest] = readPages("segment", old.get(layout.segment(rewritten.segments.at(-1)!.hash))!);
    await publishRecords(counting, [...recordsOf(0, 400), ...recordsOf(9_000, 9_001)]);
    const [kept] = readPages("segment", old.get(layout.segment(newestManifest(old).segments.at(-1)!.hash))!);
    expect(kept).toEqual(oldest);
    expect((await verify(memoryStorage(old), () => {})).faults).toEqual([]);
  });

  test.for([
    [
      "a market's evidence",
      "markets/part-00000",
      "dimensions",
      "list_transform(dimensions, lambda d: struct_update(d, description := concat(d.description, '.')))",
    ],
    [
      "a field of one score that its list does not show",
      "protocol_scores",
      "metadata",
      "struct_update(metadata, tvl := '$1')",
    ],
  ])("changes with %s", async ([, file, column, value]) => {
    const directory = join(folder, `changed-${column}`);
    await writePlainSources(directory, 100);
    const storage = newStore();
    const { snapshotId } = await publishSources(directory, storage, folder);
    const path = quoted(join(directory, `${file}.parquet`));
    await runSql(
      folder,
      `COPY (SELECT * REPLACE (${value} AS ${column}) FROM read_parquet(${path})) TO ${path} (FORMAT parquet)`,
    );
    const changed = await publishSources(directory, storage, folder);
    expect(changed).toMatchObject({ outcome: "published", commit: 2 });
    expect(changed.snapshotId).not.toBe(snapshotId);
    expect((await newestCommit(storage))?.entry.snapshotId).toBe(changed.snapshotId);
  });
});

/** A page as another zlib might compress it. */
const fastPage: typeof compressPage = async (lines) => {
  const pieces = [];
  for (let first = 0; first < lines.length; first += runMarkets) {
    const raw = Buffer.from(lines.slice(first, first + runMarkets).join(",\n"));
    const bytes = deflateRawSync(raw, { level: 1, finishFlush: constants.Z_FULL_FLUSH });
    pieces.push({ bytes, rawBytes: raw.length, crc: crc32(raw) });
  }
  const between = pieces.flatMap((piece, place) =>
    place === 0 ? [piece] : [storedPiece(Buffer.from(",\n")), piece],
  );
  const stored = joinGzip([
    storedPiece(Buffer.from("[\n")),
    ...between,
    storedPiece(Buffer.from("\n]"), true),
  ]);
  const runs = pieces.map(({ bytes, rawBytes, crc }) => ({ compressedBytes: bytes.length, rawBytes, crc }));
  const page = {
    markets: lines.length,
    hash: sha256(stored),
    bytes: stored.length,
    runs,
    runHashes: runHashesOf(stored, runs),
  };
  return { page, stored };
};
