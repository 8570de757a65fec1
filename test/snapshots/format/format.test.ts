import { constants, crc32, deflateRawSync, gunzipSync } from "node:zlib";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { feedVersion } from "../../../schemas/versions.ts";
import { Cutter } from "../../../snapshots/format/bytes.ts";
import {
  combineCrc,
  compressPiece,
  gzipAround,
  gzipEnd,
  gzipHeader,
  inflatePieces,
  joinGzip,
  measureOf,
  splice,
  storedPiece,
} from "../../../snapshots/format/gzip.ts";
import {
  compressPage,
  inflateRuns,
  isRun,
  joinRuns,
  type Page,
  pageText,
  type Run,
  readRun,
  readRunStart,
  readWholePage,
  runHashesOf,
  runMarkets,
  runsPiece,
  separator,
} from "../../../snapshots/format/page.ts";
import { leafHash, pageRootOf } from "../../../snapshots/format/tree.ts";
import { sha256 } from "../../../snapshots/store/layout.ts";
import { judgePage } from "../../../snapshots/verify/page-check.ts";
import { recordsOf } from "../../helpers/publish/records.ts";

// Without `size` fast-check makes arrays of some ten elements, whatever their maximum.
const bytes = fc.uint8Array({ maxLength: 3000, size: "max" }).map((array) => Buffer.from(array));

describe("combineCrc(crcA, crcB, lengthB)", () => {
  test("equals the CRC of the concatenation", () => {
    fc.assert(
      fc.property(bytes, bytes, (a, b) => {
        expect(combineCrc(crc32(a), crc32(b), b.length)).toBe(crc32(Buffer.concat([a, b])));
      }),
    );
  });

  test("does not depend on what is joined first, up to 2^40 bytes", () => {
    const crc = fc.nat(2 ** 32 - 1);
    const length = fc.oneof(fc.nat(1000), fc.nat(2 ** 39));
    fc.assert(
      fc.property(crc, crc, crc, length, length, (a, b, c, ofB, ofC) => {
        const last = combineCrc(combineCrc(a, b, ofB), c, ofC);
        expect(combineCrc(a, combineCrc(b, c, ofC), ofB + ofC)).toBe(last);
      }),
    );
  });
});

describe("joinGzip(pieces)", () => {
  test("makes one gzip member of compressed and stored pieces in any order", async () => {
    const piece = fc.record({ raw: bytes, stored: fc.boolean() });
    await fc.assert(
      fc.asyncProperty(fc.array(piece, { maxLength: 8 }), bytes, async (parts, tail) => {
        const pieces = await Promise.all(
          parts.map(({ raw, stored }) => (stored ? storedPiece(raw) : compressPiece(raw, 6))),
        );
        const whole = Buffer.concat([...parts.map(({ raw }) => raw), tail]);
        expect(gunzipSync(joinGzip([...pieces, storedPiece(tail, true)]))).toEqual(whole);
        expect(gunzipSync(Buffer.concat(gzipAround(tail, splice(pieces), tail)))).toEqual(
          Buffer.concat([tail, whole]),
        );
        const sent = pieces.map((piece) => piece.bytes);
        const untailed = whole.subarray(0, whole.length - tail.length);
        expect(gunzipSync(Buffer.concat([gzipHeader, ...sent, gzipEnd(measureOf(pieces))]))).toEqual(
          untailed,
        );
        expect(await inflatePieces(pieces)).toEqual(untailed);
      }),
    );
  });

  test("is as RFC 1952 says, without name and time, and refuses what a stored piece cannot hold", () => {
    expect(gzipHeader.toString("hex")).toBe("1f8b08000000000000ff");
    // The trailer counts raw bytes modulo 2^32.
    const piece = { bytes: Buffer.alloc(0), rawBytes: 2 ** 33 + 5, crc: 0 };
    expect(joinGzip([piece]).subarray(-4)).toEqual(Buffer.of(5, 0, 0, 0));
    expect(storedPiece(Buffer.alloc(65_535)).bytes.length).toBe(65_540);
    expect(() => storedPiece(Buffer.alloc(65_536))).toThrow(RangeError);
  });
});

const question = fc.oneof(
  fc.string({ unit: "grapheme", maxLength: 60 }),
  // However well they compress.
  fc.string({ maxLength: 500, size: "max" }),
);
const market = fc.record({ id: fc.uuid(), question });

test("a page is a gzip file whose runs are read alone, together, or any number of their first markets", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(market, { minLength: 1, maxLength: 100, size: "max" }), async (markets) => {
      const lines = markets.map((value) => Buffer.from(JSON.stringify(value)));
      const { page, stored } = await compressPage(lines);
      expect(gunzipSync(stored)).toEqual(pageText(lines));
      expect(JSON.parse(String(pageText(lines)))).toEqual(markets);
      expect(page).toMatchObject({ markets: lines.length, hash: sha256(stored), bytes: stored.length });
      expect(page.runs.length).toBe(Math.ceil(lines.length / runMarkets));
      expect(readWholePage(stored, page.runs)).toEqual(lines);
      const runs = page.runs.map((_, index) => ({
        ...{ key: "page", index, piece: runsPiece(stored, page.runs, index) },
        lines: lines.slice(runMarkets * index, runMarkets * (index + 1)),
      }));
      expect(page.runHashes).toBe(runs.map(({ piece }) => sha256(piece.bytes).slice(0, 32)).join(""));
      for (const run of runs) {
        expect(readRun("page", stored, page, run.index)).toEqual(run.lines);
        for (let count = 1; count <= run.lines.length; count += 1) {
          const read = readRunStart(run, run.lines.length, count);
          expect(read.length).toBeGreaterThanOrEqual(count);
          expect(read).toEqual(run.lines.slice(0, read.length));
        }
        for (const { piece } of runs)
          expect(isRun(page, run.index, piece.bytes)).toBe(piece.bytes.equals(run.piece.bytes));
      }
      const together = runs.map((run) => run.lines.join(",\n")).join("");
      expect(String(await inflateRuns(runs))).toBe(together);
    }),
    { numRuns: 40 },
  );
});

