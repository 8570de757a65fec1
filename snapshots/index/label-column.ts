import { addBits, type Bitmap, keepBits, popCount, setBit, wordsFor } from "./bitmap.ts";
import { buildIntegerColumn, type IntegerColumn, keepRange } from "./integer-column.ts";

/**
 * Labels of at least 1/32 of a segment's markets are frequent and coded in bit slices. Rare ones have posting lists.
 */
const frequentShare = 32;

/** A text column of one segment as it is stored. Labels are sorted by UTF-16 code units. */
export interface LabelColumn {
  /** Code n stands for frequent[n - 1], code 0, which exists only beside rare labels, for any of these. */
  codes: IntegerColumn;
  frequent: string[];
  rare: string[];
  /** The ordinals of markets with rare labels, label after label, in ascending order within a label. */
  postings: Uint16Array;
  /** One bit per posting, set where a label's postings begin. */
  starts: Bitmap;
}

/** A text column in memory, with ids of a LabelTable in place of labels. */
export interface LoadedLabelColumn extends Omit<LabelColumn, "frequent" | "rare"> {
  frequentIds: Uint32Array;
  rareIds: Uint32Array;
}

/** Of a segment's codes. A label that all markets have, as most versions are, then takes no slice. */
export function lowestCode(rare: readonly string[]): number {
  return rare.length > 0 ? 0 : 1;
}

/** Builds a column from the labels by ordinal, of which there may be at most 65,536. */
export function buildLabelColumn(values: readonly string[]): LabelColumn {
  const ordinals = new Map<string, number[]>();
  values.forEach((value, ordinal) => {
    const known = ordinals.get(value);
    if (known) known.push(ordinal);
    else ordinals.set(value, [ordinal]);
  });
  const labels = [...ordinals.keys()].sort();
  const isFrequent = (label: string) => ordinals.get(label)!.length * frequentShare >= values.length;
  const frequent = labels.filter(isFrequent);
  const rare = labels.filter((label) => !isFrequent(label));
  const codeOf = new Map(frequent.map((label, position) => [label, position + 1]));
  const codes = values.map((value) => codeOf.get(value) ?? 0);
  const postings = Uint16Array.from(rare.flatMap((label) => ordinals.get(label)!));
  const starts = new Uint32Array(wordsFor(postings.length));
  let position = 0;
  for (const label of rare) {
    setBit(starts, position);
    position += ordinals.get(label)!.length;
  }
  return {
    codes: buildIntegerColumn(codes, lowestCode(rare), frequent.length),
    frequent,
    rare,
    postings,
    starts,
  };
}

/** Clears every ordinal in `result` whose label is none of `ids`. */
export function keepLabels(column: LoadedLabelColumn, ids: readonly number[], result: Bitmap): void {
  const [first = 0] = ids;
  if (ids.length === 1 && column.frequentIds.includes(first)) {
    keepLabel(column, first, result);
    return;
  }
  const kept = new Uint32Array(result.length);
  for (const id of ids) {
    if (column.frequentIds.includes(id)) {
      const equal = result.slice();
      keepLabel(column, id, equal);
      addBits(kept, equal);
    } else {
      const rank = column.rareIds.indexOf(id);
      if (rank >= 0) for (const ordinal of postingsOf(column, rank)) setBit(kept, ordinal);
    }
  }
  keepBits(result, kept);
}

function keepLabel({ codes, frequentIds }: LoadedLabelColumn, id: number, result: Bitmap): void {
  const code = frequentIds.indexOf(id) + 1;
  keepRange(codes, code, code, result);
}

function postingsOf({ postings, starts }: LoadedLabelColumn, rank: number): Uint16Array {
  const start = nthBit(starts, rank);
  return postings.subarray(start, nthBit(starts, rank + 1) ?? postings.length);
}

/** The position of the n-th set bit, counted from 0 at the lowest; undefined when fewer bits are set. */
function nthBit(bitmap: Bitmap, n: number): number | undefined {
  let left = n;
  for (let word = 0; word < bitmap.length; word += 1) {
    const bits = popCount(bitmap[word]!);
    if (left >= bits) {
      left -= bits;
      continue;
    }
    let rest = bitmap[word]!;
    for (; left > 0; left -= 1) rest &= rest - 1;
    return word * 32 + 31 - Math.clz32(rest & -rest);
  }
  return undefined;
}
