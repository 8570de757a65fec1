import type { ProofLevel } from "./declarations.d.ts";
import { check } from "./errors.ts";

const encoder = new TextEncoder();

/**
 * A hash function. In Node, `(bytes) => crypto.hash("sha256", bytes, "buffer")` of `node:crypto` is several times as
 * fast as the default, Web Crypto, which browsers have in secure contexts only. It must have read the bytes when it
 * returns.
 */
export type Sha256 = (bytes: Uint8Array<ArrayBuffer>) => Uint8Array | Promise<Uint8Array>;

/** @internal */
export const webSha256 = async (bytes: Uint8Array<ArrayBuffer>) =>
  new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));

/** @internal */
export function bytesOf(...parts: readonly (Uint8Array | readonly number[])[]): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

/** @internal */
export function uint64(value: number): Uint8Array<ArrayBuffer> {
  check(Number.isSafeInteger(value) && value >= 0);
  const bytes = new DataView(new ArrayBuffer(8));
  bytes.setBigUint64(0, BigInt(value), true);
  return new Uint8Array(bytes.buffer);
}

/** @internal */
export const hexOf = (bytes: Uint8Array) =>
  Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

/** @internal */
export function hashOf(hex: unknown): Uint8Array<ArrayBuffer> {
  check(typeof hex === "string" && /^[0-9a-f]{64}$/.test(hex));
  return Uint8Array.from(hex.match(/../g) ?? [], (digits) => Number.parseInt(digits, 16));
}

/**
 * What a text of base64 has; undefined when it is none, or has another spelling.
 * @internal
 */
export function decoded(text: string): Uint8Array<ArrayBuffer> | undefined {
  let raw = "";
  try {
    raw = atob(text);
  } catch {}
  return btoa(raw) === text ? Uint8Array.from(raw, (char) => char.charCodeAt(0)) : undefined;
}

/**
 * Decodes base64 that has one spelling only.
 * @internal
 */
export function base64(text: string): Uint8Array<ArrayBuffer> {
  const bytes = decoded(text);
  check(bytes);
  return bytes;
}

/**
 * The head of a tree of the shape of RFC 6962: neighbours are joined level by level, and one without a neighbour moves
 * up.
 * @internal
 */
export async function headOf(hashes: readonly Uint8Array[], sha256: Sha256): Promise<Uint8Array> {
  let level = hashes;
  while (level.length > 1) {
    const above: (Uint8Array | Promise<Uint8Array>)[] = [];
    for (let at = 0; at < level.length; at += 2) {
      const [left, right] = [level[at]!, level[at + 1]];
      above.push(right ? sha256(bytesOf([1], left, right)) : left);
    }
    level = await Promise.all(above);
  }
  return level[0] ?? sha256(bytesOf());
}

/** @internal */
function crc32(bytes: Uint8Array): number {
  let crc = -1;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit += 1) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return ~crc >>> 0;
}

/** @internal A tree that is being built: its children so far, and how many markets there are below them. */
interface Tree {
  hashes: (Uint8Array | Promise<Uint8Array>)[];
  markets: number;
}

/** @internal */
const emptyTree = (): Tree => ({ hashes: [], markets: 0 });

/**
 * The archive's root over its lines, as `archiveRoot` of a snapshot states it (snapshots/SPEC.md, "Roots" and "Cuts").
 * Trees count from the oldest market, so the lines must come oldest first: the reverse of the archive's order. For a
 * copy in a file, use `linesFromEnd`. Memory does not grow with the number of lines, except for 32 bytes for every
 * segment of some 20,000 markets.
 * @param lines JSON texts of markets, without line ends
 */
