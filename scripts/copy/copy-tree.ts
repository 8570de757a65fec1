import { linesFromEnd } from "../../proxy/site/client/client.ts";
import { MarketIndex } from "../../schemas/envelopes.ts";
import { maxHeaderBytes, maxObjectBytes } from "../../snapshots/format/bytes.ts";
import { idBytesOfLine } from "../../snapshots/format/market-line.ts";
import { Cutter } from "../../snapshots/format/page.ts";
import {
  type Digest,
  leafHash,
  pageRootOf,
  rootOver,
  type Subtree,
  sha256,
} from "../../snapshots/format/tree.ts";
import { fileOf } from "./lines.ts";

/** `start` is where its lines begin in the file. */
export interface CopySegment extends Subtree {
  pages: Subtree[];
  start: number;
  end: number;
}

/** The tree over the lines of a copy. `segments` are from the oldest up. */
export interface CopyTree {
  archiveRoot: string;
  lines: number;
  bytes: number;
  segments: CopySegment[];
}

/** Cuts lines, oldest first, into segments (snapshots/PUBLISHING.md, "Cuts"). */
export async function* segmentsOf(
  lines: AsyncIterable<Uint8Array>,
): AsyncGenerator<Subtree & { pages: Subtree[]; bytes: number }, void, void> {
  const cutter = new Cutter();
  let [leaves, pages, bytes]: [Digest[], Subtree[], number] = [[], [], 0];
  const endPage = () => {
    pages.push({ root: pageRootOf(leaves).toString("hex"), markets: leaves.length });
    leaves = [];
  };
  const endSegment = () => {
    const markets = pages.reduce((sum, page) => sum + page.markets, 0);
    const segment = { root: rootOver("segment", pages).toString("hex"), markets, pages, bytes };
    [pages, bytes] = [[], 0];
    return segment;
  };
  for await (const line of lines) {
    leaves.push(leafHash(line));
    bytes += line.length + 1;
    const cut = cutter.next(idBytesOfLine(line));
    if (cut !== "none") endPage();
    if (cut === "segment") yield endSegment();
  }
  if (leaves.length > 0) endPage();
  if (pages.length > 0) yield endSegment();
}

/** The tree over a file of lines in the archive's order. Memory holds the roots of its pages. */
export async function treeOf(path: string): Promise<CopyTree> {
  await using file = await fileOf(path);
  const segments: CopySegment[] = [];
  let [lines, end] = [0, file.size];
  for await (const { root, markets, pages, bytes } of segmentsOf(linesFromEnd(file))) {
    segments.push({ root, markets, pages, start: end - bytes, end });
    lines += markets;
    end -= bytes;
  }
  return {
    archiveRoot: rootOver("archive", segments).toString("hex"),
    lines,
    bytes: file.size,
    segments,
  };
}

/** Enough for an answer with the most segments that a snapshot can have. */
const maxListBytes = 2 ** 23;
const deadline = 60_000;

/** The index that a service published. It is asked for only to name what is wrong with it. */
export class PublishedIndex {
  readonly #base: string;
  readonly #key: string;

  constructor({ url, key }: { url: string; key: string }) {
    this.#base = `${url.replace(/(\/api\/v1)?\/*$/, "")}/api/v1/markets/index`;
    this.#key = key;
  }

  /** The parts of a snapshot's index, by segment, from the oldest up. */
  async segments(snapshotId: string): Promise<MarketIndex["segments"]> {
    const text = await this.#get(`?asOf=${snapshotId}`, maxListBytes);
    return MarketIndex.parse(JSON.parse(String(text))).segments;
  }

  /** Rejects when other bytes than those of the hash come. */
  header(hash: string): Promise<Buffer> {
    return this.#part(hash, maxHeaderBytes);
  }

  /** Rejects as header does. */
  words(hash: string): Promise<Buffer> {
    return this.#part(hash, maxObjectBytes);
  }

  async #part(hash: string, maxBytes: number): Promise<Buffer> {
    const part = await this.#get(`/${hash}`, maxBytes);
    if (sha256(part) !== hash) throw new Error("what came is not the part that was asked for");
    return part;
  }

  async #get(target: string, maxBytes: number): Promise<Buffer> {
    const answer = await fetch(this.#base + target, {
      headers: { "x-api-key": this.#key },
      signal: AbortSignal.timeout(deadline),
    });
    const parts: Uint8Array[] = [];
    let bytes = 0;
    for await (const part of answer.body ?? []) {
      parts.push(part);
      bytes += part.length;
      if (bytes > maxBytes) throw new Error(`more than ${maxBytes} bytes came`);
    }
    if (!answer.ok) throw new Error(`it answered with status ${answer.status}`);
    return Buffer.concat(parts);
  }
}
