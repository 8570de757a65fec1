import { z } from "zod";
import { ApiError, type Entry, linesFromEnd } from "../../proxy/site/client/client.ts";
import { MarketIndex } from "../../schemas/envelopes.ts";
import { Fault } from "../../schemas/errors.ts";
import { everyField, feedFields } from "../../schemas/filters.ts";
import { Digest } from "../../schemas/records.ts";
import { isKnownFeed } from "../../schemas/versions.ts";
import { chunkBytes, maxHeaderBytes, maxObjectBytes, textOf } from "../../snapshots/format/bytes.ts";
import { outlineOf } from "../../snapshots/format/market-line.ts";
import { sha256 } from "../../snapshots/format/tree.ts";
import { checkWords, encodeWords, unicodeVersion } from "../../snapshots/index/encode-words.ts";
import { encodeIds, idHash } from "../../snapshots/index/id-table.ts";
import {
  buildIndex,
  columnsOf,
  type IndexRow,
  indexHeader,
  judgeHeader,
  openHeader,
  sectionRootOf,
} from "../../snapshots/index/index-header.ts";
import { indexVersion, type WordsRef } from "../../snapshots/index/index-reader.ts";
import { wordsOf } from "../../snapshots/index/word-table.ts";
import { CorruptObjectError, messageOf, unless } from "../../snapshots/store/errors.ts";
import { indexRootOf } from "../../snapshots/store/manifest.ts";
import { referTo } from "../../snapshots/store/objects.ts";
import { readAll } from "../../snapshots/store/storage.ts";
import { outliners } from "../../snapshots/verify/market-pattern.ts";
import { counted, type Progress } from "../cli.ts";
import { type CopyTree, fileOf } from "./lines.ts";

/** Parts of a segment's index that this program may be unable to check. */
const Unchecked = z.enum(["version", "columns", "words"]);
type Unchecked = z.infer<typeof Unchecked>;

/** The part of a segment that the index root covers: the SHA-256 of its header, and the root of its ids. */
const KnownSegment = z.object({ root: Digest, header: Digest, ids: Digest, unchecked: z.array(Unchecked) });
type KnownSegment = z.infer<typeof KnownSegment>;

/** The index of a copy, segment by segment, from which later runs go on. `method` names the method that made it. */
export const CopyIndex = z.object({ method: Digest, segments: z.array(KnownSegment) });
export type CopyIndex = z.infer<typeof CopyIndex>;

/**
 * Part of every index, because indexes made by another method may differ, and an earlier version of this check may have
 * accepted more.
 */
const method = sha256(
  JSON.stringify([
    3,
    indexVersion,
    unicodeVersion,
    Array.from(everyField.values(), (row) => [
      row.field,
      row.kind,
      ...(row.kind === "integer" ? [row.min, row.max] : []),
    ]),
  ]),
);

export interface IndexParts {
  /** The file of the copy, and its tree. */
  path: string;
  tree: CopyTree;
  /** The log's entry for the snapshot. */
  entry: Pick<Entry, "indexRoot" | "snapshotId" | "feedVersion">;
  /** The result of an earlier run. */
  earlier: CopyIndex | undefined;
  published: PublishedIndex;
  progress: Progress;
}

/**
 * Computes the index root of a copy from its markets, and compares it with the published one. Segments that an earlier
 * run computed are not computed again. Memory holds the index of one segment.
 */
export async function checkIndex(parts: IndexParts): Promise<CopyIndex> {
  const { tree, progress } = parts;
  const computed = new Map(
    parts.earlier?.method === method ? parts.earlier.segments.map((one) => [one.root, one]) : [],
  );
  await using file = await fileOf(parts.path);
  const segments: KnownSegment[] = [];
  let done = 0;
  for (const [place, segment] of tree.segments.entries()) {
    const stored = computed.get(segment.root);
    segments.push(stored ?? (await knownOf(parts, file, place)));
    done += segment.markets;
    progress("markets indexed", done, tree.lines);
  }
  if (rootOf(tree, segments) !== parts.entry.indexRoot) {
    const listed = await parts.published.segments(parts.entry.snapshotId).catch((error) => {
      if (error instanceof ApiError) throw error;
      throw wrong(parts, `; which part of it is wrong cannot be told: ${messageOf(error)}`);
    });
    if (listed.length !== segments.length)
      throw wrong(parts, `: it has ${listed.length} segments, and the markets make ${segments.length}`);
    for (const [place, { header, ids }] of listed.entries()) {
      const own = segments[place]!;
      if (header.hash === own.header && ids.hash === own.ids) continue;
      segments[place] = await compared(parts, file, place, { header: header.hash, ids: ids.hash });
    }
    if (rootOf(tree, segments) !== parts.entry.indexRoot)
      throw wrong(parts, "; which part of it is wrong cannot be told: the service names other headers");
  }
  return { method, segments };
}

