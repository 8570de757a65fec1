import { describe, expect, test } from "vitest";
import { type FilterValues, filterFields } from "../../../schemas/filters.ts";
import { feedVersion } from "../../../schemas/versions.ts";
import type { Page } from "../../../snapshots/format/page.ts";
import { buildIntegerColumn, buildLabelColumn, faultIn, timeAt } from "../../../snapshots/index/columns.ts";
import { columnsOf, type IndexRow, judgeHeader } from "../../../snapshots/index/index-header.ts";
import { createLabelTables, parseIndexHeader } from "../../../snapshots/index/index-reader.ts";
import {
  addRowsByFile,
  decodeOrigins,
  encodeOrigins,
  encodeSegment,
  loadSegment,
  openPages,
  readIndexHeader,
  readPages,
  readSections,
} from "../../../snapshots/index/segment.ts";
import { decodeRows } from "../../helpers/archive/index-rows.ts";

// What is wrong in an index is said before anything is made of it.

/** 600 markets in two pages: two frequent labels in each column, and a rare one for every fifteenth market. */
const count = 600;
const rows = Array.from({ length: count }, (_, n) => {
  const madeFor = (row: (typeof filterFields)[number]) => {
    if (row.kind === "integer") return row.min + (n % (row.max - row.min + 1));
    return n % 15 === 7 ? `rare ${n}` : ["one", "two"][n % 2]!;
  };
  const values = Object.fromEntries(filterFields.map((row) => [row.field, madeFor(row)]));
  return { resolvedAt: 2 ** 32 - 300 + n, values: values as FilterValues };
});
const page = (markets: number): Page => ({
  markets,
  hash: "ab".repeat(32),
  bytes: 1,
  root: "cd".repeat(32),
  runs: Array.from({ length: Math.ceil(markets / 16) }, () => ({ compressedBytes: 1, rawBytes: 1, crc: 1 })),
  runHashes: "0f".repeat(16 * Math.ceil(markets / 16)),
});
const words = { unicode: "16", hash: "ef".repeat(32), bytes: 5 };
const stored = encodeSegment([page(512), page(88)], columnsOf(rows), words);
const label = filterFields.find(({ kind }) => kind === "label")!.field;

type Json = ReturnType<typeof JSON.parse>;
type Change = (header: Json) => void;
const columnIn = (header: Json, name: string) => header.columns.find((column: Json) => column.name === name);