export async function archiveRoot(
  lines: AsyncIterable<string | Uint8Array> | Iterable<string | Uint8Array>,
  { sha256 = webSha256 }: { sha256?: Sha256 } = {},
): Promise<{ archiveRoot: string; markets: number }> {
  const [page, segment, archive] = [emptyTree(), emptyTree(), emptyTree()];
  const seal = async (tree: Tree, kind: number, above?: Tree): Promise<Uint8Array> => {
    const { markets } = tree;
    const hashes = await Promise.all(tree.hashes);
    const head = await headOf(hashes, sha256);
    const root = await sha256(bytesOf([kind], uint64(markets), uint64(hashes.length), head));
    if (above && markets > 0) {
      above.hashes.push(root);
      above.markets += markets;
    }
    [tree.hashes, tree.markets] = [[], 0];
    return root;
  };
  // One for all lines, since the garbage collector may be long in freeing one for each.
  let leaf = bytesOf([0]);
  for await (const line of lines) {
    const text = typeof line === "string" ? encoder.encode(line) : line;
    if (text.length >= leaf.length) leaf = bytesOf(leaf, text);
    leaf.set(text, 1);
    page.hashes.push(sha256(leaf.subarray(0, text.length + 1)));
    page.markets += 1;
    // The id follows {"id":" and has 36 characters.
    const hash = crc32(text.subarray(7, 43));
    const wanted = page.markets >= 32 && hash % 96 === 0;
    if (!wanted && page.markets < 512) continue;
    await seal(page, 2, segment);
    if ((wanted && Math.floor(hash / 96) % 160 === 0) || segment.markets > 65_024)
      await seal(segment, 3, archive);
  }
  await seal(page, 2, segment);
  await seal(segment, 3, archive);
  const { markets } = archive;
  return { archiveRoot: hexOf(await seal(archive, 4)), markets };
}

/** @internal The most characters or bytes of a line. The service allows 256 KiB of JSON for a record. */
export const maxLine = 2 ** 20;

/**
 * The lines of a file from the last to the first, without their ends: those of `archive.ndjson` oldest first. Takes a
 * Blob, such as a browser's File or `fs.openAsBlob(path)` in Node. Throws IntegrityError when the last line has no end.
 */
export async function* linesFromEnd(file: {
  size: number;
  slice(start: number, end: number): { arrayBuffer(): Promise<ArrayBuffer> };
}): AsyncGenerator<Uint8Array, void, void> {
  for (let end = file.size; end > 0; ) {
    // A line with its end, and the end of the one before.
    const start = Math.max(0, end - maxLine - 2);
    const bytes = new Uint8Array(await file.slice(start, end).arrayBuffer());
    let last = bytes.length - 1;
    check(bytes[last] === 10, "The last line of the file has no end.");
    while (last >= 0) {
      const before = bytes.subarray(0, last).lastIndexOf(10);
      if (before < 0 && start > 0) break;
      yield bytes.subarray(before + 1, last);
      last = before;
    }
    // What is before the first end found is read once more, with what belongs to it.
    last += start + 1;
    check(last < end, `A line is longer than ${maxLine} bytes.`);
    end = last;
  }
}

/** @internal */
const nodeOf = async (left: Uint8Array, right: Uint8Array) => webSha256(bytesOf([1], left, right));

/** @internal */
export const leafOf = async (text: string) => webSha256(bytesOf([0], encoder.encode(text)));

/** @internal The root of the tree in which `hash` is the child of this index. */
export async function rootFrom(kind: number, hash: Uint8Array, { markets, ...place }: ProofLevel) {
  const sizes = [uint64(markets), uint64(place.size)];
  return webSha256(bytesOf([kind], ...sizes, await headFrom(hash, place)));
}

/** @internal The head of the tree in which `hash` is the child of this index. */
export async function headFrom(
  hash: Uint8Array,
  { index, size, path }: { index: number; size: number; path: readonly string[] | null },
): Promise<Uint8Array> {
  uint64(size);
  uint64(index);
  check(index < size && size < 2 ** 32 && Array.isArray(path));
  let [head, at, last] = [hash, index, size - 1];
  for (const step of path) {
    check(last > 0);
    const other = hashOf(step);
    const onRight = at % 2 === 1 || at === last;
    head = await (onRight ? nodeOf(other, head) : nodeOf(head, other));
    // One that has no neighbour moved up to a level where it has one.
    for (; onRight && at > 0 && at % 2 === 0; last >>>= 1) at >>>= 1;
    at >>>= 1;
    last >>>= 1;
  }
  check(last === 0);
  return head;
}
