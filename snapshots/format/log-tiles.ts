// A log's tree and entries in the parts of c2sp.org/tlog-tiles.

/** Hashes of a full tile, and entries of a full bundle. */
export const tileWidth = 256;

/** Hashes of a level, or the entries themselves. `width` is below 256 where the tree ends in the tile. */
export interface Tile {
  level: number | "entries";
  index: number;
  width: number;
}

/** Relative to `tile/`, such as `0/x001/234.p/5`. */
export function tilePath({ level, index, width }: Tile): string {
  const digits = String(index);
  const groups = digits.padStart(Math.ceil(digits.length / 3) * 3, "0").match(/\d{3}/g)!;
  const last = groups.pop();
  const above = groups.map((group) => `x${group}/`).join("");
  return `${level}/${above}${last}${width < tileWidth ? `.p/${width}` : ""}`;
}

/** Undefined for any other path. */
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

/** Entries that each element of a tile covers. */
export const spanOf = ({ level }: Tile): number => (level === "entries" ? 1 : tileWidth ** level);

/** The size of the smallest tree that has this tile. */
export function endOf(tile: Tile): number {
  return (tile.index * tileWidth + tile.width) * spanOf(tile);
}

/** Undefined when the bundle ends within an entry. */
export function decodeEntries<Bytes extends Uint8Array>(bundle: Bytes): Bytes[] | undefined {
  const entries: Bytes[] = [];
  for (let at = 0; at < bundle.length; ) {
    const start = at + 2;
    at = start + 256 * bundle[at]! + Number(bundle[at + 1]);
    // `at` is NaN where the length is cut off.
    if (!(at <= bundle.length)) return undefined;
    entries.push(bundle.subarray(start, at) as Bytes);
  }
  return entries;
}
