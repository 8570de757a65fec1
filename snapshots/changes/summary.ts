import { crc32 } from "node:zlib";
import { bucketStarts, filterFields } from "../../schemas/filters.ts";
import { marketMembers } from "../../schemas/market.ts";
import { bounds, forgeTiers } from "../../schemas/scales.ts";
import type { ChangeCounts } from "../../schemas/store/snapshot.ts";
import { firstWhere } from "../format/first-where.ts";
import { memberOfLine, textOf } from "../format/market-line.ts";
import { countsOf, type Difference, type Sides } from "./difference.ts";

/** How many of a kind, and the first 20 ids or slugs of each kind, ascending. */
export interface Summary extends ChangeCounts {
  first: Record<keyof ChangeCounts, string[]>;
}

/** What differs between the archives of two snapshots. */
export interface MarketChanges extends Summary {
  /** A summary of the markets that differ; null when there are too many to look into each. */
  details: MarketDetails | null;
}

export interface MarketDetails {
  /** In how many changed markets each member differs; members that differ nowhere are left out. */
  fields: Record<string, number>;
  /** How many markets more or fewer have a composite from `from` to `to`, where that is not 0. */
  composite: { from: number; to: number; shift: number }[];
  /** How many markets more or fewer have each tier, where that is not 0. */
  tiers: Record<string, number>;
}

/** What differs between the protocols of two snapshots. */
export interface ProtocolChanges extends Summary {
  /** In how many changed protocols each member of the record differs. */
  fields: Record<string, number>;
}

/** What differs between two snapshots. */
export interface Changes {
  markets: MarketChanges;
  protocols: ProtocolChanges;
}

/** A market of one side: its id and JSON text. */
interface IdentifiedLine {
  id: string;
  line: Buffer;
}

/** How many ids or slugs of a kind are named. */
export const namedFirst = 20;
/** The lowest composite of each bucket, as facets have them. */
const starts = filterFields.flatMap((row) =>
  row.kind === "integer" && row.field === "composite" ? bucketStarts(row) : [],
);
/** Texts that wait for the other one of their market, each about 150 bytes. Beyond, fields are not counted. */
const maxWaiting = 500_000;

const members = marketMembers.filter((name) => name !== "id");

/** Adds up what markets that differ tell. Memory does not grow with them, unless they moved within the archive. */
export class DetailCount {
  readonly #sides: Sides;
  readonly #difference: Difference;
  readonly #fields = new Map<string, number>();
  readonly #composite = new Map<number, number>();
  readonly #tiers = new Map<string, number>();
  /** Digests of the members of a changed market of which one text was seen, by its index in `changed`. */
  readonly #waiting = new Map<number, number[]>();
  #tooMany = false;

  constructor(sides: Sides, difference: Difference) {
    this.#sides = sides;
    this.#difference = difference;
  }

  /** Takes the texts at one place of the archive, of which at least one is there. */
  add({ before, after }: { before?: IdentifiedLine | undefined; after?: IdentifiedLine | undefined }): void {
    if (before) this.#shift(before.line, -1);
    if (after) this.#shift(after.line, 1);
    if (before && after) this.#compare(digestsOf(before.line), digestsOf(after.line));
    else if (before) this.#pair(before, "before");
    else if (after) this.#pair(after, "after");
  }

  get details(): MarketDetails | null {
    if (this.#tooMany) return null;
    const nonZero = <Key>(counts: Map<Key, number>) => [...counts].filter(([, count]) => count !== 0);
    return {
      fields: Object.fromEntries(
        members.flatMap((name) => (this.#fields.has(name) ? [[name, this.#fields.get(name)!]] : [])),
      ),
      composite: nonZero(this.#composite)
        .sort(([a], [b]) => a - b)
        .map(([from, shift]) => ({ from, to: lastOf(from), shift })),
      tiers: Object.fromEntries(nonZero(this.#tiers).sort(([a], [b]) => tierRank(a) - tierRank(b))),
    };
  }

  #shift(line: Buffer, by: number): void {
    const [composite, tier] = [Number(memberOfLine(line, "composite")), textOf(line, "tier")];
    const bucket = starts.findLast((from) => from <= composite)!;
    this.#composite.set(bucket, (this.#composite.get(bucket) ?? 0) + by);
    this.#tiers.set(tier, (this.#tiers.get(tier) ?? 0) + by);
  }

  /** The other text of a changed market that moved is somewhere else in the archive. */
  #pair({ id, line }: IdentifiedLine, side: keyof Sides): void {
    const index = indexOf(
      id,
      (at) => this.#sides[side].id(this.#difference.changed[side][at]!),
      this.#difference.changed[side].length,
    );
    if (index === undefined || this.#tooMany) return;
    const digests = digestsOf(line);
    const other = this.#waiting.get(index);
    if (other) {
      this.#waiting.delete(index);
      this.#compare(other, digests);
    } else this.#waiting.set(index, digests);
    this.#tooMany = this.#waiting.size > maxWaiting;
    if (this.#tooMany) this.#waiting.clear();
  }

  #compare(before: readonly number[], after: readonly number[]): void {
    for (const [member, name] of members.entries())
      if (before[member] !== after[member]) this.#fields.set(name, (this.#fields.get(name) ?? 0) + 1);
  }
}

/** The counts of a difference, and the first ids of each kind. */
export function summaryOf({ before, after }: Sides, found: Difference): Summary {
  const first = (indexes: Uint32Array, side: Sides["before"]) =>
    Array.from(indexes.subarray(0, namedFirst), (index) => side.id(index));
  return {
    ...countsOf(found),
    first: {
      added: first(found.added, after),
      changed: first(found.changed.after, after),
      removed: first(found.removed, before),
    },
  };
}

/** The last composite of a bucket. */
const lastOf = (from: number) => (starts.find((other) => other > from) ?? bounds.composite.max + 1) - 1;

const tierRank = (tier: string) => (forgeTiers as readonly string[]).indexOf(tier);

// A false match of one in 2^32 does no harm in a summary.
const digestsOf = (line: Buffer) => members.map((name) => crc32(memberOfLine(line, name) ?? ""));

/** The index of an id among ascending ones; undefined when it is not there. */
function indexOf(id: string, at: (index: number) => string, count: number): number | undefined {
  const first = firstWhere(0, count, (index) => at(index) >= id);
  return first < count && at(first) === id ? first : undefined;
}