describe("a segment", () => {
  test("gives back what was put in, whatever the alignment of its bytes", () => {
    for (let shift = 0; shift < 8; shift += 1) {
      const shifted = Buffer.concat([Buffer.alloc(shift), stored]).subarray(shift);
      expect(readPages("it", shifted)).toEqual([page(512), page(88)]);
      expect(decodeRows("it", shifted)).toEqual(rows);
      const segment = loadSegment("it", shifted, createLabelTables());
      expect(rows.map((_, n) => timeAt(segment.times, n))).toEqual(rows.map((row) => row.resolvedAt));
      expect([segment.markets, ...segment.pageStarts]).toEqual([600, 0, 512, 600]);
    }
    expect(loadSegment("it", stored, createLabelTables()).residentBytes).toBeGreaterThan(
      readSections("it", stored)("runHashes", 38 * 16).length + 4 * count,
    );
  });

  test("holds no value beyond the bounds of its column", () => {
    expect(() => buildIntegerColumn([1, 101], 0, 100)).toThrow(RangeError);
  });

  /** The segment with other bytes at a place of a section. */
  function withBytes(section: string, at: number, bytes: readonly number[]): Buffer {
    const changed = Buffer.from(stored);
    readSections("it", changed)(section).set(bytes, at);
    return changed;
  }

  test.for<[what: string, section: string, at: number, bytes: number[], fault: string]>([
    ["a page in a later encoding", "pageEncodings", 1, [1], "a page of it has encoding 1"],
    ["too few markets in its pages", "pageMarkets", 2, [87], "its pages do not have as many markets"],
    ["a page of 528 markets", "pageMarkets", 0, [0x10, 2, 72, 0], "a page or a run of it is longer"],
    ["a run that is too long", "runs", 12 + 4, [0, 0, 0, 1], "a page or a run of it is longer"],
    ["times that do not ascend", "times", 4 * 5, [0, 0, 0, 0], "its section times does not ascend"],
    ["rare labels that are no JSON", `${label}.rare`, 0, [0x7b], `its section ${label}.rare is not JSON`],
    ["a market twice", `${label}.postings`, 0, [0xff, 0xff], "postings names a market beyond the last"],
    ["no beginning of a list", `${label}.starts`, 0, [0xfe], "starts does not begin a list"],
  ])("with %s is refused", ([, section, at, bytes, fault]) => {
    expect(() => {
      readPages("it", withBytes(section, at, bytes));
      loadSegment("it", withBytes(section, at, bytes), createLabelTables());
    }).toThrow(fault);
  });

  /** The segment with another header. */
  function withHeader(change: Change): Buffer {
    const end = 16 + stored.readUInt32LE(8);
    const header = JSON.parse(stored.toString("utf8", 16, end));
    change(header);
    const json = Buffer.from(JSON.stringify(header));
    const head = Buffer.concat([stored.subarray(0, 16), json, Buffer.alloc(-json.length & 7)]);
    head.writeUInt32LE(json.length, 8);
    return Buffer.concat([head, stored.subarray(Math.ceil(end / 8) * 8)]);
  }

  test.for<[fault: string, change: Change]>([
    ["pageHashes is missing or cut", (header) => (header.sections.pageMarkets[1] = 0)],
    ["pageHashes is missing or cut", (header) => (header.sections.pageMarkets[1] = 3)],
    ["pageHashes is missing or cut", (header) => (header.sections.pageMarkets[1] = 2 * 601)],
    ["ends at 4196704, beyond 4194304", (header) => (header.sections.times[0] = 4 * 2 ** 20)],
    ["sections", (header) => (header.sections = [])],
    ["times is missing or cut", (header) => delete header.sections.times],
    ["times is missing or cut", (header) => (header.sections.times[0] += 4)],
    ["pages do not have as many markets", (header) => (header.sections.times[1] -= 4)],
    ["times is missing or cut", (header) => (header.sections.times[0] = 2 ** 20)],
    ["runHashes is missing or cut", (header) => (header.sections.runHashes[1] -= 16)],
    [`${label}.postings is cut`, (header) => (header.sections[`${label}.postings`][1] -= 1)],
    ["has no format version", (header) => delete header.formatVersion],
  ])("whose header is wrong about %s is refused (%#)", ([fault, change]) => {
    expect(() => loadSegment("it", withHeader(change), createLabelTables())).toThrow(fault);
  });

  test("may have times up to the last day of 9999", () => {
    const index = readIndexHeader("it", stored);
    const told = JSON.parse(String(index));
    told.epochs[1] = [300, 58_999];
    const other = Buffer.from(JSON.stringify(told));
    const sized = withHeader((header) => (header.sections.index[1] = other.length));
    const late = Buffer.concat([sized.subarray(0, sized.indexOf(index)), other]);
    expect(loadSegment("it", late, createLabelTables()).times.newest).toBeGreaterThan(Date.UTC(9990));
    expect(openPages("it", stored).page(1)).toEqual({ ...page(88), root: undefined });
  });
});

