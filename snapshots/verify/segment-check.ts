import { crc32 } from "node:zlib";
import type { ObjectRef, SegmentRef } from "../../schemas/store/stored-objects.ts";
import { isKnownFeed } from "../../schemas/versions.ts";
import { Cutter, chunkBytes } from "../format/bytes.ts";
import { compareKeys, type MarketKey, type Outline } from "../format/market-line.ts";
import type { Page } from "../format/page.ts";
import { rootOver } from "../format/tree.ts";
import { checkWords, unicodeVersion } from "../index/encode-words.ts";
import { encodeIds, idHash } from "../index/id-table.ts";
import { columnsOf, fieldsBeyond, isKnownIndex, judgeHeader, sectionRootOf } from "../index/index-header.ts";
import { fieldsIn, readTimes, type WordsRef } from "../index/index-reader.ts";
import {
  differencesFromHeader,
  encodeSegment,
  openColumns,
  readIndexHeader,
  readPages,
} from "../index/segment.ts";
import { WordTable } from "../index/word-table.ts";
import { CorruptObjectError, unlessSync } from "../store/errors.ts";
import { layout, sha256 } from "../store/layout.ts";
import { besideSegment, referTo } from "../store/objects.ts";
import type { PageCheck } from "./page-check.ts";
import type { StoreCheck } from "./store-check.ts";

/** What the check of a manifest needs of a valid segment. */
export interface CheckedSegment {
  /** Its index header. */
  index: ObjectRef;
  ids: { root: string };
  oldest: MarketKey;
  newest: MarketKey;
}

/**
 * Checks every byte of a segment and its pages: rebuilds the segment from the pages, and compares the two. This also
 * finds an index that matches its name but not its pages. Where a page is at fault, the others are checked too, and the
 * result is undefined.
 */
export async function checkSegment(
  check: StoreCheck,
  ref: SegmentRef,
  feedVersion: string,
  pageCheck: PageCheck,
): Promise<CheckedSegment | undefined> {
  const key = layout.segment(ref.hash);
  const stored = await check.read(key, ref);
  const beside = await check.each(besideSegment(ref), ([besideKey, besideRef], part) =>
    part.attempt(() => part.read(besideKey, besideRef)),
  );
  const pages = readPages(key, stored);
  // The error names the page or the segment, whichever is wrong.
  const readRows = (page: Page, part: StoreCheck) => {
    const pageKey = layout.page(page.hash);
    return part.attempt(async () => {
      const stored = await check.storage.get(pageKey);
      if (!stored) throw new CorruptObjectError(pageKey, `it is missing, and ${key} names it`);
      if (sha256(stored) !== page.hash)
        throw new CorruptObjectError(pageKey, "its content does not match its name");
      if (stored.length !== page.bytes)
        throw new CorruptObjectError(key, `its page table is wrong about the size of ${pageKey}`);
      part.count(pageKey, stored.length);
      const judged = await pageCheck.ask({ pageKey, segmentKey: key, stored, page, feedVersion });
      if ("rows" in judged) return judged.rows;
      throw new CorruptObjectError(judged.key, judged.reason);
    });
  };
  // While a page waits for its worker, both threads hold it.
  const pageRows = await check.each(pages, readRows, { bytes: ({ bytes }) => 2 * bytes });
  const rows = pageRows.flatMap((own) => own ?? []);
  const [digests, ids, words] = beside;
  if (pageRows.includes(undefined) || !digests || !ids || !words) return undefined;
  for (const [ordinal, row] of rows.entries()) {
    const before = rows[ordinal - 1];
    if (before && compareKeys(before, row) >= 0)
      throw new CorruptObjectError(key, `market ${row.id} is not in the archive's order`);
  }
  checkCuts(key, pages, rows);
  if (rows.length !== ref.markets) {
    throw new CorruptObjectError(key, "its number of markets differs from the manifest's");
  }
  if (rootOver("segment", pages).toString("hex") !== ref.root) {
    throw new CorruptObjectError(key, "its root differs from the manifest's");
  }
  if (digests.length !== ref.markets * BigUint64Array.BYTES_PER_ELEMENT) {
    throw new CorruptObjectError(layout.rows(ref.rows.hash), "it does not hold one digest per market");
  }
  if (!encodeIds(rows.map(({ id }) => idHash(id))).equals(ids)) {
    throw new CorruptObjectError(
      layout.ids(ref.ids.hash),
      `it does not match the ids of the markets of ${key}`,
    );
  }
  const { hash, bytes } = ref.words;
  const wordsKey = layout.words(hash);
  const { unicode } = new WordTable(wordsKey, words);
  const questions = rows.map(({ question }) => question);
  // Characters that only one version of Unicode has may make words differ. That is no fault of the object.
  if (checkWords(wordsKey, words, { segment: key, questions }) === "unjudged")
    check.unchecked.push({
      key: wordsKey,
      reason: `its words were made by Unicode ${unicode}, and this Node has Unicode ${unicodeVersion}`,
    });
  checkIndex(check, key, stored, { pages, rows, words: { unicode, hash, bytes } }, feedVersion);
  return {
    index: referTo(readIndexHeader(key, stored)),
    ids: { root: sectionRootOf(ids, chunkBytes.ids) },
    oldest: rows[0]!,
    newest: rows.at(-1)!,
  };
}

