// Recomputes what the service says of its archive, on those parts of the archive's index that it takes. Each part is
// checked against a root that the log's entry names (snapshots/SPEC.md, "Index root") before it is used. The evaluator
// is the service's own. The client loads this module when it is first needed, and lends it what both use.

import type { MarketAbsence, MarketPage } from "../../../schemas/envelopes.ts";
import type { Filters } from "../../../schemas/filters.ts";
import { facetLimit } from "../../../schemas/filters.ts";
import { bytesOf } from "../../../snapshots/format/bytes.ts";
import {
  type ArchiveFilter,
  countFacets,
  csvHead,
  csvOf,
  evaluate,
  isLeftOut,
  type Matches,
  openIndex,
  parseFacetNames,
  readFilter,
  sectionsFor,
} from "../../../snapshots/read/fetched-index.ts";
import { requireAbsent } from "./absence.ts";
import type { Row, Rows } from "./answers.ts";
import { archivesOf, isOneOf, type Known, vouchedFor } from "./archive.ts";
import { askerOf, type Job, type Tools } from "./asker.ts";
import { partsOf } from "./parts.ts";
import { checkerOf, cursorIn, cursorText, type PageTexts, type Place, pageIn } from "./rows.ts";
import { trustedLog } from "./trusted-log.ts";
import type { Absence, Proving, ReadOptions, Recomputed, Recomputing, Trust, Vouched } from "./types.ts";

/** Nobody else waits for a turn. */
const noWait = async () => {};

export type Prover = ReturnType<typeof proverFor>;