describe("an index header", () => {
  const bytes = readIndexHeader("it", stored);
  const changed = (change: Change) => {
    const header = JSON.parse(String(bytes));
    change(header);
    return Buffer.from(JSON.stringify(header));
  };

  const made = { pages: [page(512), page(88)], rows, words };

  test("is read as it was made, and is the same as itself", () => {
    const { markets, oldest, newest, words: told } = parseIndexHeader("it", bytes);
    expect([markets, oldest, newest, told]).toEqual([600, 2 ** 32 - 300, 2 ** 32 + 299, words]);
    expect(judgeHeader("it", bytes, made, feedVersion)).toEqual({ wrong: [], unchecked: undefined });
    const same = rows.map(({ resolvedAt }) => ({ resolvedAt, values: rows[0]!.values }));
    const uniform = readIndexHeader("it", encodeSegment([page(512), page(88)], columnsOf(same), words));
    expect(parseIndexHeader("it", uniform).sections[`${label}.codes`]![0]).toBe(0);
    const last = Date.UTC(9999, 11, 31, 23, 59, 59, 999);
    expect(
      parseIndexHeader(
        "it",
        changed((header) => (header.newest = last)),
      ).newest,
    ).toBe(last);
  });

  test.for<[fault: string, change: Change]>([
    ["it is of version 2", (header) => (header.version = 2)],
    ["markets", (header) => (header.markets = 0)],
    ["markets", (header) => (header.markets = 65_537)],
    ["epochs", (header) => (header.epochs = [[1, 0]])],
    ["epochs", (header) => (header.epochs = [])],
    ["epochs", (header) => (header.epochs[1] = [0, 1])],
    ["epochs", (header) => (header.epochs[1] = [300, 0])],
    ["epochs", (header) => (header.epochs[1] = [600, 1])],
    ["epochs", (header) => (header.epochs[1] = [300, 59_000])],
    ["is not as documented: columns.0.name", (header) => (header.columns[0].name = 1)],
    ["is not as documented: columns", (header) => (columnIn(header, label).frequent = Array(33).fill("x"))],
    ["root", (header) => (header.root = "00")],
    ["oldest", (header) => (header.oldest = -1)],
    ["newest", (header) => (header.newest = header.oldest - 1)],
    ["newest", (header) => (header.newest = Date.UTC(10_000, 0))],
    ["words.bytes", (header) => (header.words.bytes = 0)],
    ["words.bytes", (header) => (header.words.bytes = 256 * 2 ** 20 + 1)],
    ["words.hash", (header) => (header.words.hash = "")],
    ["it has no section pageMarkets", (header) => delete header.sections.pageMarkets],
    ["section pageMarkets cannot have 0 bytes", (header) => (header.sections.pageMarkets[0] = 0)],
    ["section pageMarkets cannot have 5 bytes", (header) => (header.sections.pageMarkets[0] = 5)],
    ["section pageMarkets cannot have 1202 bytes", (header) => (header.sections.pageMarkets[0] = 1202)],
    ["section pageRoots cannot have", (header) => (header.sections.pageRoots[0] += 32)],
    ["section times cannot have", (header) => (header.sections.times[0] -= 4)],
    ["section composite cannot have", (header) => (header.sections.composite[0] += 4)],
    [`section ${label}.codes cannot have`, (header) => (header.sections[`${label}.codes`][0] += 4)],
    [`section ${label}.codes cannot have`, (header) => (header.sections[`${label}.postings`][0] = 0)],
    [`section ${label}.postings cannot have`, (header) => (header.sections[`${label}.postings`][0] += 1)],
    [`section ${label}.postings cannot have`, (header) => (header.sections[`${label}.postings`][0] = 1202)],
    [`section ${label}.starts cannot have`, (header) => (header.sections[`${label}.starts`][0] += 4)],
    [`section ${label}.rare cannot have`, (header) => (header.sections[`${label}.rare`][0] = 1)],
    [`section ${label}.rare cannot have`, (header) => (header.sections[`${label}.rare`][0] = 2 ** 20)],
    ["sections.times", (header) => header.sections.times.push(1)],
    ["sections.times", (header) => header.sections.times.pop()],
  ])("that is wrong about %s is refused (%#)", ([fault, change]) => {
    expect(() => parseIndexHeader("it", changed(change))).toThrow(fault);
  });

  test.for<[wrong: string[], unchecked: string | undefined, change: Change]>([
    [[], "version", (header) => (header.version = 2)],
    [["markets"], undefined, (header) => (header.markets = 1)],
    [["section times"], undefined, (header) => (header.sections.times[0] = 1)],
    [["section times"], undefined, (header) => delete header.sections.times],
    [["column composite"], "columns", (header) => (columnIn(header, "composite").max += 1)],
    [[], "columns", (header) => (header.sections.later = [0, header.root])],
    [[], "columns", (header) => header.columns.push({ name: "later", kind: "other" })],
    [["order of its members"], undefined, (header) => header.columns.reverse()],
    [
      [],
      undefined,
      (header) => {
        header.columns.splice(header.columns.indexOf(columnIn(header, "composite")), 1);
        delete header.sections.composite;
      },
    ],
  ])(
    "compared with what the markets give is wrong about %j, and not checked is %s (%#)",
    ([wrong, unchecked, change]) => {
      expect(judgeHeader("it", changed(change), made, feedVersion)).toEqual({ wrong, unchecked });
    },
  );

  test("is not judged where a market has a value that only a later version of the feed knows", () => {
    const [first, ...others] = rows as [IndexRow, ...IndexRow[]];
    const wider = { ...made, rows: [{ ...first, values: { ...first.values, composite: 1100 } }, ...others] };
    expect(judgeHeader("it", bytes, wider, "later")).toEqual({ wrong: [], unchecked: "columns" });
    const wrong = ["column composite"];
    expect(judgeHeader("it", bytes, wider, feedVersion)).toEqual({ wrong, unchecked: "columns" });
  });

  test("in another spelling is refused", () => {
    expect(() => judgeHeader("it", Buffer.from(` ${bytes}`), made, feedVersion)).toThrow(
      "not in the spelling of the format",
    );
  });
});

