// The parts of a log's tree, and of its entries, as c2sp.org/tlog-tiles stores them.

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
export const spanOf = ({ level }: Tile): number => (level === "entries" ? 1 : tileWidth ** level);

/** The size of the smallest tree that has this tile. */
export function endOf(tile: Tile): number {
  return (tile.index * tileWidth + tile.width) * spanOf(tile);
}

/** The entries of a bundle; undefined when it ends within one. */
export function decodeEntries<Bytes extends Uint8Array>(bundle: Bytes): Bytes[] | undefined {
  const entries: Bytes[] = [];
  for (let at = 0; at < bundle.length; ) {
    const start = at + 2;
    at = start + 256 * bundle[at]! + Number(bundle[at + 1]);
    // NaN, where the length is cut off, is no end either.
    if (!(at <= bundle.length)) return undefined;
    entries.push(bundle.subarray(start, at) as Bytes);
  }
  return entries;
}