type File = Awaited<ReturnType<typeof fileOf>>;

function rootOf({ segments }: CopyTree, indexed: readonly KnownSegment[]): string {
  return indexRootOf(
    indexed.map(({ header, ids }, place) => {
      return { index: { hash: header }, ids: { root: ids }, markets: segments[place]!.markets };
    }),
  );
}

/** `ids` is the root of the ids. */
async function readSegment({ tree, entry }: IndexParts, file: File, place: number) {
  const { start, end, pages } = tree.segments[place]!;
  const outliner = outliners.get(entry.feedVersion);
  const rows: IndexRow[] = [];
  const hashes: number[] = [];
  const questions: string[] = [];
  const part = {
    size: end - start,
    slice: (from: number, to: number) => file.slice(start + from, start + to),
  };
  for await (const line of linesFromEnd(part)) {
    const row = outliner?.(line) ?? outlineOf(JSON.parse(textOf(line)), entry.feedVersion);
    rows.push(row);
    hashes.push(idHash(row.id));
    questions.push(row.question);
  }
  return { pages, rows, ids: sectionRootOf(encodeIds(hashes), chunkBytes.ids), questions };
}

function wordsRefOf(questions: readonly string[], unicode: string): WordsRef {
  return { unicode, ...referTo(encodeWords(questions.map(wordsOf), unicode)) };
}

/** As this version would publish it. Of a later version of the feed it knows no columns. */
async function knownOf(parts: IndexParts, file: File, place: number): Promise<KnownSegment> {
  const { tree } = parts;
  const { feedVersion } = parts.entry;
  try {
    const { pages, rows, ids, questions } = await readSegment(parts, file, place);
    const fields = feedFields(feedVersion).filter(({ retired }) => isKnownFeed(feedVersion) && !retired);
    const header = indexHeader(
      buildIndex(pages, columnsOf(rows), fields),
      wordsRefOf(questions, unicodeVersion),
    );
    return { root: tree.segments[place]!.root, header: sha256(header), ids, unchecked: [] };
  } catch (error) {
    const unreadable =
      error instanceof SyntaxError || error instanceof TypeError || error instanceof RangeError;
    if (!unreadable) throw error;
    const name = nameOf(tree, place);
    throw new Fault("WRONG_INDEX", `A market of ${name} cannot be indexed: ${error.message}`, {
      cause: error,
    });
  }
}

/**
 * Compares a segment with its published header and ids. Throws WRONG_INDEX when the markets give others, and ApiError
 * when words made by another version of Unicode cannot be fetched.
 */
async function compared(
  parts: IndexParts,
  file: File,
  place: number,
  listed: { header: string; ids: string },
): Promise<KnownSegment> {
  const name = nameOf(parts.tree, place);
  const { root } = parts.tree.segments[place]!;
  const differing: string[] = [];
  const unchecked: Unchecked[] = [];
  // What fails here is the fault of this disk, and not of what was published.
  const own = await readSegment(parts, file, place);
  try {
    const header = await parts.published.part(listed.header, maxHeaderBytes);
    if (listed.ids !== own.ids) differing.push("ids");
    const { words, wordsUnchecked } = await wordsFor(parts.published, name, header, own.questions);
    const verdict = judgeHeader(name, header, { ...own, words }, parts.entry.feedVersion);
    differing.push(...verdict.wrong);
    if (verdict.unchecked) unchecked.push(verdict.unchecked);
    if (wordsUnchecked) unchecked.push("words");
  } catch (error) {
    if (error instanceof ApiError) throw error;
    differing.push(`header (${messageOf(error)})`);
  }
  if (differing.length > 0) throw wrong(parts, `: in ${name}, ${differing.join(", ")}`);
  return { root, ...listed, unchecked };
}

