import { beforeEach, describe, expect, test } from "vitest";
import type { SegmentRef } from "../../../schemas/store/stored-objects.ts";
import { formatVersion } from "../../../schemas/versions.ts";
import { encodeWords, unicodeVersion } from "../../../snapshots/index/encode-words.ts";
import { encodeIds, idHash } from "../../../snapshots/index/id-table.ts";
import { columnsOf } from "../../../snapshots/index/index-header.ts";
import { encodeSections } from "../../../snapshots/index/sections.ts";
import { encodeSegment, readIndexHeader, readPages, readSections } from "../../../snapshots/index/segment.ts";
import { WordTable } from "../../../snapshots/index/word-table.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { verify } from "../../../snapshots/verify/verify.ts";
import { decodeRows, decodeWords } from "../../helpers/archive/index-rows.ts";
import { publishRecords, recordsOf } from "../../helpers/publish/records.ts";
import { memoryStorage } from "../../helpers/store/storages.ts";
import {
  flipInIndex,
  newestEntry,
  newestManifest,
  type Objects,
  replaceBeside,
  replaceManifest,
  replaceSegment,
  wordsRefOf,
} from "../../helpers/store/tamper.ts";

const objects: Objects = new Map();
const storage = memoryStorage(objects);
/** Markets whose questions are theirs and, of the sixth, this one. One of them has a label that is rare. */
const asking = (question = "Will it rain?") =>
  recordsOf(0, 50)
    .map((one, n) => (n === 7 ? { ...one, category: "Odd" } : one))
    .map((one, n) => (n === 44 ? { ...one, question } : one));
const plain = asking();
let segment: SegmentRef;

/** Makes the store anew. */
async function hold(records = plain) {
  objects.clear();
  await publishRecords(storage, records);
  [segment] = newestManifest(objects).segments as [SegmentRef];
}
beforeEach(() => hold());

const found = () => verify(storage, () => {});

describe("An index that lies, of which all hashes and roots are right, is named:", () => {
  const stored = () => objects.get(layout.segment(segment.hash))!;

  test.each(["composite", "tier", "times", "category.postings"])(
    "a bit of its section %s",
    async (section) => {
      const before = newestEntry(objects).indexRoot;
      const name = flipInIndex(objects, 0, section);
      expect(newestEntry(objects).indexRoot).not.toBe(before);
      const reason = `its index does not match its pages: section ${section}`;
      expect((await found()).faults).toEqual([{ key: name, reason: expect.stringContaining(reason) }]);
    },
  );

  test("a header that tells of other sections than the segment has", async () => {
    const rows = decodeRows("segment", stored());
    rows.forEach((row, ordinal) => {
      rows[ordinal] = { ...row, values: { ...row.values, tier: 7 } };
    });
    const other = encodeSegment(
      readPages("segment", stored()),
      columnsOf(rows),
      wordsRefOf(objects, segment),
    );
    const [own, told] = [stored(), other].map((bytes) => readIndexHeader("segment", bytes));
    expect(own!.length).toBe(told!.length);
    const lying = Buffer.from(stored());
    told!.copy(lying, lying.indexOf(own!));
    const name = replaceSegment(objects, 0, lying);
    const reason = "its index does not match its pages: section tier";
    expect((await found()).faults).toEqual([{ key: name, reason }]);
  });

  test("a column of its header is nested deeper than JSON.stringify can go", async () => {
    const section = readSections("segment", stored());
    const { sections } = JSON.parse(stored().toString("utf8", 16, 16 + stored().readUInt32LE(8)));
    const nested = `{"name":"later","kind":"later","more":${"[".repeat(20_000)}${"]".repeat(20_000)}}`;
    const header = Buffer.from(String(section("index")).replace('"columns":[', `"columns":[${nested},`));
    const own = Object.keys(sections).map(
      (name) => [name, name === "index" ? header : section(name)] as const,
    );
    const name = replaceSegment(
      objects,
      0,
      Buffer.from(encodeSections("PRSSEG\r\n", { formatVersion }, own)),
    );
    const reason = "its index header is not in the spelling of the format";
    expect((await found()).faults).toEqual([{ key: name, reason }]);
  });

  test.for<[what: string, said: string, changes: (segment: SegmentRef) => Partial<SegmentRef>]>([
    ["header", "index header", ({ index }) => ({ index: { ...index, hash: "ab".repeat(32) } })],
    ["root of ids", "root of the ids", ({ ids }) => ({ ids: { ...ids, root: "ab".repeat(32) } })],
  ])("a manifest that names another %s", async ([, said, changes]) => {
    const name = replaceManifest(objects, { segments: [{ ...segment, ...changes(segment) }] });
    const reason = `it names another ${said} than ${layout.segment(segment.hash)} has`;
    expect((await found()).faults).toEqual([{ key: name, reason }]);
  });
});

