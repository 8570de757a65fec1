// Recomputes what the service says of its archive, on those parts of the archive's index that it takes. Each part is
// checked against a root that the log's entry names (snapshots/SPEC.md, "Index root") before it is used. The evaluator
// is the service's own. The client loads this module when it is first needed, and lends it what both use.

import {
  type ArchiveFilter,
  csvHead,
  csvOf,
  type Evaluation,
  evaluate,
  type IndexHeader,
  InvalidParameterError,
  isLeftOut,
  isSelected,
  parseFacetNames,
  parseIndexHeader,
  readFilter,
  sectionsFor,
} from "../../../snapshots/read/evaluator.ts";
import type { Shown, Vouched } from "./answers.ts";
import type { CallOptions, Proving, Recomputed, Recomputing, Tools, Trust } from "./calls.ts";
import type { Filters, MarketPage, MarketProof } from "./declarations.d.ts";
import type { Entry } from "./proofs.ts";

/** A part of an index by its hash, and what tells that its bytes have that hash. */
interface Part {
  hash: string;
  bytes: number;
  /** What VerificationError names. */
  what: string;
  /** Which one it is, for messages. */
  name: string;
  hashOf: (bytes: Uint8Array<ArrayBuffer>) => Promise<Uint8Array>;
}

/** An archive of which the index was checked as far as its headers. */
interface Archive {
  /** Of its index. */
  root: string;
  archiveRoot: string;
  /** From the oldest. The evaluator keeps what it decoded as long as this array. */
  segments: readonly Segment[];
  /** Of which parts that is, and their bytes. */
  decoded: Map<string, number>;
}

/** An archive and the commit that it was checked against. */
interface Known {
  snapshotId: string;
  commit: number;
  entry: Entry;
  vouched: Vouched;
  archive: Archive;
}

/** What a checkpoint says of its log. */
type LogHead = { size: number; root: string };

type Listed = {
  markets: number;
  header: { hash: string; bytes: number };
  ids: { hash: string; bytes: number };
};

/**
 * The pages of a segment: the ordinals at which they begin and the last ends, from the segment's oldest market, and
 * their roots.
 */
type Pages = { starts: readonly number[]; roots: Uint8Array };

/** Adjacent matches in one page. */
interface Group {
  segment: Segment;
  /** Of the page. */
  markets: number;
  /** Which markets of the page match, descending. */
  places: number[];
  /** The page's leaf hashes. */
  part: Part;
}

/** Rows on their way: what they must match, and which one came last. */
type Walk = { filter: ArchiveFilter; before: { time: number; id: string } | undefined };

type Other = Pick<MarketProof["proof"], "page" | "segment" | "archive"> & { market: string };

/** What the service says of its log and index. Nothing of it is believed before it was checked. */
interface Said {
  snapshotId: string;
  commit: number;
  entry: string;
  inclusion: readonly string[] | null;
  checkpoint: string | null;
  indexRoot: string;
  markets: number;
  segments: unknown;
  others: unknown;
}

/** What shows that an id is not in a segment. */
interface Absent {
  markets: number;
  header: string;
  ids: { bytes: number; size: number; chunks: { index: number; path: string[]; content: string }[] };
}

const encoder = new TextEncoder();
/** Each byte as one character, which no TextDecoder does. */
const raw = {
  decode: (bytes: Uint8Array = new Uint8Array(0)) =>
    Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""),
};
/** Chunks of ids are smaller than those of other sections (snapshots/SPEC.md, "Index root"). */
const [chunkBytes, idChunkBytes] = [4096, 256];
/** The first byte of a root, by the kind of its tree (snapshots/SPEC.md, "Roots"). */
const kinds = { page: 2, segment: 3, archive: 4, index: 6, section: 7 };
/** See snapshots/SPEC.md, "Maxima". */
const maxima = { segments: 16_384, markets: 65_536, header: 2 ** 20, part: 2 ** 28 };
// How many parts are asked for in one answer, how many bytes of them, and how many answers at a time.
const [partsAtOnce, bytesAtOnce, answersAtOnce] = [100, 4 * 2 ** 20, 4];

/** What Node tells of itself, undefined elsewhere. */
const node = (
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
const nodeHash = node?.getBuiltinModule?.("node:crypto")?.hash;

/** The version of Unicode, where the platform tells it. */
const ownUnicode: string | undefined = node?.versions?.unicode;

const sha256: (bytes: Uint8Array<ArrayBuffer>) => Uint8Array | Promise<Uint8Array> = (bytes) =>
  nodeHash?.("sha256", bytes, "buffer") ??
  crypto.subtle.digest("SHA-256", bytes).then((hash) => new Uint8Array(hash));

const plainHash = async (bytes: Uint8Array) => sha256(bytes as Uint8Array<ArrayBuffer>);

const isWithin = (value: unknown, from: number, to: number) =>
  typeof value === "number" && Number.isSafeInteger(value) && value >= from && value <= to;

const isHash = (text: unknown) => typeof text === "string" && /^[0-9a-f]{64}$/.test(text);

/** The hashes in bytes of which each has 32. */
const hashesIn = (bytes: Uint8Array) =>
  Array.from({ length: bytes.length / 32 }, (_, index) => bytes.subarray(32 * index, 32 * index + 32));

/** What a call has asked for so far. */
class Job {
  bytes = 0;
  requests = 0;
  signal: AbortSignal | undefined;

  constructor(signal: AbortSignal | undefined) {
    this.signal = signal;
  }
}

/** A segment whose header was checked. While an evaluation runs, it has the sections that this needs. */
class Segment {
  name: string;
  /** Ordinal of its oldest market. */
  start: number;
  header: IndexHeader;
  #memory: Memory;
  /** Once they were asked for. */
  pages: Pages | undefined;

  /**
   * @param index From the oldest.
   */
  constructor(index: number, start: number, header: IndexHeader, memory: Memory) {
    this.name = `segment ${index}`;
    this.start = start;
    this.header = header;
    this.#memory = memory;
  }

  section(name: string) {
    const [bytes, hash] = this.#place(name);
    return bytes === 0 ? new Uint8Array(0) : this.#memory.get(hash);
  }

  get words() {
    return this.#memory.get(this.header.words.hash);
  }

  #place(name: string) {
    const place = this.header.sections[name];
    if (!place) throw new Error(`${this.name} has no section ${name}.`);
    return place;
  }

  /** What a section must be. */
  part(name: string, hashOf: Part["hashOf"]): Part {
    const [bytes, hash] = this.#place(name);
    return { hash, bytes, what: "section", name: `Section ${name} of ${this.name}`, hashOf };
  }

  get wordsPart(): Part {
    const { hash, bytes } = this.header.words;
    return { hash, bytes, what: "words", name: `The words of ${this.name}`, hashOf: plainHash };
  }
}

