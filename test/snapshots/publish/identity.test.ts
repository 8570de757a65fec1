import { constants, crc32, deflateRawSync } from "node:zlib";
import { expect, test } from "vitest";
import { joinGzip, storedPiece } from "../../../snapshots/format/gzip.ts";
import { type compressPage, runHashesOf, runMarkets } from "../../../snapshots/format/page.ts";
import { readPages } from "../../../snapshots/index/segment.ts";
import { layout, sha256 } from "../../../snapshots/store/layout.ts";
import { verify } from "../../../snapshots/verify/verify.ts";
import { publishRecords, recordsOf } from "../../helpers/publish/records.ts";
import { countingStorage, memoryStorage } from "../../helpers/store/storages.ts";
import { newestEntry, newestManifest, type Objects, rebuild } from "../../helpers/store/tamper.ts";

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
  // Of a page with a changed market, only that market's run is.
  const runs = runsIn(old);
  const [first, ...others] = recordsOf(0, 400);
  await publishRecords(counting, [
    { ...first!, question: "Another one?" },
    ...others,
    ...recordsOf(9_000, 9_001),
  ]);
  expect(runsIn(old).difference(runs).size).toBe(1);
  expect((await verify(memoryStorage(old), () => {})).faults).toEqual([]);
});

/** The hashes of all compressed runs of the newest snapshot. */
const runsIn = (objects: Objects): Set<string> =>
  new Set(
    newestManifest(objects)
      .segments.flatMap(({ hash }) => readPages("segment", objects.get(layout.segment(hash))!))
      .flatMap(({ runHashes }) => runHashes.match(/.{32}/g)!),
  );

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