test("runs that are inflated together are refused by the name of the one that its table is wrong about", async () => {
  const { page, stored } = await compressPage(
    Array.from({ length: 70 }, (_, n) => Buffer.from(`{"id":${n}}`)),
  );
  const runs = page.runs.map((_, index) => ({
    key: `page ${index}`,
    index,
    piece: runsPiece(stored, page.runs, index),
  }));
  const [first, second, third] = runs as [(typeof runs)[0], (typeof runs)[0], (typeof runs)[0]];
  const wrong = (change: Partial<typeof first.piece>) => [
    first,
    { ...second, piece: { ...second.piece, ...change } },
    third,
  ];
  // One is longer than its table says, and the next as much shorter.
  const moved = wrong({ rawBytes: second.piece.rawBytes - 7 });
  moved[2] = { ...third, piece: { ...third.piece, rawBytes: third.piece.rawBytes + 7 } };
  const cut = wrong({ bytes: second.piece.bytes.subarray(0, 40) });
  const ends = wrong({ bytes: Buffer.from([3, 0]) });
  const damaged = wrong({ bytes: Buffer.alloc(100, 0xff) });
  for (const runs of [moved, cut, ends, damaged])
    await expect(inflateRuns(runs)).rejects.toThrow("page 1: run 1");
});

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

test.each<[what: string, isWhole: boolean, bytes: Buffer]>([
  ["stands alone, however it was compressed,", true, deflateRawSync(second!, flushed)],
  [
    "refers to the one before it",
    false,
    deflateRawSync(second!, { ...flushed, dictionary: Buffer.concat([first!, separator]) }),
  ],
  ["ends the stream", false, deflateRawSync(second!)],
  ["does not end where a byte does", false, deflateRawSync(second!, flushed).subarray(0, -4)],
])("a page with a run that %s is read whole: %s", (_, isWhole, bytes) => {
  const { stored, runs } = pageWith(bytes);
  expect(readWholePage(stored, runs)).toEqual(isWhole ? lines : undefined);
  // With another byte around its runs it is not, either.
  stored[stored.length - 1]! ^= 1;
  expect(readWholePage(stored, runs)).toBeUndefined();
});

test("runs of other lengths make the same page, which verify refuses, since readers count on 16", () => {
  const parts = [lines.slice(0, 15), lines.slice(15)].map((some) => {
    const raw = pageText(some).subarray(2, -2);
    return { raw, bytes: deflateRawSync(raw, flushed) };
  });
  const { stored, runs } = pageOf(parts);
  expect(gunzipSync(stored)).toEqual(pageText(lines));
  const root = pageRootOf(lines.toReversed().map(leafHash)).toString("hex");
  const judged = ({ stored, runs }: { stored: Buffer; runs: Run[] }) => {
    const page = { markets: 32, runs, root, runHashes: runHashesOf(stored, runs) } as Page;
    return judgePage({ pageKey: "page", segmentKey: "segment", stored, page, feedVersion });
  };
  expect(judged({ stored, runs })).toEqual({
    key: "segment",
    reason: "its page table is wrong about the runs of page",
  });
  expect(judged(pageWith(deflateRawSync(second!, flushed)))).toHaveProperty("rows.length", 32);
});

describe("a cutter", () => {
  test("cuts where snapshots/SPEC.md says, also when no id ever asks for it", () => {
    const hashes = Array.from({ length: 60_000 }, (_, n) => crc32(sha256(String(n)).slice(0, 32)));
    for (const all of [hashes, Array<number>(140_000).fill(1)]) {
      const cutter = new Cutter();
      let [page, segment] = [0, 0];
      const expected = all.map((h) => {
        page += 1;
        segment += 1;
        if (!(page >= 32 && h % 96 === 0) && page < 512) return "none";
        page = 0;
        if (!(h % 96 === 0 && Math.floor(h / 96) % 160 === 0) && segment <= 65_024) return "page";
        segment = 0;
        return "segment";
      });
      expect(all.map((hash) => cutter.next(hash))).toEqual(expected);
      expect(new Set(expected).size).toBe(3);
    }
  });

  test("ends a segment where a largest page would not fit into it, and counts anew after it", () => {
    const cutter = new Cutter();
    const pages = [65_024, 1, 65_024, 1].map((markets) => cutter.page(markets, false));
    expect(pages).toEqual(["page", "segment", "page", "segment"]);
    expect([cutter.page(1, true), cutter.page(65_024, false)]).toEqual(["segment", "page"]);
  });
});
