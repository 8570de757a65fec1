import type { MarketAbsence, MarketIndex } from "../../../schemas/envelopes.ts";
import {
  chunkBytes,
  chunksOf,
  cuts,
  hashFrom,
  maxHeaderBytes,
  toHex,
} from "../../../snapshots/format/bytes.ts";
import { hashesIn, isCount } from "../../../snapshots/format/hash-trees.ts";
import {
  type ArchiveFilter,
  type ArchiveIndex,
  type IndexHeader,
  isLeftOut,
  judgedIn,
  openIndex,
  parseIndexHeader,
} from "../../../snapshots/read/fetched-index.ts";
import type { Asker, Job } from "./asker.ts";
import type { Part, Parts } from "./parts.ts";
import { node, ownSha256, trees } from "./trees.ts";
import type { Believed, TrustedLog } from "./trusted-log.ts";
import type { Entry, Trust, Vouched } from "./types.ts";

/** See snapshots/SPEC.md, "Maxima". */
export const maxSegments = 16_384;

/** An archive of which the index was checked as far as its headers. */
export interface Archive {
  /** Of its index. */
  root: string;
  archiveRoot: string;
  /** From the oldest. */
  segments: readonly Segment[];
  /** Keeps what it decoded. */
  index: ArchiveIndex;
  /** Of which parts that is, and their bytes. */
  decoded: Map<string, number>;
}

/** An archive and the commit that it was checked against. */
export interface Known extends Believed {
  archive: Archive;
}

/** What the service says of its segments. Nothing of it is believed before it was checked. */
type Listed = MarketIndex["segments"];

/**
 * The pages of a segment: the ordinals at which they begin and the last ends, from the segment's oldest market, and
 * their roots.
 */
type Pages = { starts: readonly number[]; roots: Uint8Array };

const sectionRoot = (section: Uint8Array) =>
  trees.rootOf("section", section.length, chunksOf(section, chunkBytes.section).map(trees.leafHash));

/**
 * A segment whose header was checked, the one with this number from the oldest. While an evaluation runs, it has the
 * sections that this needs. `start` is the ordinal of its oldest market.
 */
function segmentOf(index: number, start: number, header: IndexHeader, parts: Parts) {
  const name = `segment ${index}`;
  const { words } = header;
  const placeOf = (section: string) => {
    const place = header.sections[section];
    if (!place) throw new Error(`${name} has no section ${section}.`);
    return place;
  };
  return {
    name,
    start,
    header,
    /** Once they were asked for. */
    pages: undefined as Pages | undefined,
    section(section: string): Uint8Array {
      const [bytes, hash] = placeOf(section);
      return bytes === 0 ? new Uint8Array(0) : parts.get(hash);
    },
    get words(): Uint8Array {
      return parts.get(words.hash);
    },
    /** What a section must be. */
    part(section: string): Part {
      const [bytes, hash] = placeOf(section);
      return { hash, bytes, what: "section", name: `Section ${section} of ${name}`, hashOf: sectionRoot };
    },
    wordsPart: { ...words, what: "words", name: `The words of ${name}`, hashOf: ownSha256 } satisfies Part,
  };
}
type Segment = ReturnType<typeof segmentOf>;

export type Archives = ReturnType<typeof archivesOf>;

