import { crc32, gunzipSync } from "node:zlib";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Cutter, cuts } from "../../../snapshots/format/bytes.ts";
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
  pageText,
  readRun,
  readRunStart,
  runMarkets,
  runsPiece,
} from "../../../snapshots/format/page.ts";
import { sha256 } from "../../../snapshots/store/layout.ts";

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

  test("writes a header without name and time", () => {
    expect(gzipHeader.toString("hex")).toBe("1f8b08000000000000ff");
  });

  test("counts raw bytes modulo 2^32, as the trailer of a member does", () => {
    const piece = { bytes: Buffer.alloc(0), rawBytes: 2 ** 33 + 5, crc: 0 };
    expect(joinGzip([piece]).subarray(-4)).toEqual(Buffer.of(5, 0, 0, 0));
  });

  test("refuses a stored piece that its length field cannot hold", () => {
    expect(storedPiece(Buffer.alloc(65_535)).bytes.length).toBe(65_540);
    expect(() => storedPiece(Buffer.alloc(65_536))).toThrow(RangeError);
  });
});

const market = fc.record({ id: fc.uuid(), question: fc.string({ unit: "grapheme", maxLength: 60 }) });

describe("compressPage(lines)", () => {
  test("stores a valid gzip file whose runs can be read one by one", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(market, { minLength: 1, maxLength: 100, size: "max" }), async (markets) => {
        const lines = markets.map((value) => Buffer.from(JSON.stringify(value)));
        const { page, stored } = await compressPage(lines);
        expect(gunzipSync(stored)).toEqual(pageText(lines));
        expect(JSON.parse(String(pageText(lines)))).toEqual(markets);
        expect(page).toMatchObject({ markets: lines.length, hash: sha256(stored), bytes: stored.length });
        expect(page.runs.length).toBe(Math.ceil(lines.length / runMarkets));
        const read = page.runs.flatMap((_, index) => readRun("page", stored, page, index));
        expect(read).toEqual(lines);
        const runs = page.runs.map((_, index) => runsPiece(stored, page.runs, index).bytes);
        expect(page.runHashes).toBe(runs.map((run) => sha256(run).slice(0, 32)).join(""));
        for (const [index, run] of runs.entries())
          for (const other of runs) expect(isRun(page, index, other)).toBe(other.equals(run));
      }),
      { numRuns: 40 },
    );
  });

  test("lets any number of a run's first markets be read, however well they compress", async () => {
    const texts = fc.array(fc.string({ maxLength: 2000, size: "max" }), {
      ...{ minLength: 1, maxLength: runMarkets, size: "max" },
    });
    await fc.assert(
      fc.asyncProperty(texts, async (list) => {
        const lines = list.map((text) => Buffer.from(JSON.stringify(text)));
        const { page, stored } = await compressPage(lines);
        const run = { key: "page", index: 0, piece: runsPiece(stored, page.runs, 0) };
        for (let count = 1; count <= lines.length; count += 1) {
          const read = readRunStart(run, lines.length, count);
          expect(read.length).toBeGreaterThanOrEqual(count);
          expect(read).toEqual(lines.slice(0, read.length));
        }
      }),
      { numRuns: 40 },
    );
  });

  test("inflates runs together, and names the one that is not what its table says", async () => {
    const { page, stored } = await compressPage(
      Array.from({ length: 70 }, (_, n) => Buffer.from(`{"id":${n}}`)),
    );
    const runs = page.runs.map((_, index) => ({
      key: `page ${index}`,
      index,
      piece: runsPiece(stored, page.runs, index),
    }));
    const texts = page.runs.map((_, index) => readRun("page", stored, page, index).join(",\n"));
    expect(String(await inflateRuns(runs))).toBe(texts.join(""));
    const [first, second, third] = runs as [(typeof runs)[0], (typeof runs)[0], (typeof runs)[0]];
    const wrong = (change: Partial<typeof first.piece>) => [
      first,
      { ...second, piece: { ...second.piece, ...change } },
      third,
    ];
    // One is longer than told, and the next as much shorter.
    const moved = wrong({ rawBytes: second.piece.rawBytes - 7 });
    moved[2] = { ...third, piece: { ...third.piece, rawBytes: third.piece.rawBytes + 7 } };
    const cut = wrong({ bytes: second.piece.bytes.subarray(0, 40) });
    const ends = wrong({ bytes: Buffer.from([3, 0]) });
    const damaged = wrong({ bytes: Buffer.alloc(100, 0xff) });
    for (const runs of [moved, cut, ends, damaged])
      await expect(inflateRuns(runs)).rejects.toThrow("page 1: run 1");
    expect(String(await inflateRuns(runs))).toBe(texts.join(""));
  });
});

describe("Cutter", () => {
  const ids = Array.from({ length: 60_000 }, (_, n) => `${sha256(String(n)).slice(0, 32)}`);
  const cutAll = (list: readonly string[]) => {
    const cutter = new Cutter();
    return list.map((id) => cutter.next(crc32(id)));
  };

  test("cuts where snapshots/SPEC.md says", () => {
    let [page, segment] = [0, 0];
    const expected = ids.map((id) => {
      const h = crc32(id);
      page += 1;
      segment += 1;
      if (!(page >= 32 && h % 96 === 0) && page < 512) return "none";
      page = 0;
      if (!(h % 96 === 0 && Math.floor(h / 96) % 160 === 0) && segment <= 65_024) return "page";
      segment = 0;
      return "segment";
    });
    expect(cutAll(ids)).toEqual(expected);
    expect(new Set(expected).size).toBe(3);
  });

  test("bounds pages and segments also when no id ever asks for a cut", () => {
    const found = cutAll(Array.from({ length: 140_000 }, () => "the same id"));
    expect(found.filter((cut) => cut !== "none").length).toBe(Math.floor(140_000 / cuts.pageMax));
    expect(found.indexOf("segment") + 1).toBe(cuts.segmentMax);
  });

  test("ends a segment where a largest page would not fit into it, and counts anew after it", () => {
    const cutter = new Cutter();
    const pages = [65_024, 1, 65_024, 1].map((markets) => cutter.page(markets, false));
    expect(pages).toEqual(["page", "segment", "page", "segment"]);
    expect([cutter.page(1, true), cutter.page(65_024, false)]).toEqual(["segment", "page"]);
  });
});
