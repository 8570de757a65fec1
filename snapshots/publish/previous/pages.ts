import { filterFields } from "../../../schemas/filters.ts";
import type { SegmentRef } from "../../../schemas/store/snapshot.ts";
import { cuts } from "../../format/cuts.ts";
import { firstWhere } from "../../format/first-where.ts";
import type { Page } from "../../format/page.ts";
import { readColumns, readPages } from "../../index/segment.ts";
import { timeAt } from "../../index/time-column.ts";
import { FormatError } from "../../store/errors.ts";
import { layout } from "../../store/layout.ts";

export interface PreviousSegment {
  ref: SegmentRef;
  /** Ordinal of its oldest market in the whole archive. */
  start: number;
  firstPage: number;
  /** Whether it has a column for every filter of this version. */
  indexed: boolean;
  pages: (Page & Span)[];
}

/** Epoch milliseconds of the oldest and the newest row. */
interface Span {
  oldest: number;
  newest: number;
}

export interface PreviousPage extends Span {
  page: Page;
  /** Ordinal of its oldest row. */
  start: number;
  /** Whether the store has it. A deleted page must be written again. */
  usable: boolean;
  /**
   * Whether the id of its newest row would end a segment wherever that began; undefined when the page boundaries do not
   * tell.
   */
  endsSegment: boolean | undefined;
}

/** Throws FormatError where a newer program made an index that this one would lose. */
export function readPreviousPages(key: string, stored: Buffer): Pick<PreviousSegment, "indexed" | "pages"> {
  const { times, fields, unknown } = readColumns(key, stored);
  if (unknown.length > 0) {
    const reason =
      `it has columns that this version does not know (${unknown.join(", ")}), and would not have any ` +
      "more";
    throw new FormatError(key, `${reason}: use a newer version of this program`);
  }
  let end = 0;
  const pages = readPages(key, stored).map((page) => {
    end += page.markets;
    return { ...page, oldest: timeAt(times, end - page.markets), newest: timeAt(times, end - 1) };
  });
  return { indexed: fields.length === filterFields.length, pages };
}

/** `present` are the objects that the store has; the whole archive has `markets` markets. */
export function placePages(
  segments: readonly PreviousSegment[],
  present: ReadonlyMap<string, number>,
  markets: number,
): PreviousPage[] {
  return segments.flatMap(({ ref, start, pages }) => {
    let end = start;
    return pages.map(({ oldest, newest, ...page }, index) => {
      end += page.markets;
      const usable = present.has(layout.page(page.hash));
      // The archive's last page may end without a cut, and a large segment may end because of its size.
      const last = index === pages.length - 1;
      const unknown = last && (end === markets || ref.markets + cuts.pageMax > cuts.segmentMax);
      return {
        page,
        start: end - page.markets,
        usable,
        oldest,
        newest,
        endsSegment: unknown ? undefined : last,
      };
    });
  });
}

/** The pages of one segment, out of all `pages`. */
export function pagesIn(
  { firstPage, pages: own }: PreviousSegment,
  pages: readonly PreviousPage[],
): readonly PreviousPage[] {
  return pages.slice(firstPage, firstPage + own.length);
}

export function pageIndexOf(pages: readonly PreviousPage[], ordinal: number): number {
  return firstWhere(1, pages.length, (index) => pages[index]!.start > ordinal) - 1;
}
