import { constants, crc32, deflateRawSync } from "node:zlib";
import { expect, test } from "vitest";
import { joinGzip, storedPiece } from "../../../snapshots/format/gzip.ts";
import { type compressPage, runHashesOf, runMarkets } from "../../../snapshots/format/page.ts";
import { readPages } from "../../../snapshots/index/segment.ts";
import { layout, sha256 } from "../../../snapshots/store/layout.ts";
import { publishRecords, recordsOf } from "../../helpers/publish/records.ts";
import { countingStorage, memoryStorage } from "../../helpers/store/storages.ts";
import {
  newestCommitIn,
  newestEntry,
  newestManifest,
  type Objects,
  rebuild,
} from "../../helpers/store/tamper.ts";
import { faultsOf } from "../../helpers/store/verified.ts";

// That it is the hash which the specification describes, the reader in Python shows (test/conformance).
test("the snapshot id does not depend on the zlib that wrote the pages, and pages of another one stay as they are", async () => {
  const objects: Objects = new Map();
  await publishRecords(memoryStorage(objects), recordsOf(0, 400));
  const before = newestManifest(objects);
  const old = new Map(objects);
  await rebuild(old, () => {}, fastPage);
  const rewritten = newestManifest(old);
  const [entry, { snapshotId, indexRoot }] = [newestEntry(old), newestEntry(objects)];
  expect(entry).toMatchObject({ snapshotId, indexRoot });
  expect(rewritten.segments).not.toEqual(before.segments);
  expect(await faultsOf(memoryStorage(old))).toEqual([]);
  // What is lost of it gets other names, which a commit has to tell.
  const [page] = pagesIn(old, rewritten.segments);
  for (const key of [layout.page(page!.hash), layout.manifest(newestCommitIn(old).manifest.hash)]) {
    const lost = new Map(old);
    lost.delete(key);
    const mended = await publishRecords(memoryStorage(lost), recordsOf(0, 400));
    expect(mended).toMatchObject({ outcome: "published", commit: 2, snapshotId });
  }

  const counting = countingStorage(memoryStorage(old));
  // The rewritten manifest tells nothing of source files. No commit would name what this run could tell of them.
  const again = await publishRecords(counting, recordsOf(0, 400));
  expect(again).toMatchObject({ outcome: "unchanged", commit: 1, uploaded: { objects: 0, bytes: 0 } });
  expect(again.total).toEqual(again.unchanged);
  expect(counting.written()).toEqual([layout.checked]);
  // One market more at the newest end: the oldest page of the segment is not compressed anew.
  const oldestPage = () => pagesIn(old, newestManifest(old).segments.slice(-1))[0];
  const oldest = oldestPage();
  await publishRecords(counting, [...recordsOf(0, 400), ...recordsOf(9_000, 9_001)]);
  expect(oldestPage()).toEqual(oldest);
  // Of a page with a changed market, only that market's run is.
  const runs = runsIn(old);
  const [first, ...others] = recordsOf(0, 400);
  const changed = { ...first!, question: "Another one?" };
  await publishRecords(counting, [changed, ...others, ...recordsOf(9_000, 9_001)]);
  expect(runsIn(old).difference(runs).size).toBe(1);
  expect(await faultsOf(memoryStorage(old))).toEqual([]);
});

const pagesIn = (objects: Objects, segments: readonly { hash: string }[]) =>
  segments.flatMap(({ hash }) => readPages("segment", objects.get(layout.segment(hash))!));

/** The hashes of all compressed runs of the newest snapshot. */
const runsIn = (objects: Objects): Set<string> =>
  new Set(
    pagesIn(objects, newestManifest(objects).segments).flatMap(({ runHashes }) => runHashes.match(/.{32}/g)!),
  );

/** A page as another zlib might compress it. */
const fastPage: typeof compressPage = async (lines) => {
  const pieces = [];
  for (let first = 0; first < lines.length; first += runMarkets) {
    const raw = Buffer.from(lines.slice(first, first + runMarkets).join(",\n"));
    const bytes = deflateRawSync(raw, { level: 1, finishFlush: constants.Z_FULL_FLUSH });
    pieces.push({ bytes, rawBytes: raw.length, crc: crc32(raw) });
  }
  const before = (place: number) => storedPiece(Buffer.from(place === 0 ? "[\n" : ",\n"));
  const parts = pieces.flatMap((piece, place) => [before(place), piece]);
  const stored = joinGzip([...parts, storedPiece(Buffer.from("\n]"), true)]);
  const runs = pieces.map(({ bytes, rawBytes, crc }) => ({ compressedBytes: bytes.length, rawBytes, crc }));
  const told = { markets: lines.length, hash: sha256(stored), bytes: stored.length };
  return { page: { ...told, runs, runHashes: runHashesOf(stored, runs) }, stored };
};