/**
 * Parts that were checked, by hash. What no evaluation needs any more is forgotten, the least recently used first, when
 * there are more bytes than these.
 */
class Memory {
  /** The least recently used first. */
  #parts: Map<string, Uint8Array<ArrayBuffer>> = new Map();
  /** How many evaluations need a part. */
  #needed: Map<string, number> = new Map();
  #bytes = 0;
  #most: number;

  constructor(most: number) {
    this.#most = most;
  }

  has(hash: string) {
    return this.#parts.has(hash);
  }

  get(hash: string) {
    const bytes = this.#parts.get(hash);
    if (!bytes) throw new Error(`${hash} was not loaded.`);
    this.#parts.delete(hash);
    this.#parts.set(hash, bytes);
    return bytes;
  }

  set(hash: string, bytes: Uint8Array<ArrayBuffer>) {
    if (this.#parts.has(hash)) return;
    this.#parts.set(hash, bytes);
    this.#bytes += bytes.length;
    this.#forget();
  }

  /** Keeps these parts, as they come, while `work` lasts. */
  async during<T>(hashes: readonly string[], work: () => Promise<T>) {
    const count = (step: number) => {
      for (const hash of hashes) this.#needed.set(hash, (this.#needed.get(hash) ?? 0) + step);
    };
    count(1);
    try {
      return await work();
    } finally {
      count(-1);
      for (const hash of hashes) if (this.#needed.get(hash) === 0) this.#needed.delete(hash);
      this.#forget();
    }
  }

  #forget() {
    for (const [hash, { length }] of this.#parts) {
      if (this.#bytes <= this.#most) return;
      if (this.#needed.has(hash)) continue;
      this.#parts.delete(hash);
      this.#bytes -= length;
    }
  }
}

/** What of the Cache API of browsers is used. */
interface WebCache {
  keys(): Promise<readonly { url: string }[]>;
  match(url: string): Promise<Response | undefined>;
  put(url: string, response: Response): Promise<void>;
  delete(url: string): Promise<boolean>;
}

/**
 * The same between visits, where the platform has the Cache API. What comes from there is checked like everything else.
 * It is best effort: what fails there is asked of the service.
 */
class Disk {
  static #name = "prs-index";
  #url;
  #most;
  #cache: Promise<WebCache | undefined>;
  /** The bytes of what is there, by address, the oldest first. */
  #sizes: Map<string, number> = new Map();
  #bytes = 0;

  constructor(url: string, most: number) {
    this.#url = url;
    this.#most = most;
    this.#cache = this.#open().catch(() => undefined);
  }

  async #open() {
    const cache = await (globalThis as { caches?: { open(name: string): Promise<WebCache> } }).caches?.open(
      Disk.#name,
    );
    for (const { url } of (await cache?.keys()) ?? []) this.#count(url);
    return cache;
  }

  #count(url: string) {
    const bytes = Number(new URL(url).searchParams.get("bytes"));
    this.#bytes += bytes - (this.#sizes.get(url) ?? 0);
    this.#sizes.set(url, bytes);
  }

  #address({ hash, bytes }: Part) {
    return new URL(`${this.#url}/markets/index/${hash}?bytes=${bytes}`).href;
  }

  async get(part: Part): Promise<Uint8Array<ArrayBuffer> | undefined> {
    try {
      const found = await (await this.#cache)?.match(this.#address(part));
      return found && new Uint8Array(await found.arrayBuffer());
    } catch {
      return undefined;
    }
  }

  async set(part: Part, bytes: Uint8Array<ArrayBuffer>) {
    try {
      const cache = await this.#cache;
      const url = this.#address(part);
      if (!cache || this.#sizes.has(url)) return;
      this.#count(url);
      await cache.put(url, new Response(bytes));
      for (const [oldest, size] of this.#sizes) {
        if (this.#bytes <= this.#most) break;
        this.#sizes.delete(oldest);
        this.#bytes -= size;
        await cache.delete(oldest);
      }
    } catch {
      // The browser's own bound, or its user's wish.
    }
  }
}

/** Recomputes answers for one client. */
export class Prover {
  #tools: Tools;
  #keepBytes: number;
  #memory: Memory;
  #disk: Disk;
  /** The archive that was asked for last. What the evaluator decoded of it is used again. */
  #last: Archive | undefined;
  /** The one that was asked for last by the id of its snapshot, and with which trust. */
  #named: { asked: string; known: Known } | undefined;

  constructor(tools: Tools, { url, keepBytes }: { url: string; keepBytes: number }) {
    this.#tools = tools;
    this.#keepBytes = keepBytes;
    this.#memory = new Memory(keepBytes);
    this.#disk = new Disk(url, keepBytes);
  }

  /** See Client.recompute. */
  async recompute({
    filters = {},
    by = [],
    limit,
    trust = {},
    asOf,
    signal,
  }: Recomputing): Promise<Recomputed> {
    const filter = this.#filterOf(filters);
    const names = by.length > 0 ? this.#reading(() => parseFacetNames(by.join())) : [];
    this.#requireIndexRoot(trust, "totals");
    const job = new Job(signal);
    const known = await this.#know(job, trust, asOf);
    const { total, facets } = await this.#evaluate(job, known, { filter, by: names }, async (evaluation) => ({
      total: evaluation.total,
      facets: names.length > 0 ? await evaluation.facets(names, limit) : {},
    }));
    const { snapshotId, commit } = known;
    const vouched = this.#vouchedFor(known, filter);
    const said = { snapshotId, commit, total, bytes: job.bytes, requests: job.requests, vouched };
    return { ...said, facets: facets as Recomputed["facets"] };
  }