/**
 * The words that a header ought to name. Words differ where one version of Unicode has characters that another lacks.
 * So words made by another version are accepted as they are, unless words differ that both versions find.
 */
async function wordsFor(
  published: PublishedIndex,
  name: string,
  header: Uint8Array,
  questions: readonly string[],
) {
  const ref = openHeader(name, header).member("words").value as WordsRef;
  const words = wordsRefOf(questions, String(ref.unicode));
  if (words.unicode === unicodeVersion || words.hash === ref.hash) return { words, wordsUnchecked: false };
  const stored = await published.part(ref.hash, maxObjectBytes).catch((error: unknown) => {
    throw new ApiError("UNREACHABLE", `The words of ${name} cannot be fetched: ${messageOf(error)}`);
  });
  const valid = await unless(CorruptObjectError, async () =>
    checkWords(name, stored, { segment: name, questions }),
  );
  return valid ? { words: ref, wordsUnchecked: true } : { words, wordsUnchecked: false };
}

/** Says what could not be checked of a copy's index, in one line for each kind. */
export function uncheckedIn(index: CopyIndex | undefined): string[] {
  const reasons: Record<Unchecked, string> = {
    version: "The index of # was not checked: another version of this program made it",
    columns: "Columns of # were not checked: this program does not know them",
    words: `Words of # were not checked: they were made by another version of Unicode than ${unicodeVersion}, which this Node has`,
  };
  return Unchecked.options.flatMap((kind) => {
    const count = index?.segments.filter(({ unchecked }) => unchecked.includes(kind)).length ?? 0;
    return count > 0 ? `${reasons[kind].replace("#", counted(count, "segment"))}.` : [];
  });
}

const nameOf = ({ segments }: CopyTree, place: number) =>
  `segment ${place + 1} of ${segments.length}, whose root is ${segments[place]!.root}`;

const wrong = ({ entry }: IndexParts, what: string) =>
  new Fault(
    "WRONG_INDEX",
    `The index of snapshot ${entry.snapshotId} does not follow from its markets${what}.`,
  );

/** Enough for an answer with the most segments that a snapshot can have. */
const maxListBytes = 2 ** 23;
const deadline = 60_000;

export type PublishedIndex = ReturnType<typeof publishedIndex>;

/** The index that a service published. It is asked for only to name what is wrong with it. */
export function publishedIndex({ url, key }: { url: string; key: string }) {
  const base = `${url.replace(/(\/api\/v1)?\/*$/, "")}/api/v1/markets/index`;

  /** The parts of a snapshot's index, by segment, from the oldest up. */
  async function segments(snapshotId: string): Promise<MarketIndex["segments"]> {
    const text = await get(`?asOf=${snapshotId}`, maxListBytes);
    return MarketIndex.parse(JSON.parse(String(text))).segments;
  }

  /** A header or words. Rejects when other bytes than those of the hash come. */
  async function part(hash: string, maxBytes: number): Promise<Buffer> {
    const part = await get(`/${hash}`, maxBytes);
    if (sha256(part) !== hash) throw new Error("what came is not the part that was asked for");
    return part;
  }

  /** Rejects with ApiError without an answer: it may come the next time, so nothing is known to be wrong. */
  async function get(target: string, maxBytes: number): Promise<Buffer> {
    try {
      const answer = await fetch(base + target, {
        headers: { "x-api-key": key },
        signal: AbortSignal.timeout(deadline),
      });
      const body = await readAll((answer.body ?? []) as AsyncIterable<Uint8Array>, maxBytes, () => {
        throw new Error(`more than ${maxBytes} bytes came`);
      });
      if (answer.ok) return body;
      throw new Error(`it answered with status ${answer.status}`);
    } catch (error) {
      throw new ApiError("UNREACHABLE", messageOf(error), { title: "The index cannot be fetched" });
    }
  }

  return { segments, part };
}
