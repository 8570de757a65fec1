import { crc32 } from "node:zlib";
import { bucketStarts, filterFields } from "../../schemas/filters.ts";
import { marketMembers } from "../../schemas/market.ts";
import { ProtocolScore } from "../../schemas/records.ts";
import type { ChangeCounts, Manifest, NamedObject } from "../../schemas/store/stored-objects.ts";
import { bounds, forgeScaleNumber } from "../../schemas/versions.ts";
import { firstWhere } from "../format/bytes.ts";
import { type MarketLine, memberOfLine, textOf } from "../format/market-line.ts";
import { ObjectError, unless } from "../store/errors.ts";
import { inParallel } from "../store/in-parallel.ts";
import { layout } from "../store/layout.ts";
import { parseObject } from "../store/objects.ts";
import { type ChangedLines, countsOf, type Difference, type Sides } from "./difference.ts";

type Records = Manifest["scores"]["records"];

/**
 * Compares protocols by the hashes of their records, and the changed ones member by member. Damaged records are not
 * compared.
 */
export async function protocolChanges(
  before: Records,
  after: Records,
  read: (ref: NamedObject) => Promise<Buffer>,
): Promise<ProtocolChanges> {
  const [old, fresh] = [Object.keys(before), Object.keys(after)];
  const added = fresh.filter((slug) => !Object.hasOwn(before, slug));
  const removed = old.filter((slug) => !Object.hasOwn(after, slug));
  const kept = fresh.filter((slug) => Object.hasOwn(before, slug));
  const changed = kept.filter((slug) => before[slug]!.hash !== after[slug]!.hash);
  const fields = new Map<string, number>();
  const membersOf = async (ref: NamedObject) => {
    const record = parseObject(layout.publicObject(ref.hash), await read(ref), ProtocolScore);
    return new Map(Object.entries(record).map(([name, value]) => [name, JSON.stringify(value)]));
  };
  await inParallel(changed, async (slug) => {
    const both = async () => [await membersOf(before[slug]!), await membersOf(after[slug]!)];
    const [old, fresh = []] = (await unless(ObjectError, both)) ?? [];
    for (const [name, text] of fresh) if (old?.get(name) !== text) addTo(fields, name, 1);
  });
  const first = (slugs: readonly string[]) => slugs.toSorted().slice(0, namedFirst);
  return {
    added: added.length,
    changed: changed.length,
    removed: removed.length,
    first: { added: first(added), changed: first(changed), removed: first(removed) },
    fields: Object.fromEntries([...fields].sort(([a], [b]) => (a < b ? -1 : 1))),
  };
}

/** `first` has the first 20 ids or slugs of each kind, ascending. */
export interface Summary extends ChangeCounts {
  first: Record<keyof ChangeCounts, string[]>;
}

export interface MarketChanges extends Summary {
  /** Null when too many markets differ to look into each. */
  details: MarketDetails | null;
}

interface MarketDetails {
  /** How many changed markets differ in each member, without those where none do. */
  fields: Record<string, number>;
  /** How many more markets have a composite from `from` to `to`, or fewer (below 0), without zeros. */
  composite: { from: number; to: number; shift: number }[];
  /** How many more markets have each tier, or fewer (below 0), without zeros. */
  tiers: Record<string, number>;
}

interface ProtocolChanges extends Summary {
  /** How many changed protocols differ in each member of the record. */
  fields: Record<string, number>;
}

export interface Changes {
  markets: MarketChanges;
  protocols: ProtocolChanges;
}

/** The most ids or slugs of a kind that are named. */
const namedFirst = 20;
/** The lowest composite of each bucket, as in facets. */
const starts = filterFields.flatMap((row) =>
  row.kind === "integer" && row.field === "composite" ? bucketStarts(row) : [],
);
/** The most texts that wait for the other one of their market, about 150 bytes each. Beyond it, details are null. */
const maxWaiting = 500_000;

const members = marketMembers.filter((name) => name !== "id");

const addTo = <Key>(counts: Map<Key, number>, key: Key, by: number) =>
  counts.set(key, (counts.get(key) ?? 0) + by);

/** Memory does not grow with the number of markets, unless they moved within the archive. */
export function detailCount(sides: Sides, difference: Difference) {
  const fields = new Map<string, number>();
  const composites = new Map<number, number>();
  const tiers = new Map<string, number>();
  /** By index in `changed`: digests of the members of a market of which one text was seen. */
  const waiting = new Map<number, number[]>();
  let tooMany = false;

  function shift(line: Buffer, by: number): void {
    const composite = Number(memberOfLine(line, "composite"));
    addTo(composites, starts.findLast((from) => from <= composite)!, by);
    addTo(tiers, textOf(line, "tier"), by);
  }

  /** The other text of a changed market that moved comes from elsewhere in the archive. */
  function pair({ id, line }: MarketLine, side: keyof Sides): void {
    const changed = difference.changed[side];
    const idAt = (at: number) => sides[side].id(changed[at]!);
    const index = firstWhere(0, changed.length, (at) => idAt(at) >= id);
    if (index === changed.length || idAt(index) !== id || tooMany) return;
    const digests = digestsOf(line);
    const other = waiting.get(index);
    if (other) {
      waiting.delete(index);
      compare(other, digests);
    } else waiting.set(index, digests);
    tooMany = waiting.size > maxWaiting;
    if (tooMany) waiting.clear();
  }

  function compare(before: readonly number[], after: readonly number[]): void {
    for (const [member, name] of members.entries())
      if (before[member] !== after[member]) addTo(fields, name, 1);
  }

  return {
    add({ before, after }: ChangedLines): void {
      if (before) shift(before.line, -1);
      if (after) shift(after.line, 1);
      if (before && after) compare(digestsOf(before.line), digestsOf(after.line));
      else if (before) pair(before, "before");
      else if (after) pair(after, "after");
    },
    result(): MarketDetails | null {
      if (tooMany) return null;
      const nonZero = <Key>(counts: Map<Key, number>) => [...counts].filter(([, count]) => count !== 0);
      const named = members.filter((name) => fields.has(name));
      return {
        fields: Object.fromEntries(named.map((name) => [name, fields.get(name)!])),
        composite: nonZero(composites)
          .sort(([a], [b]) => a - b)
          .map(([from, shift]) => ({ from, to: lastOf(from), shift })),
        tiers: Object.fromEntries(
          nonZero(tiers).sort(([a], [b]) => forgeScaleNumber(a) - forgeScaleNumber(b)),
        ),
      };
    },
  };
}

export function summaryOf({ before, after }: Sides, difference: Difference): Summary {
  const first = (indexes: Uint32Array, side: Sides["before"]) =>
    Array.from(indexes.subarray(0, namedFirst), (index) => side.id(index));
  return {
    ...countsOf(difference),
    first: {
      added: first(difference.added, after),
      changed: first(difference.changed.after, after),
      removed: first(difference.removed, before),
    },
  };
}

const lastOf = (from: number) => (starts.find((other) => other > from) ?? bounds.composite.max + 1) - 1;

// One false match in 2^32 does no harm in a summary.
const digestsOf = (line: Buffer) => members.map((name) => crc32(memberOfLine(line, name) ?? ""));
