import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { type FilterValues, filterFields } from "../../../schemas/filters.ts";
import { feedVersion } from "../../../schemas/versions.ts";
import type { Page } from "../../../snapshots/format/page.ts";
import {
  buildIntegerColumn,
  buildLabelColumn,
  faultIn,
  inLabels,
  timeAt,
} from "../../../snapshots/index/columns.ts";
import { encodeWords } from "../../../snapshots/index/encode-words.ts";
import { columnsOf, type IndexRow, judgeHeader } from "../../../snapshots/index/index-header.ts";
import { createLabelTables, parseIndexHeader } from "../../../snapshots/index/index-reader.ts";
import {
  decodeOrigins,
  encodeOrigins,
  encodeSegment,
  loadSegment,
  openPages,
  readIndexHeader,
  readPages,
  readSections,
} from "../../../snapshots/index/segment.ts";
import { WordTable, wordsOf } from "../../../snapshots/index/word-table.ts";
import { decodeRows, decodeWords } from "../../helpers/archive/index-rows.ts";

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

/** What faults.txt has under a heading: changes, and what is said of each. */
function faultsOf(heading: string): [change: string, told: string][] {
  const text = readFileSync(new URL("faults.txt", import.meta.url), "utf8").replace(/^(#.*)?\n/gm, "");
  const sections = text.split(/^> /m).map((section) => section.trimEnd().split("\n"));
  const [, ...rows] = sections.find(([first]) => first === heading)!;
  return rows.flatMap((row) => {
    const [changes = "", told = ""] = row.split(" | ");
    return changes.split("  ").map((change): [string, string] => [change, told]);
  });
}

/** A document with such changes. */
function changed(document: Json, changes: string): Json {
  const copy = structuredClone(document);
  for (const change of changes.split("; ")) {
    const [path = "", sign, value = "0"] = change.split(" ");
    const names = path.split("/");
    const name = names.pop()!;
    const placeIn = (at: Json, of: string) =>
      Array.isArray(at) && Number.isNaN(Number(of)) ? at.findIndex((each) => each.name === of) : of;
    const holder = names.reduce((at, of) => at[placeIn(at, of)], copy);
    const [place, other] = [placeIn(holder, name), JSON.parse(value)];
    if (sign === "gone") Array.isArray(holder) ? holder.splice(Number(place), 1) : delete holder[place];
    else if (sign === "reversed") holder[place].reverse();
    else if (sign === "+" && Array.isArray(holder[place])) holder[place].push(other);
    else holder[place] = sign === "+" ? holder[place] + other : other;
  }
  return copy;
}

const bytesOf = (json: Json) => Buffer.from(JSON.stringify(json));

/** An object of sections with another header. */
function withHeader(object: Buffer, change: string): Buffer {
  const end = 16 + object.readUInt32LE(8);
  const json = bytesOf(changed(JSON.parse(object.toString("utf8", 16, end)), change));
  const head = Buffer.concat([object.subarray(0, 16), json, Buffer.alloc(-json.length & 7)]);
  head.writeUInt32LE(json.length, 8);
  return Buffer.concat([head, object.subarray(Math.ceil(end / 8) * 8)]);
}

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

  test("tells the markets of a few of its labels as of many", () => {
    const tables = createLabelTables();
    const column = loadSegment("it", stored, tables).labels.get("category")!;
    const rare = rows.flatMap((_, n) => (n % 15 === 7 ? n : []));
    for (const some of [rare.slice(0, 3), rare]) {
      const ids = new Set(some.map((n) => tables.category.find(`rare ${n}`)!));
      const found = inLabels(column, ids)!.ordinals.flatMap((list) => [...list]);
      expect(found.sort((a, b) => a - b)).toEqual(some);
    }
  });

  test("holds no value beyond the bounds of its column", () => {
    expect(() => buildIntegerColumn([1, 101], 0, 100)).toThrow(RangeError);
  });

  test.for(faultsOf("bytes of a segment"))("is refused where bytes are others: %s", ([change, fault]) => {
    const [section = "", at, bytes = ""] = change.split(" ");
    const other = Buffer.from(stored);
    readSections("it", other)(section).set(JSON.parse(bytes), Number(at));
    expect(() => {
      readPages("it", other);
      loadSegment("it", other, createLabelTables());
    }).toThrow(fault);
  });

  test.for(faultsOf("header of a segment"))("is refused where its header is wrong: %s", ([change, fault]) => {
    expect(() => loadSegment("it", withHeader(stored, change), createLabelTables())).toThrow(fault);
  });

  test("may have times up to the last day of 9999", () => {
    const index = readIndexHeader("it", stored);
    const other = bytesOf(changed(JSON.parse(String(index)), "epochs/1 = [300,58999]"));
    const sized = withHeader(stored, `sections/index/1 = ${other.length}`);
    const late = Buffer.concat([sized.subarray(0, sized.indexOf(index)), other]);
    expect(loadSegment("it", late, createLabelTables()).times.newest).toBeGreaterThan(Date.UTC(9990));
    expect(openPages("it", stored).page(1)).toEqual({ ...page(88), root: undefined });
  });
});

