/** A set of ordinals: bit `n % 32` of word `n / 32` stands for ordinal n. */
export type Bitmap = Uint32Array;

export function wordsFor(bits: number): number {
  return (bits + 31) >>> 5;
}

export function popCount(word: number): number {
  let rest = word - ((word >>> 1) & 0x55555555);
  rest = (rest & 0x33333333) + ((rest >>> 2) & 0x33333333);
  return (Math.imul((rest + (rest >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24) >>> 0;
}

/** Counts bits from `from` (inclusive) to `to` (exclusive) that are set in both bitmaps. */
export function countRange(bitmap: Bitmap, from: number, to: number, other = bitmap): number {
  if (from >= to) return 0;
  const [first, last] = [from >>> 5, (to - 1) >>> 5];
  let count = 0;
  for (let word = first; word <= last; word += 1) {
    let bits = bitmap[word]! & other[word]!;
    if (word === first) bits &= 0xffffffff << (from & 31);
    if (word === last) bits &= 0xffffffff >>> (31 - ((to - 1) & 31));
    count += popCount(bits);
  }
  return count;
}

/** The position must lie within the bitmap. */
export function hasBit(bitmap: Bitmap, bit: number): boolean {
  return ((bitmap[bit >>> 5]! >>> (bit & 31)) & 1) === 1;
}

/** The position must lie within the bitmap. */
export function setBit(bitmap: Bitmap, bit: number): void {
  bitmap[bit >>> 5]! |= 1 << (bit & 31);
}

export function clearBits(bitmap: Bitmap, ordinals: Uint16Array): void {
  for (let index = 0; index < ordinals.length; index += 1) {
    const ordinal = ordinals[index]!;
    bitmap[ordinal >>> 5]! &= ~(1 << (ordinal & 31));
  }
}

/** Both bitmaps have the same length. */
export function addBits(result: Bitmap, more: Bitmap): void {
  for (let word = 0; word < result.length; word += 1) result[word]! |= more[word]!;
}

/** Both bitmaps have the same length. */
export function keepBits(result: Bitmap, kept: Bitmap): void {
  for (let word = 0; word < result.length; word += 1) result[word]! &= kept[word]!;
}

/** The bits from `from` (inclusive) to `to` (exclusive) are set. */
export function rangeBitmap(size: number, from: number, to: number): Bitmap {
  const bitmap = new Uint32Array(wordsFor(size));
  setRange(bitmap, from, to);
  return bitmap;
}

/** Sets the bits from `from` (inclusive) to `to` (exclusive), where none are set. */
export function setRange(bitmap: Bitmap, from: number, to: number): void {
  if (from >= to) return;
  const [first, last] = [from >>> 5, (to - 1) >>> 5];
  bitmap.fill(0xffffffff, first, last + 1);
  bitmap[first]! &= 0xffffffff << (from & 31);
  bitmap[last]! &= 0xffffffff >>> (31 - ((to - 1) & 31));
}

/** Up to `count` positions in descending order, after the `skip` highest. */
export function selectDescending(bitmap: Bitmap, skip: number, count: number): number[] {
  const positions: number[] = [];
  let passed = 0;
  for (let word = bitmap.length - 1; word >= 0 && positions.length < count; word -= 1) {
    const bits = popCount(bitmap[word]!);
    if (passed + bits <= skip) {
      passed += bits;
      continue;
    }
    for (let rest = bitmap[word]!; rest !== 0 && positions.length < count; ) {
      const bit = 31 - Math.clz32(rest);
      rest &= ~(1 << bit);
      if (passed >= skip) positions.push(word * 32 + bit);
      passed += 1;
    }
  }
  return positions;
}