  /**
   * The lines of Client.rows, each shown to be the next one that matches.
   * @param rows What the caller sees of the answer.
   */
  async *lines(
    filters: Filters,
    rows: Shown,
    { trust = {}, signal }: Proving,
  ): AsyncGenerator<string, void, void> {
    const job = new Job(signal);
    const { known, evaluation, filter, from } = await this.#start(job, filters, trust);
    const { snapshotId, entry } = known;
    const vouched = this.#vouchedFor(known, filter);
    const walk = { filter, before: undefined };
    const { skip = 0, asOf: _, ...query } = filters;
    const pinned = query.cursor === undefined ? { ...query, asOf: snapshotId } : query;
    const { answer, lines } = this.#tools.rows({ ...pinned, skip }, { signal });
    const next = async () => {
      const { done, value } = await lines.next();
      if (done) this.#need(false, "rows", `The rows end although ${evaluation.total} markets match.`);
      return value as string;
    };
    try {
      let first = await lines.next();
      this.#need(
        answer.snapshotId === snapshotId &&
          answer.total === evaluation.total &&
          answer.count === evaluation.total - from,
        "total",
        `${answer.total} markets are said to match in snapshot ${answer.snapshotId}, not ${evaluation.total} in ` +
          `${snapshotId}; ${answer.count} rows, not ${evaluation.total - from}.`,
      );
      if (query.cursor === undefined) {
        const begin = {
          commit: known.commit,
          snapshotId,
          ordinal: entry.counts.markets,
          resolvedAt: 0,
          id: "",
        };
        this.#requireCursor("X-Cursor", answer.cursor, { ...begin, canonical: filter.canonical });
      }
      Object.assign(rows, {
        snapshotId,
        count: answer.count,
        total: evaluation.total,
        cursor: answer.cursor,
        vouched,
      });
      rows.csvHead = csvHead(entry.feedVersion);
      rows.csvOf = (text) => csvOf([encoder.encode(text)], entry.feedVersion, async () => {});
      for (let at = from + skip; at < evaluation.total; ) {
        const groups = await this.#groups(job, known, evaluation, at);
        const leaves = await this.#leaves(job, groups);
        for (const group of groups) {
          const texts: string[] = [];
          while (texts.length < group.places.length) {
            texts.push(first.done ? await next() : first.value);
            first = { done: true, value: undefined };
          }
          await this.#requireTexts(walk, group, leaves.get(group.part.hash), texts);
          for (const text of texts) {
            rows.skip += 1;
            yield text;
          }
          at += texts.length;
        }
      }
      this.#need(first.done && (await lines.next()).done, "rows", "More rows come than match.");
    } finally {
      await lines.return();
    }
  }

  /** Pages of Client.page and Client.pages, each shown to have the next markets that match. */
  async *pages(
    filters: Filters,
    { trust = {}, signal }: Proving,
    ask: (query: Filters, parse: typeof pageIn) => Promise<{ page: PageTexts; snapshot: string }>,
  ): AsyncGenerator<MarketPage & { vouched: Vouched }, void, void> {
    const job = new Job(signal);
    const { known, evaluation, filter, from, place } = await this.#start(job, filters, trust);
    const { snapshotId, entry } = known;
    const vouched = this.#vouchedFor(known, filter);
    const walk = { filter, before: undefined };
    const { total } = evaluation;
    let query = filters.cursor === undefined ? { ...filters, asOf: snapshotId } : filters;
    let [at, pageSize] = [from, filters.pageSize ?? place?.pageSize];
    for (let first = true; ; first = false) {
      const { page, snapshot } = await ask(query, pageIn);
      const { markets } = page;
      pageSize ??= page.pageSize;
      this.#need(isWithin(pageSize, 1, 500), "answer", `The page size is ${pageSize}.`);
      if (first && filters.cursor === undefined) at = ((filters.page ?? 1) - 1) * pageSize;
      const count = Math.max(0, Math.min(pageSize, total - at));
      const number = Math.floor(at / pageSize) + 1;
      this.#need(
        snapshot === snapshotId && page.total === total && page.count === count && markets?.length === count,
        "total",
        `${page.total} markets are said to match in snapshot ${snapshot}, not ${total} in ${snapshotId}; ` +
          `${markets?.length} on the page, not ${count}.`,
      );
      this.#need(
        page.page === number && page.pageSize === pageSize && page.version === entry.feedVersion,
        "answer",
        `The page is said to be page ${page.page} of ${page.pageSize} markets of version ${page.version}, not page ` +
          `${number} of ${pageSize} of ${entry.feedVersion}.`,
      );
      let done = 0;
      while (done < count) {
        const groups = await this.#groups(job, known, evaluation, at + done, count - done);
        const leaves = await this.#leaves(job, groups);
        for (const group of groups) {
          const texts = markets.slice(done, done + group.places.length);
          await this.#requireTexts(walk, group, leaves.get(group.part.hash), texts);
          done += texts.length;
        }
      }
      at += count;
      this.#need(
        (page.nextCursor !== null) === at < total,
        "answer",
        `nextCursor is wrong after ${at} of ${total}.`,
      );
      if (page.nextCursor !== null) {
        const { resolvedAt, id } = JSON.parse(markets.at(-1) ?? "{}");
        this.#requireCursor("nextCursor", page.nextCursor, {
          commit: place?.commit ?? known.commit,
          snapshotId,
          ordinal: Number(evaluation.ordinals(at - 1, 1)[0]),
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
  async #start(
    job: Job,
    { cursor, skip: _, page: __, pageSize: ___, asOf, ...filters }: Filters,
    trust: Trust,
  ) {
    const place = cursor === undefined ? undefined : cursorIn(cursor);
    if (cursor !== undefined && !place) throw this.#invalid("The cursor cannot be read.", "cursor");
    const own = this.#filterOf(filters);
    const filter = place && own.canonical === "" ? readFilter(place.canonical) : own;
    if (place && filter.canonical !== place.canonical)
      throw this.#invalid("The filters are not those of the cursor; give the same.", "cursor");
    const known = await this.#know(job, trust, place?.snapshotId ?? asOf);
    const same = !place || place.snapshotId === known.snapshotId;
    this.#need(same, "answer", `The index is of snapshot ${known.snapshotId}, not of the cursor's.`);
    const evaluation = await this.#evaluate(job, known, { filter, by: [] }, async (found) => found);
    let [from, to] = [0, place ? evaluation.total : 0];
    while (from < to) {
      const middle = (from + to) >>> 1;
      if (Number(evaluation.ordinals(middle, 1)[0]) >= Number(place?.ordinal)) from = middle + 1;
      else to = middle;
    }
    return { known, evaluation, filter, from, place };
  }

  /** Checks that a cursor leads to a place. */
  #requireCursor(name: string, text: string | undefined, expected: Partial<Place>) {
    const place = cursorIn(text ?? "");
    const right = place && cursorText({ ...place, ...expected }) === text;
    this.#need(
      right,
      "answer",
      `${name} leads elsewhere: ${JSON.stringify(place)}, not ${JSON.stringify(expected)}.`,
    );
  }

  /** The next matches, by the pages of the archive that have them: some 500, and of 100 pages at most. */
  async #groups(
    job: Job,
    { archive: { segments } }: Known,
    evaluation: Evaluation,
    at: number,
    most: number = Infinity,
  ): Promise<Group[]> {
    // A page has at most 512 markets, so the first is there whole.
    const window = Math.min(most, 1024);
    const ordinals = evaluation.ordinals(at, window);
    const ahead = ordinals.length < window || window < 1024 ? 0 : 24;
    const groups: Group[] = [];
    let index = segments.length;
    let [start, page] = [Infinity, 0];
    for (const ordinal of ordinals) {
      if (ordinal < start) {
        index = segments.findLastIndex((segment) => segment.start <= ordinal);
        const segment = segments[index] as Segment;
        if (!segment.pages) await this.#loadPages(job, segments.slice(Math.max(0, index - ahead), index + 1));
        start = segment.start;
        page = segment.header.pages;
      }
      const segment = segments[index] as Segment & { pages: Pages };
      const place = ordinal - start;
      const last = groups.at(-1);
      if (last?.segment === segment && place >= Number(segment.pages.starts[page])) {
        last.places.push(place - Number(segment.pages.starts[page]));
        continue;
      }
      while (Number(segment.pages.starts[page]) > place) page -= 1;
      if (groups.length === partsAtOnce) return groups;
      const [from = 0, to = 0] = segment.pages.starts.slice(page, page + 2);
      groups.push({
        segment,
        markets: to - from,
        places: [place - from],
        part: this.#pagePart(segment, page, to - from),
      });
    }
    // More of the last one may follow.
    if (ordinals.length === 1024) groups.pop();
    return groups;
  }

  /** The leaf hashes of a page's markets, which have its root. */
  #pagePart({ name, pages }: Segment & { pages: Pages }, page: number, markets: number): Part {
    return {
      hash: this.#tools.hexOf(pages.roots.subarray(32 * page, 32 * page + 32)),
      bytes: 32 * markets,
      what: "page",
      name: `Page ${page} of ${name}`,
      hashOf: (leaves) => this.#root("page", markets, hashesIn(leaves)),
    };
  }

  /** Loads what pages segments have, and checks it against their roots, which the archive's root covers. */
  async #loadPages(job: Job, segments: readonly Segment[]) {
    const missing = segments.filter(({ pages }) => !pages);
    const parts = missing.flatMap((segment) =>
      ["pageMarkets", "pageRoots"].map((name) => segment.part(name, this.#sectionRoot)),
    );
    await this.#with(job, parts, () =>
      Promise.all(
        missing.map(async (segment) => {
          const { name, header } = segment;
          const sizes = segment.section("pageMarkets");
          const roots = segment.section("pageRoots");
          const starts = [0];
          for (let at = 0; at + 1 < sizes.length; at += 2)
            starts.push(Number(starts.at(-1)) + Number(sizes[at]) + 256 * Number(sizes[at + 1]));
          const root = this.#tools.hexOf(await this.#root("segment", header.markets, hashesIn(roots)));
          this.#need(
            root === header.root && starts.at(-1) === header.markets && starts.length === header.pages + 1,
            "page roots",
            `The pages of ${name} have the root ${root} and ${starts.at(-1)} markets, not what its header says.`,
          );
          segment.pages = { starts, roots };
        }),
      ),
    );
  }

  /** The leaf hashes of the pages of which not every market matches. */
  async #leaves(job: Job, groups: readonly Group[]) {
    const parts = groups.flatMap(({ places, markets, part }) => (places.length < markets ? [part] : []));
    const leaves: Map<string, Uint8Array[]> = new Map();
    await Promise.all(
      batchesOf(parts).map(async (batch) => {
        const found = await this.#fetch(job, batch, false);
        for (const [place, { hash }] of batch.entries())
          leaves.set(hash, hashesIn(found[place] as Uint8Array));
      }),
    );
    return leaves;
  }

  /**
   * Checks that these texts, newest first, are the markets of a group, that each matches, and that it comes behind the
   * one before: an index that was signed may lie all the same.
   * @param leaves Of the whole page, unless that is the group.
   */
  async #requireTexts(
    walk: Walk,
    { places, markets, part }: Group,
    leaves: readonly Uint8Array[] | undefined,
    texts: readonly string[],
  ) {
    const { hexOf } = this.#tools;
    const hashes = await Promise.all(texts.map((text) => this.#leaf(encoder.encode(text))));
    const root = leaves ?? hexOf(await this.#root("page", markets, hashes.toReversed()));
    const right = leaves !== undefined || root === part.hash;
    this.#need(right, "row", `${part.name}: its markets are not these, or not in this order.`);
    for (const [index, place] of places.entries()) {
      const [hash, leaf, text = ""] = [hashes[index], leaves?.[place], texts[index]];
      const same = !leaves || (hash && leaf && hexOf(hash) === hexOf(leaf));
      const name = `${part.name}: market ${place}`;
      this.#need(same, "row", `${name} is not ${text.slice(0, 44)}…`);
      await this.#checking("row", name, () => {
        const market = JSON.parse(text);
        this.#need(
          isSelected(market, walk.filter),
          "row",
          `${name}, ${market.id}, does not match: the index lies.`,
        );
        const { before } = walk;
        const key = { time: Date.parse(market.resolvedAt), id: market.id };
        const behind = !before || key.time < before.time || (key.time === before.time && key.id < before.id);
        this.#need(behind, "row", `${name}, ${market.id}, is not in the archive's order.`);
        walk.before = key;
      });
    }
  }

  /**
   * What vouches for an answer to a filter. Whoever checks an index by its markets cannot judge all words that another
   * version of Unicode made, so those are not shown to be complete.
   */
  #vouchedFor({ vouched, archive: { segments } }: Known, { conditions, words }: ArchiveFilter): Vouched {
    const needed = words.length > 0 ? segments.filter(({ header }) => !isLeftOut(header, conditions)) : [];
    const versions = new Set(needed.map(({ header }) => header.words.unicode));
    const unjudged = [...versions]
      .filter((version) => version !== ownUnicode)
      .map(
        (version) =>
          `Words that Unicode ${version} made; this platform has ${ownUnicode ?? "one that it does not tell"}.`,
      );
    return { ...vouched, unjudged, complete: vouched.complete && unjudged.length === 0 };
  }

  /** See Client.absent. */
  async absent(id: string, { trust = {}, asOf, signal }: Proving & { asOf?: string | undefined }) {
    this.#requireIndexRoot(trust, "absence");
    const job = new Job(signal);
    const answer = await this.#json(job, "/markets/index/absence", { id, asOf });
    const { entry, ...known } = await this.#vouch(answer, trust, { asOf, signal });
    const listed = answer.segments as Absent[];
    const others = answer.others as Other[];
    const right = Array.isArray(listed) && listed.length <= maxima.segments && Array.isArray(others);
    this.#need(right, "absence", "The answer lists no segments, or no other markets.");
    const wanted = await this.#idHash(id);
    const children = listed.map((segment, index) =>
      this.#checking("absence", `The ids of segment ${index}`, () => {
        const same = others.filter((other) => other?.archive?.index === index).length;
        return this.#childWithout(wanted, segment, same);
      }),
    );
    await this.#requireRoot(entry, answer, listed, await Promise.all(children));
    const ids = await Promise.all(
      others.map((other) =>
        this.#checking("absence", "A market with the same hash", () =>
          this.#otherId(other, { entry, wanted }),
        ),
      ),
    );
    this.#need(!ids.includes(id), "absence", `Market ${id} is in the archive.`);
    this.#need(new Set(ids).size === ids.length, "absence", "A market with the same hash is named twice.");
    const { snapshotId, commit, vouched } = known;
    return {
      snapshotId,
      commit,
      markets: entry.counts.markets,
      bytes: job.bytes,
      requests: job.requests,
      vouched,
    };
  }

  /** The first 32 bits of an id's hash. */
  async #idHash(id: string) {
    const [a = 0, b = 0, c = 0, d = 0] = await sha256(encoder.encode(id));
    return ((a << 24) | (b << 16) | (c << 8) | d) >>> 0;
  }

  /**
   * The child of the index tree that a segment is, when its ids show that as many have a hash as markets are named.
   */
  async #childWithout(wanted: number, { markets, header, ids }: Absent, named: number) {
    const { base64, hashOf, headFrom, hexOf, uint64, bytesOf } = this.#tools;
    const { bytes, size, chunks } = ids;
    const need = (holds: unknown, detail = "They are malformed.") => this.#need(holds, "absence", detail);
    need(
      isWithin(markets, 1, maxima.markets) &&
        bytes === 6 * markets &&
        size === Math.ceil(bytes / idChunkBytes),
    );
    need(Array.isArray(chunks) && isWithin(chunks.length, 1, size));
    /** What is known of the hashes, by position. */
    const hashes: Map<number, number> = new Map();
    const roots = await Promise.all(
      chunks.map(async ({ index, path, content }, place) => {
        const chunk = base64(content);
        need(
          isWithin(index, place === 0 ? 0 : Number(chunks[place - 1]?.index) + 1, size - 1) &&
            chunk.length === Math.min(idChunkBytes, bytes - index * idChunkBytes),
        );
        const view = new DataView(chunk.buffer);
        const first = (index * idChunkBytes) / 4;
        for (let at = 0; 4 * at + 3 < chunk.length && first + at < markets; at += 1)
          hashes.set(first + at, view.getUint32(4 * at, true));
        const head = await headFrom(await this.#leaf(chunk), { index, size, path });
        return sha256(bytesOf([kinds.section], uint64(bytes), uint64(size), head));
      }),
    );
    const [root] = roots;
    need(root && roots.every((other) => hexOf(other) === hexOf(root)), "The chunks are not of one object.");
    const below = Math.max(-1, ...[...hashes].flatMap(([at, hash]) => (hash < wanted ? at : [])));
    const above = Math.min(markets, ...[...hashes].flatMap(([at, hash]) => (hash > wanted ? at : [])));
    const between = above - below - 1;
    const same = [...hashes.values()].filter((hash) => hash === wanted).length;
    need(between === same, "The neighbours of the id are not shown.");
    need(same === named, `${same} markets have the same hash, and ${named} are named.`);
    return this.#node(hashOf(header), root as Uint8Array);
  }

  /** The id of another market with the same hash, which the archive has. */
  async #otherId(
    { market, page, segment, archive }: Other,
    { entry, wanted }: { entry: Entry; wanted: number },
  ) {
    const { hexOf, rootFrom } = this.#tools;
    let root = await this.#leaf(encoder.encode(market));
    root = await rootFrom(kinds.page, root, page);
    root = await rootFrom(kinds.segment, root, segment);
    root = await rootFrom(kinds.archive, root, archive);
    this.#need(hexOf(root) === entry.archiveRoot, "absence", "It is not in the archive.");
    const { id } = JSON.parse(market);
    this.#need((await this.#idHash(id)) === wanted, "absence", `Market ${id} has another hash.`);
    return id;
  }

  /**
   * Refuses a snapshot's id alone: it covers the markets, but not the index, and a lying one could leave some out.
   */
  #requireIndexRoot({ key, entry, snapshotId }: Trust, what: string) {
    if (snapshotId === undefined || key !== undefined || entry !== undefined) return;
    const detail =
      `A snapshotId alone proves markets and rows, but no ${what}: it does not cover the index that they follow from. ` +
      "Give the publisher's key or a policy as trust.key, or the SHA-256 of the log's entry as trust.entry.";
    throw this.#invalid(detail, "trust");
  }

  #invalid(detail: string, parameter?: string) {
    return new this.#tools.ApiError("INVALID_PARAMETER", detail, {
      title: "Invalid parameter",
      ...(parameter !== undefined && { parameter }),
    });
  }

  #filterOf(filters: object): ArchiveFilter {
    const given = Object.entries(filters).filter(([, value]) => value !== undefined);
    // Words would be cut around them, and other markets counted than the service counts.
    const unknown = /\p{Cn}/u.exec(Object.fromEntries(given).q ?? "");
    if (unknown)
      throw this.#invalid(`q has a character that this platform's Unicode does not know: ${unknown[0]}`, "q");
    return this.#reading(() => readFilter(String(new URLSearchParams(given))));
  }

  /** Reads what the caller asks for. */
  #reading<T>(read: () => T) {
    try {
      return read();
    } catch (error) {
      const { message, parameter } = error as Error & { parameter?: string };
      throw this.#invalid(message, parameter);
    }
  }

  #need(holds: unknown, what: string, detail: string) {
    if (!holds) throw new this.#tools.VerificationError(what, detail);
  }

  /** Names what does not hold when `work` throws. */
  async #checking<T>(what: string, name: string, work: () => T): Promise<Awaited<T>> {
    const { ApiError, ForkedLogError, IntegrityError, VerificationError } = this.#tools;
    try {
      return await work();
    } catch (error) {
      if (error instanceof VerificationError || error instanceof ForkedLogError) throw error;
      if (error instanceof InvalidParameterError) throw this.#invalid(error.message, error.parameter);
      if (error instanceof ApiError && !(error instanceof IntegrityError)) throw error;
      throw new VerificationError(what, `${name}: ${error instanceof Error ? error.message : error}`);
    }
  }

  /** The root of a tree of this kind, in hexadecimal. */
  async #root(
    kind: keyof typeof kinds,
    total: number,
    hashes: readonly (Uint8Array | Promise<Uint8Array>)[],
  ) {
    const { bytesOf, uint64, headOf } = this.#tools;
    const head = await headOf(await Promise.all(hashes), sha256);
    return sha256(bytesOf([kinds[kind]], uint64(total), uint64(hashes.length), head));
  }

  #sectionRoot = (section: Uint8Array) => {
    const chunks = Array.from({ length: Math.ceil(section.length / chunkBytes) }, (_, chunk) =>
      this.#leaf(section.subarray(chunk * chunkBytes, (chunk + 1) * chunkBytes)),
    );
    return this.#root("section", section.length, chunks);
  };

  #leaf = async (bytes: Uint8Array) => sha256(this.#tools.bytesOf([0], bytes));

  /** Checks the members of an answer that tell its commit. */
  async #vouch(
    { snapshotId, commit, entry: text, inclusion, checkpoint }: Said,
    trust: Trust,
    { asOf, signal }: { asOf: string | undefined; signal: AbortSignal | undefined },
  ): Promise<Omit<Known, "archive">> {
    const { key, entry: pinned, snapshotId: id, since } = trust;
    const { checkpointIn, hexOf, leafOf, verifyCheckpoint, verifyEntry } = this.#tools;
    this.#need(typeof text === "string", "entry", "There is no entry of the log.");
    const hash = hexOf(await sha256(encoder.encode(text)));
    this.#need(
      pinned === undefined || hash === pinned,
      "entry",
      `The log's entry is not the one of trust: ${hash}.`,
    );
    const said = { entry: text, snapshotId, commit };
    if (since !== undefined)
      await this.#checking("trust", "trust.since", () => checkpointIn(since)).catch(({ message }) => {
        throw this.#invalid(message, "trust");
      });
    const own = { snapshotId: id ?? (pinned && snapshotId), asOf };
    const entry = await this.#checking("entry", "The log's entry", () =>
      verifyEntry({ ...said, checkpoint: null, proof: { inclusion: null } }, own),
    );
    const log = await this.#checking("checkpoint", "The checkpoint", async () => {
      if (key !== undefined) return { ...(await verifyCheckpoint(checkpoint, key)), signed: true };
      return checkpoint === null ? null : { ...checkpointIn(checkpoint), cosigners: 0, signed: false };
    });
    await this.#checking("inclusion", "The entry's place in the log", () =>
      verifyEntry({ ...said, checkpoint, proof: { inclusion } }, own),
    );
    if (log && asOf !== undefined)
      await this.#checking("entry", "The log's entry", () => this.#requireMeant(asOf, entry, log, signal));
    if (since !== undefined)
      await this.#checking("checkpoint", "The log of trust.since", () =>
        this.#tools.requireSameLog(since, checkpoint as string, { signal }),
      );
    const isPolicy = typeof key === "string" && /\s/.test(key.trim());
    const by: Vouched["by"] = [];
    if (key !== undefined) by.push(isPolicy ? "policy" : "key");
    if (pinned !== undefined) by.push("entry");
    if (id !== undefined) by.push("snapshotId");
    if (since !== undefined) by.push("since");
    return {
      snapshotId,
      commit,
      entry,
      vouched: {
        by,
        entry: hash,
        leaf: hexOf(await leafOf(text)),
        publishedAt: entry.publishedAt,
        checkpoint: log && {
          origin: log.origin,
          size: log.size,
          signed: log.signed,
          cosigners: log.cosigners,
          text: checkpoint as string,
        },
        complete: key !== undefined || pinned !== undefined,
        unjudged: [],
      },
    };
  }

  /**
   * Checks that an entry is the one that a time means: the last one published until then that was not withdrawn.
   */
  async #requireMeant(asOf: string, entry: Entry, log: LogHead, signal: AbortSignal | undefined) {
    const time = this.#tools.timeIn(asOf);
    if (Number.isNaN(time) || entry.commit === log.size) return;
    const { withdrawn } = await this.#entryOf(log, log.size, signal);
    const rangeOf = (commit: number) => withdrawn.find(([first, last]) => first <= commit && commit <= last);
    this.#need(!rangeOf(entry.commit), "entry", `Commit ${entry.commit} was withdrawn.`);
    let next = entry.commit + 1;
    for (let range = rangeOf(next); range; range = rangeOf(next)) next = range[1] + 1;
    const { publishedAt } = await this.#entryOf(log, next, signal);
    this.#need(
      Date.parse(publishedAt) > time,
      "entry",
      `${asOf} means commit ${next}, published ${publishedAt}, or a later one, and not commit ${entry.commit}.`,
    );
  }

  /** The entry of a commit, as the tiles of a log have it, which lead to its root. */
  async #entryOf(log: LogHead, commit: number, signal: AbortSignal | undefined): Promise<Entry> {
    const { hexOf, leafOf } = this.#tools;
    const index = commit - 1;
    const bundle = Math.floor(index / 256);
    const width = Math.min(256, log.size - 256 * bundle);
    let entries = await this.#logFile(tilePath("entries", bundle), width, { signal });
    // Each stands behind its length.
    const next = () => 2 + 256 * Number(entries[0]) + Number(entries[1]);
    for (let before = 256 * bundle; before < index; before += 1) entries = entries.subarray(next());
    const entry = new TextDecoder().decode(entries.subarray(2, next()));
    const pieces = await this.#logTree(log, [index, commit], { signal });
    const head = pieces.find(({ start }) => start === index)?.head;
    const same = head && hexOf(head) === hexOf(await leafOf(entry));
    this.#need(same, "entry", `The log has another entry of commit ${commit}.`);
    return JSON.parse(entry);
  }

  /**
   * See Client.requireSameLog.
   * @param after Of a larger log.
   */
  async requireSameLog(before: string, after: string, options?: CallOptions) {
    const { checkpointIn, ForkedLogError, hexOf } = this.#tools;
    const old = checkpointIn(before);
    const pieces = await this.#logTree(checkpointIn(after), [old.size], options);
    const beginning = pieces.flatMap(({ start, head }) => (start < old.size ? [head] : []));
    let root = beginning.pop();
    for (let left = beginning.pop(); root && left; left = beginning.pop())
      root = await this.#node(left, root);
    if (!root || hexOf(root) !== old.root) throw new ForkedLogError(before, after);
  }

  /**
   * Heads of full trees that are the whole of a log, from left to right, by its tiles. None of them goes across a cut.
   * @param cuts Numbers of entries.
   */
  async #logTree({ size, root }: LogHead, cuts: readonly number[], options?: CallOptions) {
    const { headOf, hexOf } = this.#tools;
    const tiles: Map<string, Promise<Uint8Array>> = new Map();
    const pieces: { start: number; head: Uint8Array }[] = [];
    const inTile = async (start: number, height: number) => {
      const level = Math.floor(height / 8);
      const place = start / 256 ** level;
      const index = Math.floor(place / 256);
      const width = Math.min(256, Math.floor(size / 256 ** level) - index * 256);
      const path = tilePath(level, index);
      const tile = tiles.get(path) ?? this.#tile(path, width, options);
      tiles.set(path, tile);
      const first = place % 256;
      return headOf(hashesIn((await tile).subarray(32 * first, 32 * (first + 2 ** (height % 8)))), sha256);
    };
    const headFor: (start: number, count: number) => Promise<Uint8Array> = async (start, count) => {
      const height = 31 - Math.clz32(count);
      if (2 ** height === count && cuts.every((cut) => cut <= start || cut >= start + count)) {
        const head = await inTile(start, height);
        pieces.push({ start, head });
        return head;
      }
      const split = 2 ** (31 - Math.clz32(count - 1));
      const left = await headFor(start, split);
      return this.#node(left, await headFor(start + split, count - split));
    };
    const same = hexOf(await headFor(0, size)) === root;
    this.#need(same, "checkpoint", "The tiles of the log are not those of its checkpoint.");
    return pieces;
  }

  /** The hashes of a tile. */
  async #tile(path: string, width: number, options: CallOptions | undefined) {
    const hashes = await this.#logFile(path, width, options);
    const { length } = hashes;
    const right = length === 32 * width || length === 8192;
    this.#need(right, "checkpoint", `Tile ${path} of the log has ${length} bytes.`);
    return hashes.subarray(0, 32 * width);
  }

  /** A tile of the log. What a partial one has that is no longer kept is the beginning of the full one. */
  async #logFile(path: string, width: number, options: CallOptions | undefined) {
    const { ApiError, ask } = this.#tools;
    const get = (name: string) =>
      ask(`/log/tile/${name}`, { ...options, accept: "application/octet-stream" }, ({ text }) =>
        text(String, raw),
      );
    const part = width < 256 ? `${path}.p/${width}` : path;
    const found = await get(part).catch((error) => {
      if (part === path || !(error instanceof ApiError) || error.status !== 404) throw error;
      return get(path);
    });
    return Uint8Array.from(found, (char) => char.charCodeAt(0));
  }

  /** Asks which archive there is, and checks it as far as the headers of its index. */
  async #know(job: Job, trust: Trust, asOf: string | undefined): Promise<Known> {
    const asked = JSON.stringify([asOf, trust]);
    if (this.#named?.asked === asked) return this.#named.known;
    const answer = await this.#json(job, "/markets/index", { asOf });
    const known = await this.#vouch(answer, trust, { asOf, signal: job.signal });
    const listed = answer.segments as Listed[];
    const right =
      Array.isArray(listed) &&
      listed.length <= maxima.segments &&
      listed.every(
        (segment) =>
          isWithin(segment?.markets, 1, maxima.markets) &&
          isHash(segment.header?.hash) &&
          isWithin(segment.header.bytes, 1, maxima.header) &&
          isHash(segment.ids?.hash) &&
          segment.ids.bytes === 6 * segment.markets,
      );
    this.#need(right, "index root", "The answer does not list the headers and ids of segments.");
    const { hashOf } = this.#tools;
    const children = listed.map(({ header, ids }) => this.#node(hashOf(header.hash), hashOf(ids.hash)));
    const root = await this.#requireRoot(known.entry, answer, listed, children);
    if (this.#last?.root !== root) {
      const { segments, archiveRoot } = await this.#segments(job, known.entry, listed);
      this.#last = { root, archiveRoot, segments, decoded: new Map() };
    }
    const archive = this.#last;
    this.#need(
      archive.archiveRoot === known.entry.archiveRoot,
      "archive root",
      `The index is of an archive with the root ${archive.archiveRoot}, the log's entry of ${known.entry.archiveRoot}.`,
    );
    const found = { ...known, archive };
    // What the id of a snapshot names never changes.
    if (asOf === known.snapshotId) this.#named = { asked, known: found };
    return found;
  }

  /** Checks that the index root of an entry is that over these children of a tree. */
  async #requireRoot(
    { indexRoot, counts }: Entry,
    answer: Said,
    listed: readonly { markets: number }[],
    children: readonly (Uint8Array | Promise<Uint8Array>)[],
  ) {
    const markets = listed.reduce((sum, segment) => sum + segment.markets, 0);
    const root = this.#tools.hexOf(await this.#root("index", markets, children));
    this.#need(
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

  #node = async (left: Uint8Array, right: Uint8Array) => sha256(this.#tools.bytesOf([1], left, right));

  async #segments(job: Job, entry: Entry, listed: readonly Listed[]) {
    const parts = listed.map(({ header }, index) => ({
      ...header,
      what: "header",
      name: `The index header of segment ${index}`,
      hashOf: plainHash,
    }));
    const starts = [0];
    for (const { markets } of listed) starts.push(Number(starts.at(-1)) + markets);
    const segments = await this.#with(job, parts, () =>
      Promise.all(
        parts.map(({ hash, what, name }, index) =>
          this.#checking(what, name, () => {
            const header = parseIndexHeader(name, this.#memory.get(hash));
            const markets = listed[index]?.markets;
            this.#need(
              header.markets === markets,
              what,
              `${name} has ${header.markets} markets, not ${markets}.`,
            );
            return new Segment(index, starts[index] ?? 0, header, this.#memory);
          }),
        ),
      ),
    );
    const roots = segments.map(async ({ header }) => this.#tools.hashOf(header.root));
    const archiveRoot = this.#tools.hexOf(await this.#root("archive", entry.counts.markets, roots));
    return { segments, archiveRoot };
  }

  /** Evaluates a filter on the sections that it takes, which are there while `work` lasts. */
  async #evaluate<T>(
    job: Job,
    { archive }: Known,
    { filter, by }: { filter: ArchiveFilter; by: ReturnType<typeof parseFacetNames> },
    work: (evaluation: Evaluation) => Promise<T>,
  ) {
    const { segments, decoded } = archive;
    const { conditions, words } = filter;
    const parts = segments.flatMap((segment) => {
      const names = sectionsFor(segment.header, { conditions, by });
      const sections = names.map((name) => segment.part(name, this.#sectionRoot));
      return words.length > 0 && !isLeftOut(segment.header, conditions)
        ? [...sections, segment.wordsPart]
        : sections;
    });
    const found = await this.#with(job, parts, () =>
      this.#checking("section", "The index", async () => work(await evaluate(segments, filter))),
    );
    for (const { hash, bytes } of parts) decoded.set(hash, bytes);
    const bytes = [...decoded.values()].reduce((sum, each) => sum + each, 0);
    if (bytes > this.#keepBytes) [archive.segments, archive.decoded] = [[...segments], new Map()];
    return found;
  }

  /** Works while these parts are in memory. */
  #with<T>(job: Job, parts: readonly Part[], work: () => Promise<T>) {
    const hashes = parts.map(({ hash }) => hash);
    return this.#memory.during(hashes, async () => {
      await this.#load(job, parts);
      return work();
    });
  }

  /** Brings parts into memory: those that neither this nor the disk has, from the service. */
  async #load(job: Job, parts: readonly Part[]) {
    const wanted: Map<string, Part> = new Map();
    for (const part of parts) {
      const { hash, bytes, what, name } = part;
      this.#need(isWithin(bytes, 0, maxima.part), what, `${name} would have ${bytes} bytes.`);
      const other = wanted.get(hash);
      if (this.#memory.has(hash)) this.#requireLength(part, this.#memory.get(hash).length);
      else if (other) this.#requireLength(part, other.bytes);
      else if (bytes === 0) await this.#requireHash(part, new Uint8Array(0));
      else wanted.set(hash, part);
    }
    const missing = [];
    for (const [part, found] of await Promise.all(
      [...wanted.values()].map(async (part) => [part, await this.#disk.get(part)] as const),
    )) {
      const right =
        found &&
        (await this.#requireHash(part, found).then(
          () => true,
          () => false,
        ));
      if (right) this.#memory.set(part.hash, found);
      else missing.push(part);
    }
    const answers = batchesOf(missing).values();
    const ask = async () => {
      for (const batch of answers) await this.#fetch(job, batch, true);
    };
    await Promise.all(Array.from({ length: answersAtOnce }, ask));
  }

  #requireLength({ bytes, what, name }: Part, length: number) {
    this.#need(length === bytes, what, `${name} has ${length} bytes, not ${bytes}.`);
  }

  async #requireHash(part: Part, bytes: Uint8Array<ArrayBuffer>) {
    const { hash, what, name, hashOf } = part;
    this.#requireLength(part, bytes.length);
    const found = this.#tools.hexOf(await hashOf(bytes));
    this.#need(found === hash, what, `${name} has the hash ${found}, not ${hash}.`);
  }

  /** Asks the service for parts, and checks each. */
  async #fetch(job: Job, parts: readonly Part[], keep: boolean): Promise<Uint8Array<ArrayBuffer>[]> {
    const total = parts.reduce((sum, { bytes }) => sum + bytes, 0);
    const of = parts.map(({ hash }) => hash).join();
    const all = await this.#bytes(job, "/markets/index/sections", { of }, total);
    let at = 0;
    const found = [];
    for (const part of parts) {
      // A copy, so that what is forgotten is freed.
      const bytes = all.slice(at, at + part.bytes);
      at += part.bytes;
      await this.#requireHash(part, bytes);
      found.push(bytes);
      if (!keep) continue;
      this.#memory.set(part.hash, bytes);
      void this.#disk.set(part, bytes);
    }
    return found;
  }

  /** An answer of exactly so many bytes. What sends more is cut off. */
  #bytes(job: Job, path: string, query: { of: string }, total: number) {
    const { broken } = this.#tools;
    const accept = "application/octet-stream";
    return this.#tools.ask(path, { query, accept, signal: job.signal }, async ({ response, step }) => {
      const reader = response.body?.getReader();
      const bytes = new Uint8Array(total);
      let came = 0;
      while (reader) {
        const { done, value } = await step(() => reader.read());
        if (done) break;
        if (came + value.length > total) {
          await reader.cancel();
          this.#need(false, "answer", `More than ${total} bytes came for ${path}.`);
        }
        bytes.set(value, came);
        came += value.length;
      }
      if (came < total) throw broken(`${came} of ${total} bytes came.`);
      job.bytes += came;
      job.requests += 1;
      return bytes;
    });
  }

  async #json(job: Job, path: string, query: { asOf?: string | undefined; id?: string }): Promise<Said> {
    const text = await this.#tools.ask(path, { query, signal: job.signal }, ({ text }) => text(String));
    job.bytes += encoder.encode(text).length;
    job.requests += 1;
    const answer: unknown = await this.#checking("answer", `The answer of ${path}`, () => JSON.parse(text));
    this.#need(
      typeof answer === "object" && answer !== null,
      "answer",
      `The answer of ${path} is no object.`,
    );
    return answer as Said;
  }
}