/** The archives that were asked for, each checked against the log's entry before it is used. */
export function archivesOf(asker: Asker, log: TrustedLog, partStore: Parts) {
  /** The one that was asked for last. What the evaluator decoded of it is used again. */
  let last: Archive | undefined;
  /** The one that was asked for last by the id of its snapshot, and with which trust. */
  let named: { request: string; known: Known } | undefined;

  /** Asks which archive there is, and checks it as far as the headers of its index. */
  async function know(job: Job, trust: Trust, asOf: string | undefined): Promise<Known> {
    const request = JSON.stringify([asOf, trust]);
    if (named?.request === request) return named.known;
    const answer = await asker.json<MarketIndex>(job, "/markets/index", { asOf });
    const believed = await log.vouch(answer, trust, { asOf, signal: job.signal });
    const { segments: listed } = answer;
    const right =
      Array.isArray(listed) &&
      listed.length <= maxSegments &&
      listed.every(
        (segment) =>
          isOneOf(segment?.markets, cuts.segmentMax) &&
          hashFrom(segment.header?.hash) &&
          isOneOf(segment.header.bytes, maxHeaderBytes) &&
          hashFrom(segment.ids?.hash) &&
          segment.ids.bytes === 6 * segment.markets,
      );
    asker.need(right, "index root", "The answer does not list the headers and ids of segments.");
    const children = listed.map(({ header, ids }) =>
      trees.nodeHash(hashFrom(header.hash)!, hashFrom(ids.hash)!),
    );
    const root = await requireRoot(believed.entry, answer, children);
    const { feedVersion } = believed.entry;
    if (last?.root !== root || last.index.version !== feedVersion) {
      const read = await readSegments(job, believed.entry, listed);
      last = { ...read, root, index: openIndex(read.segments, feedVersion), decoded: new Map() };
    }
    const archive = last;
    asker.need(
      archive.archiveRoot === believed.entry.archiveRoot,
      "archive root",
      `The index is of an archive with the root ${archive.archiveRoot}, the log's entry of ` +
        `${believed.entry.archiveRoot}.`,
    );
    const known = { ...believed, archive };
    // What the id of a snapshot names never changes.
    if (asOf === known.snapshotId) named = { request, known };
    return known;
  }

  /** Checks that the index root of an entry is that over these children of a tree. */
  async function requireRoot(
    { indexRoot, counts }: Entry,
    answer: MarketIndex | MarketAbsence,
    children: readonly (Uint8Array | Promise<Uint8Array>)[],
  ): Promise<string> {
    const markets = answer.segments.reduce((sum, segment) => sum + segment.markets, 0);
    const root = toHex(await trees.rootOf("index", markets, children));
    asker.need(
      root === indexRoot &&
        root === answer.indexRoot &&
        markets === counts.markets &&
        markets === answer.markets,
      "index root",
      `The segments have the index root ${root} and ${markets} markets, the log's entry ${indexRoot} and ` +
        `${counts.markets}.`,
    );
    return root;
  }

  async function readSegments(job: Job, entry: Entry, listed: Listed) {
    const parts = listed.map(({ header }, index) => ({
      ...header,
      what: "header",
      name: `The index header of segment ${index}`,
      hashOf: ownSha256,
    }));
    const starts = [0];
    for (const { markets } of listed) starts.push(starts.at(-1)! + markets);
    const segments = await partStore.loaded(job, parts, () =>
      Promise.all(
        parts.map(({ hash, what, name }, index) =>
          asker.checking(what, name, () => {
            const header = parseIndexHeader(name, partStore.get(hash));
            const markets = listed[index]!.markets;
            const same = header.markets === markets;
            asker.need(same, what, `${name} has ${header.markets} markets, not ${markets}.`);
            return segmentOf(index, starts[index]!, header, partStore);
          }),
        ),
      ),
    );
    const roots = segments.map(({ header }) => hashFrom(header.root)!);
    return { segments, archiveRoot: toHex(await trees.rootOf("archive", entry.counts.markets, roots)) };
  }

  /** Loads what pages segments have, and checks it against their roots, which the archive's root covers. */
  async function loadPages(job: Job, segments: readonly Segment[]): Promise<void> {
    const missing = segments.filter(({ pages }) => !pages);
    const parts = missing.flatMap((segment) =>
      ["pageMarkets", "pageRoots"].map((name) => segment.part(name)),
    );
    await partStore.loaded(job, parts, () =>
      Promise.all(
        missing.map(async (segment) => {
          const { name, header } = segment;
          const sizes = segment.section("pageMarkets");
          const roots = segment.section("pageRoots");
          const starts = [0];
          for (let at = 0; at + 1 < sizes.length; at += 2) {
            const markets = sizes[at]! + 256 * sizes[at + 1]!;
            const message = `A page of ${name} has ${markets} markets.`;
            // A longer one would never be read to its end.
            asker.need(isOneOf(markets, cuts.pageMax), "page roots", message);
            starts.push(starts.at(-1)! + markets);
          }
          const root = toHex(await trees.rootOf("segment", header.markets, hashesIn(roots)));
          asker.need(
            root === header.root && starts.at(-1) === header.markets,
            "page roots",
            `The pages of ${name} have the root ${root} and ${starts.at(-1)} markets, not what its header says.`,
          );
          segment.pages = { starts, roots };
        }),
      ),
    );
  }

  return { know, requireRoot, loadPages };
}

/**
 * What vouches for an answer to a filter. Whoever checks an index by its markets cannot judge all words that another
 * version of Unicode made, nor all values of a later version of the feed, so those are not shown to be complete.
 */
export function vouchedFor(
  { vouched, entry, archive: { segments } }: Known,
  { conditions, words }: ArchiveFilter,
): Vouched {
  const needed = words.length > 0 ? segments.filter(({ header }) => !isLeftOut(header, conditions)) : [];
  const versions = new Set(needed.map(({ header }) => header.words.unicode));
  const own = node?.versions?.unicode;
  const unjudged = [...versions]
    .filter((version) => version !== own)
    .map(
      (version) =>
        `Words that Unicode ${version} made; this platform has ${own ?? "one that it does not tell"}.`,
    );
  const { feedVersion } = entry;
  if (judgedIn(feedVersion, conditions).length < conditions.length)
    unjudged.push(`Whether markets of version ${feedVersion} of the feed match; it is a later one.`);
  return { ...vouched, unjudged, complete: vouched.complete && unjudged.length === 0 };
}

/** Whether somebody's number is from 1 to this. */
export const isOneOf = (value: unknown, most: number): boolean =>
  isCount(value) && value >= 1 && value <= most;