/** What a segment says of itself. Its ends can be compared by time alone, as ids stand in its pages. */
export function believeSegment(
  check: StoreCheck,
  { hash, ids }: SegmentRef,
  stored: Buffer,
): CheckedSegment | undefined {
  const key = layout.segment(hash);
  const header = readIndexHeader(key, stored);
  if (!canJudge(check, key, header)) return undefined;
  const { oldest, newest } = readTimes(openColumns(key, stored));
  return {
    index: referTo(header),
    ids,
    oldest: { resolvedAt: oldest, id: "~" },
    newest: { resolvedAt: newest, id: "" },
  };
}

function canJudge(check: StoreCheck, key: string, header: Uint8Array): boolean {
  if (isKnownIndex(key, header)) return true;
  const reason = "its index header is of a version that this program does not know";
  check.unchecked.push({ key, reason });
  return false;
}

/** Compares the index and its header with one made from the pages, without columns that this version does not know. */
function checkIndex(
  check: StoreCheck,
  key: string,
  stored: Buffer,
  parts: { pages: readonly Page[]; rows: readonly Outline[]; words: WordsRef },
  feed: string,
): void {
  const header = readIndexHeader(key, stored);
  if (!canJudge(check, key, header)) return;
  const { columns } = openColumns(key, stored);
  const fields = fieldsIn(columns);
  const others = fields.length < columns.length;
  const whole = !others && (isKnownFeed(feed) || fieldsBeyond(fields, parts.rows).length === 0);
  const again = () => encodeSegment(parts.pages, columnsOf(parts.rows), parts.words, fields).equals(stored);
  if (whole && unlessSync(RangeError, again)) return;
  // Other columns or other sections come from another version.
  const { wrong } = judgeHeader(key, header, parts, feed);
  wrong.push(...differencesFromHeader(key, stored));
  if (wrong.length > 0 || !others) {
    const where = [...new Set(wrong)].join(", ");
    throw new CorruptObjectError(key, `its index does not match its pages${where && `: ${where}`}`);
  }
  check.unchecked.push({ key, reason: "it has columns that this version does not know" });
}

/** Pages must end where the format cuts. The end of the segment depends on what follows it, so it is not checked. */
function checkCuts(key: string, pages: readonly Page[], rows: readonly Outline[]): void {
  const cutter = new Cutter();
  const ends = new Set<number>();
  let markets = 0;
  for (const page of pages) {
    markets += page.markets;
    ends.add(markets);
  }
  rows.forEach(({ id }, ordinal) => {
    const isLast = ordinal === rows.length - 1;
    const cut = cutter.next(crc32(id));
    if (!isLast && (cut === "segment" || (cut === "page") !== ends.has(ordinal + 1))) {
      throw new CorruptObjectError(key, `its page boundaries are wrong at market ${id}`);
    }
  });
}
