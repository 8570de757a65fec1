import type { ChangeCounts } from "../../schemas/store/stored-objects.ts";
import { enlarged } from "../format/bytes.ts";
import type { MarketLine } from "../format/market-line.ts";
import type { Turn } from "../store/in-parallel.ts";

/** Comparisons of a turn: about half a millisecond. */
export const comparisonsPerTurn = 8192;

/** The texts that only the older archive has, and those that only the newer one has. */
export interface Sides {
  before: Entries;
  after: Entries;
}

/** What differs at one place of the archive: at least one of the two. */
export interface ChangedLines {
  before?: MarketLine | undefined;
  after?: MarketLine | undefined;
}

/** Indexes into the entries of the two sides, each list sorted by id. */
export interface Difference {
  added: Uint32Array;
  /** Ids whose texts differ: the same position in both lists is the same id. */
  changed: { before: Uint32Array; after: Uint32Array };
  removed: Uint32Array;
}

/** Each side has an id at most once. It may hold more than what differs: texts that both sides have are left out. */
export async function difference({ before, after }: Sides, turn?: Turn): Promise<Difference> {
  const byId = (side: Entries) => sortIndexes(range(side.size), (a, b) => side.compareIds(a, side, b), turn);
  const [old, fresh] = [await byId(before), await byId(after)];
  // As long as they can become.
  const [removed, added] = [new Uint32Array(old.length), new Uint32Array(fresh.length)];
  const most = Math.min(old.length, fresh.length);
  const changed = { before: new Uint32Array(most), after: new Uint32Array(most) };
  const counts = { added: 0, changed: 0, removed: 0 };
  let [left, right] = [0, 0];
  while (left < old.length || right < fresh.length) {
    const [a, b] = [old[left], fresh[right]];
    const order = a === undefined ? 1 : b === undefined ? -1 : before.compareIds(a, after, b);
    if (order < 0) removed[counts.removed++] = a!;
    else if (order > 0) added[counts.added++] = b!;
    else if (!before.sameText(a!, after, b!)) {
      changed.before[counts.changed] = a!;
      changed.after[counts.changed++] = b!;
    }
    if (order <= 0) left += 1;
    if (order >= 0) right += 1;
    if (turn && (left + right) % comparisonsPerTurn === 0) await turn();
  }
  return {
    added: added.slice(0, counts.added),
    changed: {
      before: changed.before.slice(0, counts.changed),
      after: changed.after.slice(0, counts.changed),
    },
    removed: removed.slice(0, counts.removed),
  };
}

export function countsOf({ added, changed, removed }: Difference): ChangeCounts {
  return { added: added.length, changed: changed.after.length, removed: removed.length };
}

/** What has to be put into a copy of the older archive, newest first as in the archive. */
export async function putsOf(
  { added, changed }: Difference,
  after: Entries,
  turn?: Turn,
): Promise<Uint32Array> {
  const puts = new Uint32Array(added.length + changed.after.length);
  puts.set(added);
  puts.set(changed.after, added.length);
  const newestFirst = (a: number, b: number) =>
    after.time(b) - after.time(a) || after.compareIds(b, after, a);
  return sortIndexes(puts, newestFirst, turn);
}

/**
 * The sides of several steps taken as one. For each id, the entry before is that of the first step that has the id, and
 * the entry after is that of the last.
 */
export async function netSides(steps: readonly Sides[], turn?: Turn): Promise<Sides> {
  const [first, ...others] = steps;
  if (first && others.length === 0) return first;
  const all = new Entries();
  const gained: [from: number, to: number][] = [];
  const add = async (side: Entries) => {
    for (let index = 0; index < side.size; index += 1) {
      if (index % comparisonsPerTurn === 0) await turn?.();
      all.copy(side, index);
    }
  };
  for (const { before, after } of steps) {
    await add(before);
    gained.push([all.size, all.size + after.size]);
    await add(after);
  }
  const isGained = new Uint8Array(all.size);
  for (const [from, to] of gained) isGained.fill(1, from, to);
  // The sort is stable: entries of one id stay in the order of the steps, and within a step the loss comes first.
  const order = await sortIndexes(range(all.size), (a, b) => all.compareIds(a, all, b), turn);
  const net: Sides = { before: new Entries(), after: new Entries() };
  for (const [position, index] of order.entries()) {
    if (turn && position % comparisonsPerTurn === 0) await turn();
    const [earlier, later] = [order[position - 1], order[position + 1]];
    const isFirst = earlier === undefined || all.compareIds(earlier, all, index) !== 0;
    const isLast = later === undefined || all.compareIds(later, all, index) !== 0;
    if (isFirst && isGained[index] === 0) net.before.copy(all, index);
    if (isLast && isGained[index] === 1) net.after.copy(all, index);
  }
  return net;
}

/** Words of 32 bits for an id, and for the kept half of a text's hash. */
const words = 4;

