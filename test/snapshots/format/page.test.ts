import { constants, crc32, deflateRawSync, gunzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { feedVersion } from "../../../schemas/versions.ts";
import {
  compressPage,
  joinRuns,
  type Page,
  pageText,
  type Run,
  readRun,
  readWholePage,
  runHashesOf,
  separator,
} from "../../../snapshots/format/page.ts";
import { leafHash, pageRootOf } from "../../../snapshots/format/tree.ts";
import { judgePage } from "../../../snapshots/verify/page-check.ts";
import { recordsOf } from "../../helpers/publish/records.ts";

const lines = recordsOf(0, 32).map((market) => Buffer.from(JSON.stringify(market)));
const frame = { opening: Buffer.from("[\n"), separator, closing: Buffer.from("\n]") };
const [first, second] = [lines.slice(0, 16), lines.slice(16)].map((some) => pageText(some).subarray(2, -2));
const flushed = { finishFlush: constants.Z_SYNC_FLUSH };

/** A page with the second run compressed in another way. */
const pageWith = (bytes: Buffer) =>
  pageOf([
    { raw: first!, bytes: deflateRawSync(first!, flushed) },
    { raw: second!, bytes },
  ]);

function pageOf(parts: readonly { raw: Buffer; bytes: Buffer }[]) {
  const pieces = parts.map(({ raw, bytes }) => ({ bytes, rawBytes: raw.length, crc: crc32(raw) }));
  const runs = pieces.map(({ bytes, rawBytes, crc }) => ({ compressedBytes: bytes.length, rawBytes, crc }));
  return { runs, stored: joinRuns(pieces, frame) };
}

test("a whole page gives what its runs give", async () => {
  const { page, stored } = await compressPage(lines);
  expect(readWholePage(stored, page.runs)).toEqual(lines);
  expect(readWholePage(stored, page.runs)).toEqual(
    page.runs.flatMap((_, run) => readRun("", stored, page, run)),
  );
  const plain = pageWith(deflateRawSync(second!, flushed));
  expect(readWholePage(plain.stored, plain.runs)).toEqual(lines);
  const flipped = Buffer.from(stored);
  flipped[flipped.length - 1]! ^= 1;
  expect(readWholePage(flipped, page.runs)).toBeUndefined();
});

test("runs of other lengths make the same page, which verify refuses, since readers count on 16", () => {
  const parts = [lines.slice(0, 15), lines.slice(15)].map((some) => {
    const raw = pageText(some).subarray(2, -2);
    return { raw, bytes: deflateRawSync(raw, flushed) };
  });
  const { stored, runs } = pageOf(parts);
  expect(gunzipSync(stored)).toEqual(pageText(lines));
  const root = pageRootOf(lines.toReversed().map(leafHash)).toString("hex");
  const judged = (told: { stored: Buffer; runs: Run[] }) =>
    judgePage({
      pageKey: "page",
      segmentKey: "segment",
      stored: told.stored,
      page: { markets: 32, runs: told.runs, root, runHashes: runHashesOf(told.stored, told.runs) } as Page,
      feedVersion,
    });
  expect(judged({ stored, runs })).toEqual({
    key: "segment",
    reason: "its page table is wrong about the runs of page",
  });
  expect(judged(pageWith(deflateRawSync(second!, flushed)))).toHaveProperty("rows.length", 32);
});

test("a run that refers to the one before it does not stand alone, though the page can be unpacked", () => {
  const dictionary = Buffer.concat([first!, separator]);
  const { stored, runs } = pageWith(deflateRawSync(second!, { ...flushed, dictionary }));
  expect(gunzipSync(stored)).toEqual(pageText(lines));
  expect(readWholePage(stored, runs)).toBeUndefined();
});

test.each([
  ["ends the stream", deflateRawSync(second!)],
  ["does not end where a byte does", deflateRawSync(second!, flushed).subarray(0, -4)],
])("a page cannot be unpacked where a run %s, though that can be read alone", (_, bytes) => {
  const { stored, runs } = pageWith(bytes);
  expect(readRun("", stored, { markets: 32, runs }, 1)).toEqual(lines.slice(16));
  expect(() => gunzipSync(stored)).toThrow();
  expect(readWholePage(stored, runs)).toBeUndefined();
});