/** Puts other words in the place of the only segment's, and makes all above agree. Returns their key. */
function replaceWords(change: (words: string[][]) => string[][], unicode?: string): string {
  const words = decodeWords(new WordTable("words", objects.get(layout.words(segment.words.hash))!));
  return replaceBeside(objects, 0, "words", encodeWords(change(words), unicode));
}

const segmentKey = () => layout.segment(newestManifest(objects).segments[0]!.hash);
/** What alters the words of a market, or of every second one. */
const atSixth = (change: (words: string[]) => string[]) => (words: string[][]) =>
  words.map((all, market) => (market === 5 ? change(all) : all));
const more = atSixth((all) => [...all, "other"]);
const without = (word: string) => (all: string[]) => all.filter((each) => each !== word);

test("words that the questions do not have are a fault", async () => {
  const key = replaceWords(more);
  const reason = `it does not match the questions of the markets of ${segmentKey()}`;
  expect(await found()).toMatchObject({ faults: [{ key, reason }], unchecked: [] });
});

test("ids that the markets do not have are a fault, and so are ordinals of other markets", async () => {
  const hashes = plain.map(({ id }) => idHash(id)).reverse();
  const [first, second, ...rest] = hashes;
  for (const wrong of [hashes.with(7, 1), [second!, first!, ...rest]]) {
    const key = replaceBeside(objects, 0, "ids", encodeIds(wrong));
    const reason = `it does not match the ids of the markets of ${segmentKey()}`;
    expect(await found()).toMatchObject({ faults: [{ key, reason }] });
  }
  replaceBeside(objects, 0, "ids", encodeIds(hashes));
  expect(await found()).toMatchObject({ faults: [] });
});

// The first character after "win" is of Unicode 14, and the second will be of none.
test.for(["Will it rain?", "Will ΣΑΣ win \u{1fae0}\u{2fffe} a prize?"])(
  "words of another version of Unicode that every version finds are compared all the same: %s",
  async (question) => {
    await hold(asking(question));
    const good = new Map(objects);
    replaceWords((words) => words, "15.0");
    expect(await found()).toMatchObject({ faults: [], unchecked: [] });
    for (const lie of [
      atSixth(without("will")),
      (words: string[][]) => words.map((all, market) => (market % 2 ? without("will")(all) : all)),
      (words: string[][]) => words.map((all, market) => (market === 6 ? [...all, "other"] : all)),
      (words: string[][]) => words.map(() => []),
    ]) {
      for (const [key, bytes] of good) objects.set(key, bytes);
      const key = replaceWords(lie, "15.0");
      expect(await found()).toMatchObject({ faults: [{ key }], unchecked: [] });
      objects.delete(key);
    }
  },
);

test("words beside characters that not every version knows are told as not judged", async () => {
  await hold(asking("Will \u{1fae0}win\u{2fffe}, or ΟΔΟΣ\u{2fffe}, rain?"));
  const key = replaceWords(
    atSixth((all) => [...without("win")(all), "winx"]),
    "1.0",
  );
  const reason = `its words were made by Unicode 1.0, and this Node has Unicode ${unicodeVersion}`;
  expect(await found()).toMatchObject({ faults: [], unchecked: [{ key, reason }] });
});

test("words in an order or at a place in which nobody finds them are a fault, whatever made them", async () => {
  await hold(asking("Will \u{2fffe} it rain?"));
  const stored = objects.get(layout.words(segment.words.hash))!.toString("latin1");
  const other = Buffer.from(stored.replace(`"${unicodeVersion}"`, '"15.0"'), "latin1");
  expect(other.length).toBe(stored.length);
  // The last of what is stored is of the postings.
  const place = other.findLastIndex((byte) => byte !== 0);
  other[place]! ^= 1;
  const key = replaceBeside(objects, 0, "words", other);
  expect(await found()).toMatchObject({ faults: [{ key }], unchecked: [] });
});

test("a publisher makes words anew that another version of Unicode made", async () => {
  replaceWords(more, "1.0");
  // A segment whose words stay the same keeps them; this one gets a market.
  await publishRecords(storage, recordsOf(0, 51));
  const key = layout.words(newestManifest(objects).segments[0]!.words.hash);
  const table = new WordTable(key, objects.get(key)!);
  expect(table.unicode).toBe(unicodeVersion);
  expect(decodeWords(table).flat()).not.toContain("other");
});
