import { leafHash, leftSize, nodeHash, treeHead } from "./tree.ts";

// The tree of a log: that of RFC 6962 over the leaf hashes of its entries, and its parts as c2sp.org/tlog-tiles stores
// them.

/** A tree that grows by leaves. It holds the heads of its full subtrees alone: one for each bit of its size. */
export class GrowingTree {
  /** From the smallest subtree, that of the newest leaves, to the largest. */
  #heads: Buffer[] = [];
  #size = 0;

  get size(): number {
    return this.#size;
  }

  append(leaf: Buffer): void {
    let head = leaf;
    for (let rest = this.#size; rest % 2 === 1; rest = (rest - 1) / 2)
      head = nodeHash(this.#heads.shift()!, head);
    this.#heads.unshift(head);
    this.#size += 1;
  }

  /** The head over all leaves so far; that of the empty tree before the first. */
  head(): Buffer {
    const [smallest, ...larger] = this.#heads;
    return smallest ? larger.reduce((right, left) => nodeHash(left, right), smallest) : treeHead([]);
  }
}

/** The hashes that show the first `first` leaves, at least one, to be the beginning of them all (RFC 6962, 2.1.2). */
export function consistencyPath(leaves: readonly Buffer[], first: number): Buffer[] {
  return pathWithin(leaves, first, true);
}

/** `whole`: whether the tree of the first leaves is a subtree here whose head the verifier has. */
function pathWithin(leaves: readonly Buffer[], first: number, whole: boolean): Buffer[] {
  if (first === leaves.length) return whole ? [] : [treeHead(leaves)];
  const split = leftSize(leaves.length);
  const [left, right] = [leaves.slice(0, split), leaves.slice(split)];
  return first <= split
    ? [...pathWithin(left, first, whole), treeHead(right)]
    : [...pathWithin(right, first - split, false), treeHead(left)];
}

/** The size and the head of a log's tree. */
export interface TreeHead {
  size: number;
  head: Buffer;
}

/** Whether a path shows the tree `before` to be the beginning of `after`. */
export function isConsistent(before: TreeHead, after: TreeHead, path: readonly Buffer[]): boolean {
  if (!(before.size >= 1 && before.size <= after.size)) return false;
  const rest = [...path];
  const found = headsFrom(before, after.size, rest, true);
  return (
    found !== undefined && rest.length === 0 && found[0].equals(before.head) && found[1].equals(after.head)
  );
}

/** The heads of both trees, computed from a path that is used up from its end; undefined where it is too short. */
function headsFrom(
  before: TreeHead,
  size: number,
  path: Buffer[],
  whole: boolean,
): [before: Buffer, after: Buffer] | undefined {
  if (before.size === size) {
    const head = whole ? before.head : path.pop();
    return head && [head, head];
  }
  const split = leftSize(size);
  const top = path.pop();
  if (!top) return undefined;
  if (before.size <= split) {
    const found = headsFrom(before, split, path, whole);
    return found && [found[0], nodeHash(found[1], top)];
  }
  const found = headsFrom({ ...before, size: before.size - split }, size - split, path, false);
  return found && [nodeHash(top, found[0]), nodeHash(top, found[1])];
}

/** Hashes of a full tile, and entries of a full bundle. */
export const tileWidth = 256;

/**
 * A part of a log's tree: hashes of a level, or the entries themselves. `width` is below 256 where the tree ends in it.
 */
export interface Tile {
  level: number | "entries";
  index: number;
  width: number;
}

/** Where a tile lies below `tile/`, such as `0/x001/234.p/5`. */
export function tilePath({ level, index, width }: Tile): string {
  const digits = String(index);
  const groups = digits.padStart(Math.ceil(digits.length / 3) * 3, "0").match(/\d{3}/g)!;
  const last = groups.pop();
  const above = groups.map((group) => `x${group}/`).join("");
  return `${level}/${above}${last}${width < tileWidth ? `.p/${width}` : ""}`;
}

/** The tile that lies there; undefined when none does. */
export function tileAt(path: string): Tile | undefined {
  const [, level, index, width] =
    /^(entries|\d)\/((?:x\d{3}\/){0,4}\d{3})(?:\.p\/(\d{1,3}))?$/.exec(path) ?? [];
  if (level === undefined || index === undefined || width === "0") return undefined;
  const tile = {
    level: level === "entries" ? level : Number(level),
    index: Number(index.replaceAll(/\D/g, "")),
    width: width === undefined ? tileWidth : Number(width),
  } as const;
  return tilePath(tile) === path ? tile : undefined;
}

/** All tiles of a tree. */
export function tilesOf(size: number): Tile[] {
  const tiles = levelOf("entries", size);
  let hashes = size;
  for (let level = 0; hashes > 0; level += 1) {
    tiles.push(...levelOf(level, hashes));
    hashes = Math.floor(hashes / tileWidth);
  }
  return tiles;
}

function levelOf(level: Tile["level"], count: number): Tile[] {
  return Array.from({ length: Math.ceil(count / tileWidth) }, (_, index) => ({
    level,
    index,
    width: Math.min(tileWidth, count - index * tileWidth),
  }));
}

/** How many entries each element of a tile stands for. */
const spanOf = ({ level }: Tile): number => (level === "entries" ? 1 : tileWidth ** level);

/** The size of the smallest tree that has this tile. */
export function endOf(tile: Tile): number {
  return (tile.index * tileWidth + tile.width) * spanOf(tile);
}

/** Entries of a log by their places; undefined for those that are not known. */
export type Entries = readonly (Buffer | undefined)[];

/** The bytes of tiles of a log; undefined where an entry of a tile is not known. */
export function tileEncoder(entries: Entries): (tile: Tile) => Buffer | undefined {
  const leaves = entries.map((entry) => entry && leafHash(entry));
  const known = (values: Entries, start: number, count: number) => {
    const found = values.slice(start, start + count).filter((value) => value !== undefined);
    return found.length === count ? found : undefined;
  };
  return (tile) => {
    const span = spanOf(tile);
    const start = tile.index * tileWidth * span;
    const below = known(tile.level === "entries" ? entries : leaves, start, tile.width * span);
    if (!below || tile.level === "entries") return below && encodeEntries(below);
    return Buffer.concat(
      Array.from({ length: tile.width }, (_, position) =>
        treeHead(below.slice(position * span, (position + 1) * span)),
      ),
    );
  };
}

/**
 * A bundle: each entry after its length, a big-endian uint16. Throws RangeError when one has more than 65,535 bytes.
 */
export function encodeEntries(entries: readonly Buffer[]): Buffer {
  return Buffer.concat(
    entries.flatMap((entry) => {
      const length = Buffer.alloc(2);
      length.writeUInt16BE(entry.length);
      return [length, entry];
    }),
  );
}

/** The entries of a bundle; undefined when it ends within one. */
export function decodeEntries(bundle: Buffer): Buffer[] | undefined {
  const entries: Buffer[] = [];
  for (let at = 0; at < bundle.length; ) {
    if (at + 2 > bundle.length) return undefined;
    const end = at + 2 + bundle.readUInt16BE(at);
    if (end > bundle.length) return undefined;
    entries.push(bundle.subarray(at + 2, end));
    at = end;
  }
  return entries;
}
