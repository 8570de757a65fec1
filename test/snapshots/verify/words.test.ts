import { afterEach, expect, test } from "vitest";
import { encodeWords } from "../../../snapshots/index/encode-words.ts";
import { encodeIds, idHash } from "../../../snapshots/index/id-table.ts";
import { sectionRootOf } from "../../../snapshots/index/index-header.ts";
import { unicodeVersion } from "../../../snapshots/index/unicode.ts";
import { WordTable } from "../../../snapshots/index/word-table.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { referTo } from "../../../snapshots/store/objects.ts";
import { verify } from "../../../snapshots/verify/verify.ts";
import { publishRecords, recordsOf } from "../../helpers/publish/records.ts";
import { memoryStorage } from "../../helpers/store/storages.ts";
import { newestManifest, type Objects, replaceBesides } from "../../helpers/store/tamper.ts";

const objects: Objects = new Map();
const storage = memoryStorage(objects);
afterEach(() => objects.clear());

/** Puts other words in the place of the only segment's, and makes all above agree. Returns their key. */
function replaceWords(change: (words: string[][]) => string[][], unicode?: string): string {
  const [segment] = newestManifest(objects).segments;
  const words = new WordTable("words", objects.get(layout.wordsOf(segment!.words.hash))!).decode();
  return replaceBeside("words", layout.wordsOf, encodeWords(change(words), unicode));
}

function replaceBeside(kind: "words" | "ids", keyOf: (hash: string) => string, bytes: Buffer): string {
  const ref = referTo(bytes);
  objects.set(keyOf(ref.hash), bytes);
  replaceBesides(
    objects,
    0,
    kind === "ids" ? { ids: { ...ref, root: sectionRootOf("ids", bytes) } } : { words: ref },
  );
  return keyOf(ref.hash);
}

const more = (words: string[][]) => words.map((all, market) => (market === 5 ? [...all, "other"] : all));

test("words that the questions do not have are a fault", async () => {
  await publishRecords(storage, recordsOf(0, 50));
  const key = replaceWords(more);
  expect(await verify(storage, () => {})).toMatchObject({ faults: [{ key }], unchecked: [] });
});

test("ids that the markets do not have are a fault, and so are ordinals of other markets", async () => {
  const records = recordsOf(0, 50);
  await publishRecords(storage, records);
  const hashes = records.map(({ id }) => idHash(id)).reverse();
  const [first, second, ...rest] = hashes;
  for (const wrong of [hashes.with(7, 1), [second!, first!, ...rest]]) {
    const key = replaceBeside("ids", layout.idsOf, encodeIds(wrong));
    expect(await verify(storage, () => {})).toMatchObject({ faults: [{ key }] });
  }
  replaceBeside("ids", layout.idsOf, encodeIds(hashes));
  expect(await verify(storage, () => {})).toMatchObject({ faults: [] });
});

test("words of another version of Unicode are checked where both agree, and told apart where not", async () => {
  await publishRecords(storage, recordsOf(0, 50));
  replaceWords((words) => words, "1.0");
  expect(await verify(storage, () => {})).toMatchObject({ faults: [], unchecked: [] });
  const key = replaceWords(more, "1.0");
  const reason = `its words were made by Unicode 1.0, and this Node has Unicode ${unicodeVersion}`;
  expect(await verify(storage, () => {})).toMatchObject({ faults: [], unchecked: [{ key, reason }] });
});

test("a publisher makes words anew that another version of Unicode made", async () => {
  await publishRecords(storage, recordsOf(0, 50));
  replaceWords(more, "1.0");
  // A segment whose words stay the same keeps them; this one gets a market.
  await publishRecords(storage, recordsOf(0, 51));
  const [segment] = newestManifest(objects).segments;
  const key = layout.wordsOf(segment!.words.hash);
  const table = new WordTable(key, objects.get(key)!);
  expect(table.unicode).toBe(unicodeVersion);
  expect(table.decode().flat()).not.toContain("other");
});