describe("a column of labels", () => {
  // 64 markets: a label of two of them is frequent, one of a single one is not.
  const markets = 64;
  const column = () => {
    const built = buildLabelColumn(Array.from({ length: markets }, (_, n) => (n < 4 ? `rare ${n}` : "most")));
    return { ...built, postings: built.postings.slice(), starts: built.starts.slice() };
  };
  const two = () => ({
    ...column(),
    rare: ["a", "b"],
    postings: Uint16Array.of(3, 9),
    starts: Uint32Array.of(3),
  });

  test("that was built has no fault, and neither has one without rare labels", () => {
    expect(faultIn(column(), markets)).toBeUndefined();
    expect(faultIn(two(), markets)).toBeUndefined();
    expect(faultIn(buildLabelColumn(Array(5).fill("all")), 5)).toBeUndefined();
  });

  test.for<[fault: string, change: Partial<ReturnType<typeof column>>]>([
    ["rare has labels that do not ascend", { rare: ["b", "a"] }],
    ["rare has labels that do not ascend", { rare: ["a", "a"] }],
    ["rare has labels that do not ascend", { frequent: ["b", "a"] }],
    ["postings has more markets than there are", { postings: new Uint16Array(65) }],
    ["postings names a market beyond the last", { postings: Uint16Array.of(3, 64) }],
    [
      "postings does not ascend within a label",
      { postings: Uint16Array.of(3, 3), starts: Uint32Array.of(1) },
    ],
    [
      "postings has too many markets of a label",
      { postings: Uint16Array.of(3, 9), starts: Uint32Array.of(1) },
    ],
    ["starts does not begin a list", { starts: Uint32Array.of(2) }],
    ["starts does not begin a list", { starts: Uint32Array.of(7) }],
    ["starts does not begin a list", { rare: ["a"] }],
    ["starts does not begin a list", { rare: [] }],
    ["starts does not begin a list", { rare: [], postings: Uint16Array.of(3), starts: new Uint32Array(1) }],
  ])("that %s is told so (%#)", ([fault, change]) => {
    expect(faultIn({ ...two(), ...change }, markets)).toContain(fault);
  });
});

describe("origins", () => {
  const hashes = Array.from({ length: 9 }, (_, n) => String((n * 7) % 9).repeat(64));

  test("are a count, hashes in ascending order, and slices", () => {
    const [low, high] = ["0f".repeat(32), "f0".repeat(32)] as const;
    expect(encodeOrigins([1, 2, 2], [high, low]).toString("hex")).toBe(`02000000${low}${high}01000000`);
    expect(encodeOrigins([2], [high, low]).toString("hex")).toBe(`01000000${low}`);
    const origins = decodeOrigins("it", encodeOrigins([1, 2, 2], [high, low]), 3);
    expect(Array.from(origins.places, (place) => origins.hashes[place])).toEqual([high, low, low]);
    const rowsOf = new Map([[low, 3]]);
    addRowsByFile(rowsOf, origins);
    expect(rowsOf).toEqual(
      new Map([
        [low, 5],
        [high, 1],
      ]),
    );
  });

  test("that are cut, longer, or name a file that they do not list are refused", () => {
    const numbers = [1, 2, 3];
    const whole = encodeOrigins(numbers, hashes);
    const wrong = [
      Buffer.alloc(3),
      Buffer.alloc(4),
      whole.subarray(0, -1),
      Buffer.concat([whole, Buffer.alloc(4)]),
    ];
    for (const bytes of wrong)
      expect(() => decodeOrigins("it", bytes, 3)).toThrow("it does not tell the file of every market");
    const fourth = Buffer.from(whole);
    fourth.fill(0xff, 4 + 3 * 32);
    expect(() => decodeOrigins("it", fourth, 3)).toThrow("it names a file that it does not list");
  });
});