test.for(faultsOf("header of words"))(
  "words are refused where their header is wrong: %s",
  ([change, fault]) => {
    const stored = Buffer.from(encodeWords(["will the fed cut", "the fed", "no"].map(wordsOf)));
    expect(() => decodeWords(new WordTable("it", withHeader(stored, change)))).toThrow(fault);
  },
);

describe("an index header", () => {
  const bytes = readIndexHeader("it", stored);
  const other = (change: string) => bytesOf(changed(JSON.parse(String(bytes)), change));

  const made = { pages: [page(512), page(88)], rows, words };

  test("is read as it was made, and is the same as itself", () => {
    const { markets, oldest, newest, words: told } = parseIndexHeader("it", bytes);
    expect([markets, oldest, newest, told]).toEqual([600, 2 ** 32 - 300, 2 ** 32 + 299, words]);
    expect(judgeHeader("it", bytes, made, feedVersion)).toEqual({ wrong: [], unchecked: undefined });
    const same = rows.map(({ resolvedAt }) => ({ resolvedAt, values: rows[0]!.values }));
    const uniform = readIndexHeader("it", encodeSegment([page(512), page(88)], columnsOf(same), words));
    expect(parseIndexHeader("it", uniform).sections[`${label}.codes`]![0]).toBe(0);
    const last = Date.UTC(9999, 11, 31, 23, 59, 59, 999);
    expect(parseIndexHeader("it", other(`newest = ${last}`)).newest).toBe(last);
  });

  test.for(faultsOf("header of an index"))("is refused where it is wrong: %s", ([change, fault]) => {
    expect(() => parseIndexHeader("it", other(change))).toThrow(fault);
  });

  test.for(faultsOf("judged header"))("is judged by its markets: %s", ([change, told]) => {
    const { wrong, unchecked = null } = judgeHeader("it", other(change), made, feedVersion);
    expect(JSON.stringify([wrong, unchecked])).toBe(told);
  });

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

  test.for(faultsOf("column of labels"))("that has another list is told so: %s", ([change, fault]) => {
    const { postings, starts, ...plain } = two();
    const lists = changed({ ...plain, postings: [...postings], starts: [...starts] }, change);
    const typed = { postings: Uint16Array.from(lists.postings), starts: Uint32Array.from(lists.starts) };
    expect(faultIn({ ...two(), ...lists, ...typed }, markets)).toContain(fault);
  });
});

describe("origins", () => {
  const hashes = Array.from({ length: 9 }, (_, n) => String((n * 7) % 9).repeat(64));

  test("list hashes in ascending order", () => {
    const [low, high] = ["0f".repeat(32), "f0".repeat(32)];
    expect(encodeOrigins([1, 2, 2], [high, low]).toString("hex")).toBe(`02000000${low}${high}01000000`);
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