/**
 * The markets of one side of a comparison, as columns: 44 bytes a market, because a side may have millions. For each it
 * keeps the id, the time, the first half of the leaf hash of its text (snapshots/SPEC.md, "Roots"), and a tag that the
 * caller chooses, for example where the text is.
 */
export class Entries {
  size = 0;
  #ids = new Uint32Array(0);
  #texts = new Uint32Array(0);
  #times = new Float64Array(0);
  #tags = new Uint32Array(0);

  get bytes(): number {
    return [this.#ids, this.#texts, this.#times, this.#tags].reduce(
      (sum, { byteLength }) => sum + byteLength,
      0,
    );
  }

  /** `row` is as rowOf gives it. */
  add(row: Buffer, tag = 0): void {
    const at = this.#grow();
    for (let word = 0; word < words; word += 1) {
      this.#ids[at * words + word] = row.readUInt32BE(word * 4);
      this.#texts[at * words + word] = row.readUInt32BE((words + word) * 4);
    }
    this.#times[at] = Number(row.readBigUInt64LE(2 * words * 4));
    this.#tags[at] = tag;
  }

  copy(other: Entries, index: number): void {
    const at = this.#grow();
    const of = (column: Uint32Array) => column.subarray(index * words, (index + 1) * words);
    this.#ids.set(of(other.#ids), at * words);
    this.#texts.set(of(other.#texts), at * words);
    this.#times[at] = other.#times[index]!;
    this.#tags[at] = other.#tags[index]!;
  }

  id(index: number): string {
    return idText(this.#ids, index);
  }

  copyId(index: number, ids: Uint32Array, at: number): void {
    ids.set(this.#ids.subarray(index * words, (index + 1) * words), at * words);
  }

  /** Epoch milliseconds. */
  time(index: number): number {
    return this.#times[index]!;
  }

  tag(index: number): number {
    return this.#tags[index]!;
  }

  sameText(index: number, other: Entries, otherIndex: number): boolean {
    return compareWords(this.#texts, index, other.#texts, otherIndex) === 0;
  }

  compareIds(index: number, other: Entries, otherIndex: number): number {
    return compareWords(this.#ids, index, other.#ids, otherIndex);
  }

  #grow(): number {
    if (this.size === this.#times.length) {
      const capacity = Math.max(16, this.size * 2);
      this.#ids = enlarged(this.#ids, capacity * words);
      this.#texts = enlarged(this.#texts, capacity * words);
      this.#times = enlarged(this.#times, capacity);
      this.#tags = enlarged(this.#tags, capacity);
    }
    this.size += 1;
    return this.size - 1;
  }
}

/** Room for this many ids, 16 bytes each. */
export const idColumn = (count: number) => new Uint32Array(count * words);
export const idCount = (ids: Uint32Array) => ids.length / words;

export function idText(ids: Uint32Array, at: number): string {
  let hex = "";
  for (let word = at * words; word < (at + 1) * words; word += 1)
    hex += ids[word]!.toString(16).padStart(8, "0");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}

function compareWords(a: Uint32Array, indexA: number, b: Uint32Array, indexB: number): number {
  for (let word = 0; word < words; word += 1) {
    const [left, right] = [a[indexA * words + word]!, b[indexB * words + word]!];
    if (left !== right) return left < right ? -1 : 1;
  }
  return 0;
}

/**
 * A stable merge sort. TypedArray.sort would take eight times the memory, and hold the event loop for a second with a
 * million indexes. A sorted run costs one comparison.
 */
export async function sortIndexes(
  indexes: Uint32Array,
  compare: (a: number, b: number) => number,
  turn?: Turn,
): Promise<Uint32Array> {
  let [from, to] = [indexes, new Uint32Array(indexes.length) as Uint32Array];
  let compared = 0;
  for (let width = 1; width < indexes.length; width *= 2) {
    for (let start = 0; start < indexes.length; start += 2 * width) {
      const middle = Math.min(start + width, indexes.length);
      const end = Math.min(start + 2 * width, indexes.length);
      compared += 1;
      if (turn && compared % comparisonsPerTurn === 0) await turn();
      if (middle === end || compare(from[middle - 1]!, from[middle]!) <= 0) {
        to.set(from.subarray(start, end), start);
        continue;
      }
      let [left, right] = [start, middle];
      for (let at = start; at < end; at += 1) {
        const takesLeft = left < middle && (right >= end || compare(from[left]!, from[right]!) <= 0);
        to[at] = takesLeft ? from[left++]! : from[right++]!;
        compared += 1;
        if (turn && compared % comparisonsPerTurn === 0) await turn();
      }
    }
    [from, to] = [to, from];
  }
  return from;
}

export function range(count: number): Uint32Array {
  const numbers = new Uint32Array(count);
  // Uint32Array.from would hold the event loop fifty times as long.
  for (let index = 0; index < count; index += 1) numbers[index] = index;
  return numbers;
}
