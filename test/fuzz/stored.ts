import { filterValuesOf } from "../../schemas/filters.ts";
import { ChangePart, encodeChangePart } from "../../snapshots/changes/record.ts";
import { keyOfLine } from "../../snapshots/format/market-line.ts";
import {
  compressPage,
  inflateRuns,
  isRun,
  maxPageRunBytes,
  type Page,
  readRun,
  readRunStart,
  runHashesOf,
  runsPiece,
} from "../../snapshots/format/page.ts";
import { leafHash, pageRootOf } from "../../snapshots/format/tree.ts";
import { rangeBitmap, wordsFor } from "../../snapshots/index/bitmap.ts";
import { encodeWords } from "../../snapshots/index/encode-words.ts";
import { encodeIds, idHash } from "../../snapshots/index/id-table.ts";
import { columnsOf } from "../../snapshots/index/index-header.ts";
import { createLabelTables, fieldsIn } from "../../snapshots/index/index-reader.ts";
import { padding } from "../../snapshots/index/sections.ts";
import {
  differencesFromHeader,
  encodeSegment,
  loadSegment,
  openColumns,
  openPages,
  readIndexHeader,
  readPages,
} from "../../snapshots/index/segment.ts";
import { WordTable, wordsMagic, wordsOf } from "../../snapshots/index/word-table.ts";
import { parseIndexHeader } from "../../snapshots/read/fetched-index.ts";
import { listParts } from "../../snapshots/read/index/index-parts.ts";
import { CorruptObjectError } from "../../snapshots/store/errors.ts";
import { sha256 } from "../../snapshots/store/layout.ts";
import { decodeRows, decodeWords } from "../helpers/archive/index-rows.ts";
import { market } from "../helpers/publish/records.ts";
import { need, needSame, parted, refused, refusedLater, type Target } from "./target.ts";

const markets = Array.from({ length: 18 }, (_, index) => ({
  ...market(index),
  category: index % 3 ? "Crypto" : `Rare ${index}`,
}));
/** Newest first, and short. */
const lines = markets.map((one) => Buffer.from(JSON.stringify({ ...one, dimensions: [] }))).toReversed();
const ids = encodeIds(markets.map(({ id }) => idHash(id)));
const words = encodeWords(markets.map(({ question }) => wordsOf(question)));

async function sampleSegment(count: number): Promise<Buffer> {
  const some = lines.slice(-count);
  const { page } = await compressPage(some);
  const root = pageRootOf(some.map(leafHash).toReversed()).toString("hex");
  const rows = markets.slice(0, count).map((one) => ({
    resolvedAt: Date.parse(one.resolvedAt),
    values: filterValuesOf(one),
  }));
  const ref = { unicode: "16.0", hash: sha256(words), bytes: words.length };
  return encodeSegment([{ ...page, root }], columnsOf(rows), ref);
}

/** An object of sections as an input: without its magic and the length of its header, which no change would keep. */
function unframed(stored: Buffer): Buffer {
  const end = 16 + stored.readUInt32LE(8);
  return Buffer.concat([stored.subarray(16, end), Buffer.alloc(1), stored.subarray(end + padding(end))]);
}

/** The object of an input. */
function framed(magic: string, input: Buffer): Buffer {
  if (input.subarray(0, 3).toString() === "PRS") return input;
  const [header, body] = parted(input);
  const lengths = Buffer.alloc(8);
  lengths.writeUInt32LE(header.length);
  const pad = Buffer.alloc(padding(magic.length + 8 + header.length));
  return Buffer.concat([Buffer.from(magic), lengths, header, pad, body]);
}

const segment: Target = {
  seeds: async () => {
    const [small, large] = [await sampleSegment(3), await sampleSegment(18)];
    return [small, unframed(small), unframed(large)];
  },
  maxBytes: 8192,
  words: ["markets", "epochs", "columns", "frequent", "sections", "pageMarkets", "runHashes", "index"],
  run(input) {
    const stored = framed("PRSSEG\r\n", input);
    const read = <T>(work: () => T) => refused(work, CorruptObjectError);
    const header = read(() => readIndexHeader("segment", stored));
    if (header) read(() => parseIndexHeader("index", header));
    const same = read(() => differencesFromHeader("segment", stored))?.length === 0;
    const table = read(() => openPages("segment", stored));
    table?.pageStarts.slice(1).forEach((end, index) => {
      const runs = Math.ceil((end - table.pageStarts[index]!) / 16);
      need(table.page(index).runs.length === runs, "a page has as many runs as its markets ask for");
    });
    read(() => listParts("segment", stored, ids));
    const loaded = read(() => loadSegment("segment", stored, createLabelTables()));
    if (loaded) need(loaded.residentBytes < 2 ** 20 + 64 * input.length, "memory follows from the bytes");
    const pages = read(() => readPages("segment", stored));
    const columns = read(() => openColumns("segment", stored));
    const rows = read(() => decodeRows("segment", stored));
    if (!(pages && columns && rows && same)) return;
    need(rows.length === columns.markets, "there is a row for each market");
    const ref = { unicode: "16.0", hash: sha256(words), bytes: words.length };
    // Values beyond a column's range fit its slices.
    const again = refused(
      () => encodeSegment(pages, columnsOf(rows), ref, fieldsIn(columns.columns)),
      RangeError,
    );
    if (!again) return;
    needSame(decodeRows("again", again), rows, "rows that were encoded again");
    needSame(readPages("again", again), pages, "pages that were encoded again");
  },
};

