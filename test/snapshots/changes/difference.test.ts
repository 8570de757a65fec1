import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  countsOf,
  difference,
  Entries,
  netSides,
  putsOf,
  range,
  type Sides,
  sortIndexes,
} from "../../../snapshots/changes/difference.ts";
import { rowOf } from "../../../snapshots/changes/record.ts";
import { compareKeys } from "../../../snapshots/format/market-line.ts";

/** A market: when it was resolved, and its text. */
interface Content {
  resolvedAt: number;
  text: string;
}
/** An archive by id. */
type Archive = ReadonlyMap<string, Content>;

// Few values, so that markets meet; ids that differ in their first, last and middle digits only.
const ids = fc.constantFrom(
  "00000000-0000-0000-0000-000000000000",
  "00000000-0000-0000-0000-000000000001",
  "00000000-0000-0001-0000-000000000000",
  "00000000-0001-0000-0000-000000000000",
  "80000000-0000-0000-0000-000000000000",
  "7fffffff-ffff-ffff-ffff-ffffffffffff",
  "ffffffff-ffff-ffff-ffff-ffffffffffff",
  "0a000000-0000-4000-8000-00000000000a",
);
const contents = fc.record({
  resolvedAt: fc.constantFrom(946_684_800_000, 946_684_800_001, 1_700_000_000_000),
  text: fc.constantFrom("a", "b", "c"),
});
const archives: fc.Arbitrary<Archive> = fc
  .array(fc.tuple(ids, contents), { maxLength: 8 })
  .map((rows) => new Map(rows));

function entriesOf(archive: Iterable<[string, Content]>): Entries {
  const entries = new Entries();
  for (const [id, { resolvedAt, text }] of archive)
    entries.add(
      rowOf({ id, resolvedAt, line: Buffer.from(`${id} ${resolvedAt} ${text}`) }),
      text.charCodeAt(0),
    );
  return entries;
}

const same = (a: Content | undefined, b: Content | undefined) => JSON.stringify(a) === JSON.stringify(b);

/** What an archive lost and gained; `all` keeps what did not change in both sides. */
function sidesOf(older: Archive, newer: Archive, all = false): Sides {
  const only = (one: Archive, other: Archive) =>
    [...one].filter(([id, content]) => all || !same(content, other.get(id)));
  return { before: entriesOf(only(older, newer)), after: entriesOf(only(newer, older)) };
}

/** What a reader would write down: the ids that go, and those that come, newest first. */
function expected(older: Archive, newer: Archive) {
  const removed = [...older.keys()].filter((id) => !newer.has(id)).sort();
  const added = [...newer.keys()].filter((id) => !older.has(id)).sort();
  const changed = [...newer.keys()]
    .filter((id) => older.has(id) && !same(older.get(id), newer.get(id)))
    .sort();
  const puts = [...added, ...changed].sort((a, b) =>
    compareKeys(
      { id: b, resolvedAt: newer.get(b)!.resolvedAt },
      { id: a, resolvedAt: newer.get(a)!.resolvedAt },
    ),
  );
  return { removed, added, changed, puts };
}

async function found({ before, after }: Sides) {
  const net = await difference({ before, after });
  const named = (indexes: Uint32Array, side: Entries) => Array.from(indexes, (index) => side.id(index));
  expect(countsOf(net)).toEqual({
    added: net.added.length,
    changed: net.changed.before.length,
    removed: net.removed.length,
  });
  expect(named(net.changed.before, before)).toEqual(named(net.changed.after, after));
  const puts = await putsOf(net, after);
  return {
    names: {
      removed: named(net.removed, before),
      added: named(net.added, after),
      changed: named(net.changed.after, after),
      puts: named(puts, after),
    },
    tags: Array.from(puts, (index) => String.fromCharCode(after.tag(index))),
  };
}

describe("the difference", () => {
  test("of two archives is what a reader would write down, whether or not equal markets are in it", async () => {
    await fc.assert(
      fc.asyncProperty(archives, archives, fc.boolean(), async (older, newer, all) => {
        const { names, tags } = await found(sidesOf(older, newer, all));
        expect(names).toEqual(expected(older, newer));
        expect(tags).toEqual(names.puts.map((id) => newer.get(id)!.text));
      }),
      { numRuns: 500 },
    );
  });

  test("of several steps is that of their ends, in both directions", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(archives, { minLength: 1, maxLength: 6 }), async (states) => {
        const steps = states.slice(1).map((newer, n) => sidesOf(states[n]!, newer));
        const [first, last] = [states[0]!, states.at(-1)!];
        expect((await found(await netSides(steps))).names).toEqual(expected(first, last));
        const back = steps.map(({ before, after }) => ({ before: after, after: before })).reverse();
        expect((await found(await netSides(back))).names).toEqual(expected(last, first));
      }),
      { numRuns: 500 },
    );
  });
});

test("sorting is stable, and yields when it takes long", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.integer({ min: 0, max: 9 })), async (values) => {
      const sorted = await sortIndexes(range(values.length), (a, b) => values[a]! - values[b]!);
      expect([...sorted]).toEqual([...values.keys()].sort((a, b) => values[a]! - values[b]! || a - b));
    }),
  );
  let yields = 0;
  const mixed = Array.from({ length: 20_000 }, (_, n) => (n * 7919) % 20_011);
  const sorted = await sortIndexes(
    range(mixed.length),
    (a, b) => mixed[a]! - mixed[b]!,
    async () => {
      yields += 1;
    },
  );
  expect([...sorted].map((index) => mixed[index]!)).toEqual(mixed.toSorted((a, b) => a - b));
  expect(yields).toBeGreaterThan(10);
});
