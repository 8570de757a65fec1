import { foldCase } from "../../schemas/filters.ts";
import { enlarged, textOf, writeText } from "../format/bytes.ts";

const nothing = 0xffffffff;

/**
 * Every distinct label of one field in all loaded segments, stored once as UTF-8. A Map would take about 100 bytes for
 * each of 50,000 labels. Ids count from 0 and are valid within this table only.
 */
export class LabelTable {
  #text = new Uint8Array(1024);
  /** Label n ends at #ends[n] in #text. */
  #ends = new Uint32Array(64);
  #size = 0;
  /** A hash table with open addressing, of ids or `nothing`: a power of two long, and at most half full. */
  #slots = new Uint32Array(128).fill(nothing);
  /** A secret seed, so that nobody can publish labels that all fall into one slot. */
  #seed = Math.trunc(Math.random() * 2 ** 32);
  /** Only in a table that ignores letter case: the folded labels, and by label the id of its folded form. */
  #folds: LabelTable | undefined;
  #foldOf = new Uint32Array(0);

  /** With `fold`, `matching` ignores letter case. */
  constructor(fold = false) {
    if (fold) this.#folds = new LabelTable();
  }

  get fold(): boolean {
    return this.#folds !== undefined;
  }

  get size(): number {
    return this.#size;
  }

  get residentBytes(): number {
    const own = this.#text.length + this.#ends.byteLength + this.#slots.byteLength + this.#foldOf.byteLength;
    return own + (this.#folds?.residentBytes ?? 0);
  }

  /** Undefined when no loaded segment has exactly this label. */
  find(label: string): number | undefined {
    const id = this.#slots[this.#slotOf(this.#startOf(this.#size), this.#write(label))]!;
    return id === nothing ? undefined : id;
  }

  /** The ids of all labels that equal the value, ascending; in a table with `fold` in any letter case. */
  matching(value: string): number[] {
    const find = (table: LabelTable, label: string) => table.find(label) ?? nothing;
    if (!this.#folds) return [find(this, value)].filter((id) => id !== nothing);
    const fold = find(this.#folds, foldCase(value));
    const ids: number[] = [];
    for (let id = 0; id < this.#size; id += 1) if (this.#foldOf[id] === fold) ids.push(id);
    return ids;
  }

  intern(label: string): number {
    const end = this.#write(label);
    const slot = this.#slotOf(this.#startOf(this.#size), end);
    const existing = this.#slots[slot]!;
    if (existing !== nothing) return existing;
    const id = this.#size;
    this.#append(end);
    if (this.#folds) this.#foldOf[id] = this.#folds.intern(foldCase(label));
    this.#slots[slot] = id;
    if (this.#size * 2 > this.#slots.length) this.#rehash(this.#slots.length * 2);
    return id;
  }

  /** The id must exist. */
  label(id: number): string {
    return textOf(this.#text.subarray(this.#startOf(id), this.#ends[id]!));
  }

  /** Compares by UTF-16 code units, as `<` does with strings, without making strings. */
  compare(a: number, b: number): number {
    const text = this.#text;
    const [endA, endB] = [this.#ends[a]!, this.#ends[b]!];
    let [atA, atB] = [this.#startOf(a), this.#startOf(b)];
    for (; atA < endA && atB < endB; atA += 1, atB += 1)
      if (text[atA] !== text[atB]) return codeUnitOrder(text[atA]!) - codeUnitOrder(text[atB]!);
    return endA - atA - (endB - atB);
  }

  #startOf(id: number): number {
    return id === 0 ? 0 : this.#ends[id - 1]!;
  }

  /** Writes a label behind the last one, where nothing is yet. Returns where it ends. */
  #write(label: string): number {
    const start = this.#startOf(this.#size);
    // A code unit takes at most three bytes.
    const end = start + label.length * 3;
    if (end > this.#text.length) this.#text = enlarged(this.#text, Math.ceil(end * 1.25));
    return writeText(label, this.#text, start);
  }

  /** The slot of the label with these bytes, or the free one where it would go. */
  #slotOf(start: number, end: number): number {
    const mask = this.#slots.length - 1;
    for (let slot = this.#hash(start, end) & mask; ; slot = (slot + 1) & mask) {
      const id = this.#slots[slot]!;
      if (id === nothing || this.#equals(id, start, end)) return slot;
    }
  }

  #equals(id: number, start: number, end: number): boolean {
    const distance = start - this.#startOf(id);
    if (this.#ends[id]! + distance !== end) return false;
    for (let at = start; at < end; at += 1) if (this.#text[at] !== this.#text[at - distance]) return false;
    return true;
  }

  /** FNV-1a. The last step mixes the upper bits into the lower ones. */
  #hash(start: number, end: number): number {
    let hash = this.#seed;
    for (let at = start; at < end; at += 1) hash = Math.imul(hash ^ this.#text[at]!, 0x01000193);
    return hash ^ (hash >>> 15);
  }

  #append(end: number): void {
    if (this.#size === this.#ends.length) this.#ends = enlarged(this.#ends, grown(this.#size));
    if (this.#folds && this.#size >= this.#foldOf.length)
      this.#foldOf = enlarged(this.#foldOf, grown(this.#size));
    this.#ends[this.#size] = end;
    this.#size += 1;
  }

  #rehash(length: number): void {
    this.#slots = new Uint32Array(length).fill(nothing);
    for (let id = 0; id < this.#size; id += 1)
      this.#slots[this.#slotOf(this.#startOf(id), this.#ends[id]!)] = id;
  }
}

/**
 * A table without the labels whose ids are not in `live`, which it renumbers in place; the same table while these are
 * at most half of it. Otherwise a process would keep the labels of all snapshots that it has seen.
 */
export function retained(table: LabelTable, live: readonly Uint32Array[]): LabelTable {
  const renumbered = new Uint32Array(table.size).fill(nothing);
  for (const ids of live) for (const id of ids) renumbered[id] = 0;
  const kept = renumbered.reduce((count, mark) => count + Number(mark === 0), 0);
  if (kept * 2 >= table.size) return table;
  const fresh = new LabelTable(table.fold);
  for (let id = 0; id < table.size; id += 1)
    if (renumbered[id] === 0) renumbered[id] = fresh.intern(table.label(id));
  for (const ids of live) for (let n = 0; n < ids.length; n += 1) ids[n] = renumbered[ids[n]!]!;
  return fresh;
}

/**
 * Lets bytes of UTF-8 sort as code units do. Characters beyond U+FFFF (f0 and up) begin with surrogates, which lie
 * below U+E000 (ee and ef).
 */
function codeUnitOrder(byte: number): number {
  return byte === 0xee || byte === 0xef ? byte + 0x10 : byte;
}

const grown = (size: number) => Math.max(64, Math.ceil(size * 1.25));
