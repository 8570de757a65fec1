import type { ChangeCounts } from "../../schemas/store/snapshot.ts";
import { atOnce, Entries, range, sortIndexes, type YieldLoop } from "./entries.ts";

/** The texts that only the older archive has, and those that only the newer one has. */
export interface Sides {
  before: Entries;
  after: Entries;
}

/** Indexes into the entries of the two sides, each list sorted by id. */
export interface Difference {
  added: Uint32Array;
  /** Ids whose texts differ: the same position in both lists is the same id. */
  changed: { before: Uint32Array; after: Uint32Array };
  removed: Uint32Array;
}

/**
 * Each side has an id at most once. Texts that both sides have are left out, so a side may hold more than what differs.
 */
export async function difference({ before, after }: Sides, yieldLoop?: YieldLoop): Promise<Difference> {
  const byId = (side: Entries) =>
    sortIndexes(range(side.size), (a, b) => side.compareIds(a, side, b), yieldLoop);
  const [old, fresh] = [await byId(before), await byId(after)];
  const [added, removed, changedBefore, changedAfter] = [
    new Indexes(),
    new Indexes(),
    new Indexes(),
    new Indexes(),
  ];
  let [left, right] = [0, 0];
  while (left < old.length || right < fresh.length) {
    const [a, b] = [old[left], fresh[right]];
    const order = a === undefined ? 1 : b === undefined ? -1 : before.compareIds(a, after, b);
    if (order < 0) removed.push(a!);
    else if (order > 0) added.push(b!);
    else if (!before.sameText(a!, after, b!)) {
      changedBefore.push(a!);
      changedAfter.push(b!);
    }
    if (order <= 0) left += 1;
    if (order >= 0) right += 1;
    if (yieldLoop && (left + right) % atOnce === 0) await yieldLoop();
  }
  return {
    added: added.values,
    changed: { before: changedBefore.values, after: changedAfter.values },
    removed: removed.values,
  };
}

export function countsOf({ added, changed, removed }: Difference): ChangeCounts {
  return { added: added.length, changed: changed.after.length, removed: removed.length };
}

/** What has to be put into a copy of the older archive, newest first as in the archive. */
export async function putsOf(
  { added, changed }: Difference,
  after: Entries,
  yieldLoop?: YieldLoop,
): Promise<Uint32Array> {
  const puts = new Uint32Array(added.length + changed.after.length);
  puts.set(added);
  puts.set(changed.after, added.length);
  const newestFirst = (a: number, b: number) =>
    after.time(b) - after.time(a) || after.compareIds(b, after, a);
  return sortIndexes(puts, newestFirst, yieldLoop);
}

/**
 * The sides of several steps taken as one. For each id, the entry before is that of the first step that has the id, and
 * the entry after is that of the last.
 */
export async function netSides(steps: readonly Sides[], yieldLoop?: YieldLoop): Promise<Sides> {
  const [first, ...others] = steps;
  if (first && others.length === 0) return first;
  const all = new Entries();
  const gained: [from: number, to: number][] = [];
  const add = async (side: Entries) => {
    for (let index = 0; index < side.size; index += 1) {
      if (index % atOnce === 0) await yieldLoop?.();
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
  const order = await sortIndexes(range(all.size), (a, b) => all.compareIds(a, all, b), yieldLoop);
  const net: Sides = { before: new Entries(), after: new Entries() };
  for (const [position, index] of order.entries()) {
    if (yieldLoop && position % atOnce === 0) await yieldLoop();
    const [earlier, later] = [order[position - 1], order[position + 1]];
    const isFirst = earlier === undefined || all.compareIds(earlier, all, index) !== 0;
    const isLast = later === undefined || all.compareIds(later, all, index) !== 0;
    if (isFirst && isGained[index] === 0) net.before.copy(all, index);
    if (isLast && isGained[index] === 1) net.after.copy(all, index);
  }
  return net;
}

/** Grows without boxing its numbers. */
class Indexes {
  #values = new Uint32Array(16);
  #size = 0;

  push(index: number): void {
    if (this.#size === this.#values.length) {
      const larger = new Uint32Array(this.#size * 2);
      larger.set(this.#values);
      this.#values = larger;
    }
    this.#values[this.#size] = index;
    this.#size += 1;
  }

  get values(): Uint32Array {
    return this.#values.subarray(0, this.#size);
  }
}
