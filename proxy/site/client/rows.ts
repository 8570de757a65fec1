import type { MarketPage } from "../../../schemas/envelopes.ts";
import { bytesOf, fromOctets, textOf, toBase64, toHex } from "../../../snapshots/format/bytes.ts";
import { hashBytes, hashesIn } from "../../../snapshots/format/hash-trees.ts";
import { type ArchiveFilter, isSelected, type Matches } from "../../../snapshots/read/fetched-index.ts";
import type { Archives, Known } from "./archive.ts";
import type { Asker, Job } from "./asker.ts";
import { type Part, type Parts, partsAtOnce } from "./parts.ts";
import { trees } from "./trees.ts";

/** Adjacent matches in one page. */
interface Group {
  /** The ordinal of the page's oldest market, and how many it has. */
  first: number;
  markets: number;
  /** Which markets of the page match, descending. */
  places: number[];
  /** The leaf hashes of the page's markets, which have its root. */
  part: Part;
}

/** Makes what checks the markets that match, on their way to the caller. */
export function checkerOf(
  { asker, archives, parts }: { asker: Asker; archives: Archives; parts: Parts },
  { job, known, matches, filter }: { job: Job; known: Known; matches: Matches; filter: ArchiveFilter },
) {
  const { need, checking } = asker;
  /** The market that came last. */
  let before: { time: number; id: string } | undefined;

  /** The next matches, by the pages of the archive that have them: at most 1,024, of at most 100 pages. */
  async function groupsFrom(at: number, most: number): Promise<Group[]> {
    const { segments } = known.archive;
    // A page has at most 512 markets, so the first is there whole.
    const window = Math.min(most, 1024);
    const ordinals = matches.slice(at, window);
    const ahead = ordinals.length < window || window < 1024 ? 0 : 24;
    const groups: Group[] = [];
    for (const ordinal of ordinals) {
      const last = groups.at(-1);
      if (last && ordinal >= last.first) {
        last.places.push(ordinal - last.first);
        continue;
      }
      if (groups.length === partsAtOnce) return groups;
      const index = segments.findLastIndex(({ start }) => start <= ordinal);
      const segment = segments[index]!;
      if (!segment.pages)
        await archives.loadPages(job, segments.slice(Math.max(0, index - ahead), index + 1));
      const { starts, roots } = segment.pages!;
      const page = starts.findLastIndex((start) => start <= ordinal - segment.start);
      const first = segment.start + starts[page]!;
      const markets = starts[page + 1]! - starts[page]!;
      const part: Part = {
        hash: toHex(hashesIn(roots)[page]!),
        bytes: hashBytes * markets,
        what: "page",
        name: `Page ${page} of ${segment.name}`,
        hashOf: (leaves) => trees.rootOf("page", markets, hashesIn(leaves)),
      };
      groups.push({ first, markets, places: [ordinal - first], part });
    }
    // More of the last one may follow.
    if (ordinals.length === 1024) groups.pop();
    return groups;
  }

  /**
   * Checks that these texts, newest first, are the markets of a group, that each matches, and that it comes behind the
   * one before: a signed index may still lie.
   * @param leaves Of the whole page; undefined where all of its markets match.
   */
  async function requireTexts(
    { places, markets, part }: Group,
    leaves: Uint8Array | undefined,
    texts: readonly string[],
  ) {
    const hashes = await Promise.all(texts.map((text) => trees.leafHash(bytesOf(text))));
    const rootOf = async () => toHex(await trees.rootOf("page", markets, hashes.toReversed()));
    const together = leaves !== undefined || (await rootOf()) === part.hash;
    need(together, "row", `${part.name}: its markets are not these, or not in this order.`);
    const own = leaves && hashesIn(leaves);
    for (const [index, place] of places.entries()) {
      const [hash, leaf, text = ""] = [hashes[index], own?.[place], texts[index]];
      const same = !own || (hash && leaf && toHex(hash) === toHex(leaf));
      const name = `${part.name}: market ${place}`;
      need(same, "row", `${name} is not ${text.slice(0, 44)}…`);
      await checking("row", name, () => {
        const market = JSON.parse(text);
        const { id } = market;
        const matched = isSelected(market, filter, known.entry.feedVersion);
        need(matched, "row", `${name}, ${id}, does not match: the index lies.`);
        const key = { time: Date.parse(market.resolvedAt), id };
        const behind = !before || key.time < before.time || (key.time === before.time && key.id < before.id);
        need(behind, "row", `${name}, ${id}, is not in the archive's order.`);
        before = key;
      });
    }
  }

  /**
   * Checks that what `take` gives are the matches from `at` on, at most `most`, and yields them group by group.
   * @param take Gives so many of the texts that came, in their order.
   */
  return async function* checked(
    at: number,
    most: number,
    take: (count: number) => Promise<string[]> | string[],
  ): AsyncGenerator<string[], void, void> {
    const groups = await groupsFrom(at, most);
    const pages = groups.flatMap(({ places, markets, part }) => (places.length < markets ? [part] : []));
    // Of the pages of which not every market matches.
    const leaves = await parts.once(job, pages);
    for (const group of groups) {
      const texts = await take(group.places.length);
      await requireTexts(group, leaves.get(group.part.hash), texts);
      yield texts;
    }
  };
}

/** A page with its markets as they came. */
export type PageTexts = Omit<MarketPage, "markets"> & { markets: string[] };

/** Reads a page, but not its markets: their hashes are of their texts, byte for byte. */
export function pageIn(body: string): PageTexts {
  const member = '"markets":[';
  const start = body.indexOf(member) + member.length;
  const markets: string[] = [];
  let [depth, from] = [0, 0];
  for (const { 0: token, index } of body.slice(start).matchAll(/"[^"\\]*(?:\\.[^"\\]*)*"|[[\]{}]/g)) {
    if (token === "{" || token === "[") {
      if (depth === 0) from = index;
      depth += 1;
    } else if (token.length === 1) {
      depth -= 1;
      if (depth < 0) break;
      if (depth === 0) markets.push(body.slice(start + from, start + index + 1));
    }
  }
  return { ...JSON.parse(body), markets };
}

/** Where a cursor leads: behind the market with this ordinal, in this snapshot. */
export interface Place {
  commit: number;
  snapshotId: string;
  ordinal: number;
  resolvedAt: number;
  id: string;
  pageSize: number;
  /** The filters. */
  canonical: string;
}

/** Reads a cursor; undefined where it is none. */
export function cursorIn(text: string): Place | undefined {
  try {
    const bytes = fromOctets(atob(text.replaceAll("-", "+").replaceAll("_", "/")));
    const [commit, snapshotId, ordinal, resolvedAt, id, pageSize, canonical] = JSON.parse(textOf(bytes));
    return { commit, snapshotId, ordinal, resolvedAt, id, pageSize, canonical: String(canonical) };
  } catch {
    return undefined;
  }
}

export function cursorText({ commit, snapshotId, ordinal, resolvedAt, id, pageSize, canonical }: Place) {
  const fields = [commit, snapshotId, ordinal, resolvedAt, id, pageSize, canonical];
  const text = toBase64(bytesOf(JSON.stringify(fields)));
  return text.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}
