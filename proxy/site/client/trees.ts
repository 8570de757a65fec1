import type { MarketProof } from "../../../schemas/envelopes.ts";
import { bytesOf, Cutter, toHex } from "../../../snapshots/format/bytes.ts";
import { joined, type Trees, treesOf } from "../../../snapshots/format/hash-trees.ts";
import { check } from "./errors.ts";
import type { CopyFile, CopyRoot, Sha256 } from "./types.ts";

/** @internal What Node tells of itself, undefined elsewhere. */
export const node = (
  globalThis as {
    process?: {
      getBuiltinModule?: (name: string) => {
        hash?: (name: "sha256", bytes: Uint8Array, encoding: "buffer") => Uint8Array;
      };
      versions?: { unicode?: string };
    };
  }
).process;
// On small inputs, of which there are thousands, it is several times as fast as Web Crypto.
const nodeHash = /* @__PURE__ */ node?.getBuiltinModule?.("node:crypto")?.hash;

/** @internal */
export const ownSha256: Sha256 = (bytes) =>
  nodeHash?.("sha256", bytes, "buffer") ??
  crypto.subtle.digest("SHA-256", bytes).then((hash) => new Uint8Array(hash));

/** @internal A hash, or one that is still to come. */
export type Hash = Uint8Array | Promise<Uint8Array>;

/** Trees over a hash function. They are synchronous where it is. */
const treesBy = (sha256: Sha256) =>
  treesOf<Hash>((...parts) =>
    parts.some((part) => "then" in part)
      ? Promise.all(parts).then((all) => sha256(joined(all)))
      : sha256(joined(parts as Uint8Array[])),
  );

/** @internal */
export const trees = /* @__PURE__ */ treesBy(ownSha256);

/** @internal The root of the archive to which a market's text belongs; undefined when the proof is malformed. */
export function archiveFrom(
  text: string,
  proof: Pick<MarketProof["proof"], "page" | "segment" | "archive">,
): Hash | undefined {
  let root: Hash | undefined = trees.leafHash(bytesOf(text));
  for (const kind of ["page", "segment", "archive"] as const)
    root = root && trees.rootFrom(kind, root, proof[kind]);
  return root;
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
  { sha256 = ownSha256 }: { sha256?: Sha256 } = {},
): Promise<CopyRoot> {
  const { leafHash, rootOf } = treesBy(sha256);
  const roots: Hash[] = [];
  let markets = 0;
  for await (const segment of segmentsOf({ leafHash, rootOf, crc32: crc32Of }, lines)) {
    roots.push(segment.root);
    markets += segment.markets;
  }
  return { archiveRoot: toHex(await rootOf("archive", markets, roots)), markets };
}

/** @internal Cuts lines, oldest first, into segments, and these into pages (snapshots/PUBLISHING.md, "Cuts"). */
export async function* segmentsOf<H>(
  { leafHash, rootOf, crc32 }: Pick<Trees<H>, "leafHash" | "rootOf"> & { crc32: typeof crc32Of },
  lines: AsyncIterable<string | Uint8Array> | Iterable<string | Uint8Array>,
) {
  const cutter = new Cutter();
  let [leaves, pages, bytes]: [H[], { root: Awaited<H>; markets: number }[], number] = [[], [], 0];
  const endPage = async () => {
    pages.push({ root: await rootOf("page", leaves.length, leaves), markets: leaves.length });
    leaves = [];
  };
  const endSegment = async () => {
    const markets = pages.reduce((sum, page) => sum + page.markets, 0);
    const hashes = pages.map(({ root }) => root as H);
    const segment = { root: await rootOf("segment", markets, hashes), markets, pages, bytes };
    [pages, bytes] = [[], 0];
    return segment;
  };
  for await (const line of lines) {
    const text = typeof line === "string" ? bytesOf(line) : line;
    leaves.push(leafHash(text));
    bytes += text.length + 1;
    // The id follows {"id":" and has 36 characters. A damaged copy may have any bytes there.
    const cut = cutter.next(crc32(text.subarray(7, 43)));
    if (cut !== "none") await endPage();
    if (cut === "segment") yield await endSegment();
  }
  if (leaves.length > 0) await endPage();
  if (pages.length > 0) yield await endSegment();
}

function crc32Of(bytes: Uint8Array): number {
  let crc = -1;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit += 1) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return ~crc >>> 0;
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