const page: Target = {
  seeds: () =>
    Promise.all(
      [1, 16, 18].map(async (count) => {
        const { page, stored } = await compressPage(lines.slice(0, count));
        const runs = page.runs.flatMap(({ compressedBytes, rawBytes }) => [compressedBytes, rawBytes]);
        return Buffer.concat([
          Buffer.of(page.runs.length),
          new Uint8Array(Uint16Array.from(runs).buffer),
          stored,
        ]);
      }),
    ),
  maxBytes: 8192,
  async run(input) {
    const count = Math.min(input[0] ?? 0, 4, Math.floor((input.length - 1) / 4));
    if (count < 1) return;
    const stored = input.subarray(1 + count * 4);
    const runs = Array.from({ length: count }, (_, run) => ({
      compressedBytes: input.readUInt16LE(1 + run * 4),
      rawBytes: Math.min(maxPageRunBytes, input.readUInt16LE(3 + run * 4)),
      crc: 0,
    }));
    const table = { markets: 16 * count, hash: sha256(stored), bytes: stored.length, runs };
    const hashes: Page = { ...table, runHashes: runHashesOf(stored, runs), root: "" };
    for (const index of runs.keys()) {
      const piece = runsPiece(stored, runs, index);
      need(isRun(hashes, index, piece.bytes), "a run fits its hash");
      const texts = refused(() => readRun("page", stored, table, index), CorruptObjectError);
      const length = texts?.reduce((sum, text) => sum + text.length, 0) ?? 0;
      need(length <= runs[index]!.rawBytes, "a run is as long as told");
      refused(() => readRunStart({ key: "page", index, piece }, 16, 1), CorruptObjectError);
    }
    const pieces = runs.map((_, index) => ({ key: "page", index, piece: runsPiece(stored, runs, index) }));
    const raw = await refusedLater(() => inflateRuns(pieces), CorruptObjectError);
    const told = runs.reduce((sum, run) => sum + run.rawBytes, 0);
    if (raw) need(raw.length === told, "runs are as long as told");
  },
};

const wordTable: Target = {
  seeds: () => [words, unframed(words), unframed(encodeWords([["a"], ["a", "ab", "b"]]))],
  async run(input) {
    const table = refused(() => new WordTable("words", framed(wordsMagic, input)), CorruptObjectError);
    if (!table) return;
    for (const [text, prefix] of [
      ["day", false],
      ["a", true],
    ] as const) {
      let turns = 0;
      const bits = rangeBitmap(table.markets, 0, table.markets);
      const turn = async () => {
        turns += 1;
      };
      await refusedLater(() => table.keepWords([{ text, prefix }], bits, turn), CorruptObjectError);
      need(turns <= 2 + (11 * input.length) / 4096, `${turns} turns`);
      need(bits.length === wordsFor(table.markets), "as many bits as markets");
    }
    const decoded = refused(() => decodeWords(table), CorruptObjectError);
    if (!decoded) return;
    need(decoded.length === table.markets, "there are words for each market");
    const sorted = (all: readonly (readonly string[])[]) => all.map((some) => [...new Set(some)].sort());
    const again = decodeWords(new WordTable("again", encodeWords(sorted(decoded))));
    needSame(sorted(again), sorted(decoded), "words that were encoded again");
  },
};

const changePart: Target = {
  seeds: async () => [
    Buffer.concat([
      Buffer.of(0x1f, 3),
      await encodeChangePart(lines.slice(0, 3).map((line) => ({ ...keyOfLine(line), line }))),
    ]),
    Buffer.concat(lines.slice(0, 3).flatMap((line) => [line, Buffer.from("\n")])),
    // Markets without a time.
    `\n{}`,
  ],
  async run(input) {
    const raw = input[0] === 0x1f;
    const id = "00000000-0000-4000-8000-000000000000";
    // What a hostile store says of the markets need not be what they say.
    const made = input
      .toString("latin1")
      .split("\n")
      .slice(0, 100)
      .map((text) => {
        const line = Buffer.from(text, "latin1");
        return {
          id: /[0-9a-f-]{36}/.exec(line.toString("latin1", 7, 43))?.[0] ?? id,
          resolvedAt: 1_735_689_600_000,
          line,
        };
      });
    const stored = raw
      ? input.subarray(2)
      : await encodeChangePart(made.map((one) => ({ ...one, id: uuid(one.id) })));
    const lines = raw ? (input[1] ?? 0) : made.length;
    const part = refused(() => new ChangePart("part", stored, lines), CorruptObjectError);
    if (!part) return;
    refused(() => part.markets(0), CorruptObjectError);
    const markets = refused(() => part.checked(), CorruptObjectError);
    if (!markets) return;
    need(markets.length === part.lines, "there are as many lines as told");
    const read = new ChangePart("again", await encodeChangePart(markets), lines).checked();
    needSame(read, markets, "markets that were encoded again");
  },
};

/** An id of the length that ids have. */
const uuid = (text: string) =>
  text
    .replaceAll("-", "")
    .padEnd(32, "0")
    .slice(0, 32)
    .replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");

export const targets: Record<string, Target> = { segment, page, words: wordTable, "change-part": changePart };
