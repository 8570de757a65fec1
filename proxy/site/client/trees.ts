import { bytesOf, toHex } from "../../../snapshots/format/bytes.ts";
import { joined, type Trees, treesOf } from "../../../snapshots/format/hash-trees.ts";
import { check } from "./errors.ts";
import type { MarketProof } from "./records.d.ts";
import type { CopyFile, CopyRoot, Sha256 } from "./types.ts";

/** @internal */
export const webSha256 = async (bytes: Uint8Array<ArrayBuffer>) =>
  new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));

/** @internal A hash, or one that is still to come. */
export type Hash = Uint8Array | Promise<Uint8Array>;

/** @internal Trees by a hash function, at once where that is. */
export const treesBy = (sha256: Sha256) =>
  treesOf<Hash>((...parts) =>
    parts.some((part) => "then" in part)
      ? Promise.all(parts).then((all) => sha256(joined(all)))
      : sha256(joined(parts as Uint8Array[])),
  );

/** @internal By Web Crypto. */
export const webTrees = /* @__PURE__ */ treesBy(webSha256);

const kinds = ["page", "segment", "archive"] as const;

/** @internal The root of the archive to which a market's text belongs; undefined when the proof is malformed. */
export function archiveFrom(
  { leafHash, rootFrom }: Trees<Hash>,
  text: string,
  proof: Pick<MarketProof["proof"], "page" | "segment" | "archive">,
): Hash | undefined {
  let root: Hash | undefined = leafHash(bytesOf(text));
  for (const kind of kinds) root = root && rootFrom(kind, root, proof[kind]);
  return root;
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

/**
 * The archive's root over its lines, as `archiveRoot` of a snapshot states it (snapshots/SPEC.md, "Roots").
 * Trees count from the oldest market, so the lines must come oldest first: the reverse of the archive's order. For a
 * copy in a file, use `linesFromEnd`. Memory does not grow with the number of lines, except for 32 bytes for every
 * segment of some 20,000 markets.
 * @param lines JSON texts of markets, without line ends
 */
export async function archiveRoot(
  lines: AsyncIterable<string | Uint8Array> | Iterable<string | Uint8Array>,
  { sha256 = webSha256 }: { sha256?: Sha256 } = {},
): Promise<CopyRoot> {
  const { leafHash, rootOf } = treesBy(sha256);
  /** The children so far of a page, a segment and the archive, and how many markets there are below them. */
  const [children, markets]: [Hash[][], number[]] = [
    [[], [], []],
    [0, 0, 0],
  ];
  const rootAt = (level: number) => rootOf(kinds[level]!, markets[level]!, children[level]!);
  const seal = async (level: number) => {
    if (markets[level] === 0) return;
    children[level + 1]!.push(await rootAt(level));
    markets[level + 1]! += markets[level]!;
    [children[level], markets[level]] = [[], 0];
  };
  for await (const line of lines) {
    const text = typeof line === "string" ? bytesOf(line) : line;
    children[0]!.push(leafHash(text));
    markets[0]! += 1;
    // The id follows {"id":" and has 36 characters.
    const hash = crc32(text.subarray(7, 43));
    const wanted = markets[0]! >= 32 && hash % 96 === 0;
    if (!wanted && markets[0]! < 512) continue;
    await seal(0);
    if ((wanted && Math.floor(hash / 96) % 160 === 0) || markets[1]! > 65_024) await seal(1);
  }
  await seal(0);
  await seal(1);
  return { archiveRoot: toHex(await rootAt(2)), markets: markets[2]! };
}

/** @internal The most characters or bytes of a line. The service allows 256 KiB of JSON for a record. */
export const maxLine = 2 ** 20;

/**
 * The lines of a file from the last to the first, without their ends: those of `archive.ndjson` oldest first. Takes a
 * Blob, such as a browser's File or `fs.openAsBlob(path)` in Node. Throws IntegrityError when the last line has no end.
 */
export async function* linesFromEnd(file: CopyFile): AsyncGenerator<Uint8Array, void, void> {
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