/** Recomputes answers for one client. */
export function proverFor(tools: Tools, { url, keepBytes }: { url: string; keepBytes: number }) {
  const asker = askerOf(tools);
  const partStore = partsOf(asker, { url, keepBytes });
  const log = trustedLog(asker);
  const archives = archivesOf(asker, log, partStore);

  /** See Client.recompute. */
  async function recompute({
    filters = {},
    by = [],
    limit = facetLimit.otherwise,
    trust = {},
    asOf,
    signal,
  }: Recomputing): Promise<Recomputed> {
    const filter = filterOf(filters);
    const names = by.length > 0 ? asker.reading(() => parseFacetNames(by.join())) : [];
    requireIndexRoot(trust, "totals");
    const job: Job = { bytes: 0, requests: 0, signal };
    const known = await archives.know(job, trust, asOf);
    const { total, facets } = await evaluateWith(job, known, { filter, by: names }, async (matches) => ({
      total: matches.total,
      facets: names.length > 0 ? await countFacets(known.archive.index, matches, names, limit, noWait) : {},
    }));
    const { snapshotId, commit } = known;
    const { bytes, requests } = job;
    const vouched = vouchedFor(known, filter);
    return { snapshotId, commit, total, bytes, requests, vouched, facets: facets as Recomputed["facets"] };
  }

  /**
   * The lines of Client.rows, each shown to be the next one that matches.
   * @param rows What the caller sees of the answer.
   */
  async function* lines(
    filters: Filters,
    rows: Rows,
    { trust = {}, signal }: Proving,
  ): AsyncGenerator<string, void, void> {
    const job: Job = { bytes: 0, requests: 0, signal };
    const { need, tools } = asker;
    const { checked, known, matches, filter, from } = await start(job, filters, trust);
    const { snapshotId, entry } = known;
    const { total } = matches;
    const { skip = 0, asOf: _, ...query } = filters;
    const pinned = query.cursor === undefined ? { ...query, asOf: snapshotId } : query;
    const answer = tools.client.rows({ ...pinned, skip }, { signal });
    const lines = answer[Symbol.asyncIterator]();
    try {
      let ahead: IteratorResult<Row, void> | undefined = await lines.next();
      need(
        answer.snapshotId === snapshotId && answer.total === total && answer.count === total - from,
        "total",
        `${answer.total} markets are said to match in snapshot ${answer.snapshotId}, not ${total} in ` +
          `${snapshotId}; ${answer.count} rows, not ${total - from}.`,
      );
      if (query.cursor === undefined) {
        const begin = { snapshotId, ordinal: entry.counts.markets, resolvedAt: 0, id: "" };
        requireCursor("X-Cursor", answer.cursor, { ...begin, canonical: filter.canonical });
      }
      const { count, cursor } = answer;
      Object.assign(rows, { snapshotId, count, total, cursor, vouched: vouchedFor(known, filter) });
      rows.csvHead = csvHead(entry.feedVersion);
      rows.csvOf = (text) => csvOf([bytesOf(text)], entry.feedVersion, noWait);
      const take = async (wanted: number) => {
        const texts: string[] = [];
        while (texts.length < wanted) {
          const { done, value } = ahead ?? (await lines.next());
          ahead = undefined;
          need(!done, "rows", `The rows end although ${total} markets match.`);
          texts.push((value as Row).text);
        }
        return texts;
      };
      for (let at = from + skip; at < total; )
        for await (const texts of checked(at, Infinity, take)) {
          for (const text of texts) {
            rows.skip += 1;
            yield text;
          }
          at += texts.length;
        }
      need((ahead ?? (await lines.next())).done, "rows", "More rows come than match.");
    } finally {
      await lines.return();
    }
  }

  /** Pages of Client.page and Client.pages, each shown to have the next markets that match. */
  async function* pages(
    filters: Filters,
    { trust = {}, signal }: Proving,
    ask: (query: Filters, parse: typeof pageIn) => Promise<{ page: PageTexts; snapshot: string }>,
  ): AsyncGenerator<MarketPage & { vouched: Vouched }, void, void> {
    const job: Job = { bytes: 0, requests: 0, signal };
    const { need } = asker;
    const { checked, known, matches, filter, from, place } = await start(job, filters, trust);
    const { snapshotId, entry } = known;
    const vouched = vouchedFor(known, filter);
    const { total } = matches;
    let query = filters.cursor === undefined ? { ...filters, asOf: snapshotId } : filters;
    let [at, pageSize] = [from, filters.pageSize ?? place?.pageSize];
    for (let first = true; ; first = false) {
      const { page, snapshot } = await ask(query, pageIn);
      const { markets } = page;
      pageSize ??= page.pageSize;
      need(isOneOf(pageSize, 500), "answer", `The page size is ${pageSize}.`);
      if (first && filters.cursor === undefined) at = ((filters.page ?? 1) - 1) * pageSize;
      const count = Math.max(0, Math.min(pageSize, total - at));
      const number = Math.floor(at / pageSize) + 1;
      need(
        snapshot === snapshotId && page.total === total && page.count === count && markets?.length === count,
        "total",
        `${page.total} markets are said to match in snapshot ${snapshot}, not ${total} in ${snapshotId}; ` +
          `${markets?.length} on the page, not ${count}.`,
      );
      need(
        page.page === number && page.pageSize === pageSize && page.version === entry.feedVersion,
        "answer",
        `The page is said to be page ${page.page} of ${page.pageSize} markets of version ${page.version}, not page ` +
          `${number} of ${pageSize} of ${entry.feedVersion}.`,
      );
      let done = 0;
      const take = (wanted: number) => markets.slice(done, done + wanted);
      while (done < count)
        for await (const texts of checked(at + done, count - done, take)) done += texts.length;
      at += count;
      const right = (page.nextCursor !== null) === at < total;
      need(right, "answer", `nextCursor is wrong after ${at} of ${total}.`);
      if (page.nextCursor !== null) {
        const { resolvedAt, id } = JSON.parse(markets.at(-1) ?? "{}");
        requireCursor("nextCursor", page.nextCursor, {
          snapshotId,
          ordinal: Number(matches.slice(at - 1, 1)[0]),
          resolvedAt: Date.parse(resolvedAt),
          id,
          pageSize,
          canonical: filter.canonical,
        });
      }
      yield { ...page, markets: markets.map((text) => JSON.parse(text)), vouched };
      if (page.nextCursor === null) return;
      query = { cursor: page.nextCursor };
    }
  }

  /** Evaluates the filters of rows or pages, and finds how many matches are before the cursor. */
  async function start(
    job: Job,
    { cursor, skip: _, page: __, pageSize: ___, asOf, ...filters }: Filters,
    trust: Trust,
  ) {
    const place = cursor === undefined ? undefined : cursorIn(cursor);
    if (cursor !== undefined && !place) throw asker.invalid("The cursor cannot be read.", "cursor");
    const own = filterOf(filters);
    const filter = place && own.canonical === "" ? readFilter(place.canonical) : own;
    if (place && filter.canonical !== place.canonical)
      throw asker.invalid("The filters are not those of the cursor; give the same.", "cursor");
    const known = await archives.know(job, trust, place?.snapshotId ?? asOf);
    const { snapshotId } = known;
    const wrong = `The index is of snapshot ${snapshotId}, not of the cursor's.`;
    asker.need(!place || place.snapshotId === snapshotId, "answer", wrong);
    const matches = await evaluateWith(job, known, { filter, by: [] }, async (all) => all);
    const from = place ? matches.countFrom(place.ordinal) : 0;
    const scope = { known, matches, filter };
    const checked = checkerOf({ asker, archives, parts: partStore }, { ...scope, job });
    return { ...scope, checked, from, place };
  }

  /** Checks that a cursor leads to a place. Several commits may have its snapshot, so it may name any of them. */
  function requireCursor(name: string, text: string | undefined, expected: Omit<Partial<Place>, "commit">) {
    const place = cursorIn(text ?? "");
    const right = place && cursorText({ ...place, ...expected }) === text;
    const wrong = `${name} leads elsewhere: ${JSON.stringify(place)}, not ${JSON.stringify(expected)}.`;
    asker.need(right, "answer", wrong);
  }

  /** See Client.absent. */
  async function absent(id: string, { trust = {}, asOf, signal }: Proving & ReadOptions): Promise<Absence> {
    requireIndexRoot(trust, "absence");
    const job: Job = { bytes: 0, requests: 0, signal };
    const answer = await asker.json<MarketAbsence>(job, "/markets/index/absence", { id, asOf });
    const { entry, ...believed } = await log.vouch(answer, trust, { asOf, signal });
    const children = await requireAbsent(asker, id, answer, entry);
    await archives.requireRoot(entry, answer, children);
    const { bytes, requests } = job;
    return { ...believed, markets: entry.counts.markets, bytes, requests };
  }

  /**
   * Refuses a snapshot's id alone: it covers the markets, but not the index, and a lying one could leave some out.
   */
  function requireIndexRoot({ key, entry, snapshotId }: Trust, what: string) {
    if (snapshotId === undefined || key !== undefined || entry !== undefined) return;
    const detail =
      `A snapshotId alone proves markets and rows, but no ${what}: it does not cover the index that they follow ` +
      "from. Give the publisher's key or a policy as trust.key, or the SHA-256 of the log's entry as trust.entry.";
    throw asker.invalid(detail, "trust");
  }

  function filterOf(filters: object): ArchiveFilter {
    const parameters = Object.entries(filters).filter(([, value]) => value !== undefined);
    // Words would be split at such a character, and other markets would match than at the service.
    const unknown = /\p{Cn}/u.exec(Object.fromEntries(parameters).q ?? "");
    const detail = `q has a character that this platform's Unicode does not know: ${unknown?.[0]}`;
    if (unknown) throw asker.invalid(detail, "q");
    return asker.reading(() => readFilter(String(new URLSearchParams(parameters))));
  }

  /** Evaluates a filter on the sections that it takes, which are there while `work` lasts. */
  async function evaluateWith<T>(
    job: Job,
    { archive }: Known,
    { filter, by }: { filter: ArchiveFilter; by: ReturnType<typeof parseFacetNames> },
    work: (matches: Matches) => Promise<T>,
  ) {
    const { segments, index, decoded } = archive;
    const { conditions, words } = filter;
    const parts = segments.flatMap((segment) => {
      const names = sectionsFor(segment.header, { conditions, by });
      const sections = names.map((name) => segment.part(name));
      const needsWords = words.length > 0 && !isLeftOut(segment.header, conditions);
      return needsWords ? [...sections, segment.wordsPart] : sections;
    });
    const result = await partStore.loaded(job, parts, () =>
      asker.checking("section", "The index", async () => work(await evaluate(index, filter, noWait))),
    );
    for (const { hash, bytes } of parts) decoded.set(hash, bytes);
    const bytes = [...decoded.values()].reduce((sum, each) => sum + each, 0);
    if (bytes > keepBytes) [archive.index, archive.decoded] = [openIndex(segments, index.version), new Map()];
    return result;
  }

  return { log, recompute, lines, pages, absent };
}