/** The path of a tile of the log. */
function tilePath(level: number | "entries", index: number) {
  const digits = String(index);
  const groups = digits.padStart(Math.ceil(digits.length / 3) * 3, "0").match(/.../g) ?? [];
  return `${level}/x${groups.join("/x")}`.replace(/x(\d+)$/, "$1");
}

/** Parts in groups for one answer each. */
function batchesOf(parts: readonly Part[]) {
  const batches: Part[][] = [];
  let left = 0;
  for (const part of parts) {
    const last = batches.at(-1);
    if (last && last.length < partsAtOnce && part.bytes <= left) last.push(part);
    else {
      batches.push([part]);
      left = bytesAtOnce;
    }
    left -= part.bytes;
  }
  return batches;
}

/** A page with its markets as they came. */
type PageTexts = Omit<MarketPage, "markets"> & { markets: string[] };

/** Reads a page, but not its markets: their hashes are of their texts, byte for byte. */
function pageIn(body: string): PageTexts {
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
interface Place {
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
function cursorIn(text: string): Place | undefined {
  try {
    const raw = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = Uint8Array.from(raw, (char) => char.charCodeAt(0));
    const [commit, snapshotId, ordinal, resolvedAt, id, pageSize, canonical] = JSON.parse(
      new TextDecoder().decode(bytes),
    );
    return { commit, snapshotId, ordinal, resolvedAt, id, pageSize, canonical: String(canonical) };
  } catch {
    return undefined;
  }
}

function cursorText({ commit, snapshotId, ordinal, resolvedAt, id, pageSize, canonical }: Place) {
  const fields = [commit, snapshotId, ordinal, resolvedAt, id, pageSize, canonical];
  const bytes = encoder.encode(JSON.stringify(fields));
  const text = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
  return text.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}
