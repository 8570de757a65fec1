import { tmpdir } from "node:os";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Fault } from "../../../../schemas/errors.ts";
import type { HistoricalMarket } from "../../../../schemas/records.ts";
import { exitCodeOf } from "../../../../scripts/cli.ts";
import { planParts } from "../../../../snapshots/publish/parts/plan-parts.ts";
import { joinParts, publishPart } from "../../../../snapshots/publish/parts/publish-parts.ts";
import { type PublishOptions, publish } from "../../../../snapshots/publish/publish.ts";
import { SourceRefusal } from "../../../../snapshots/sources/sources.ts";
import { layout } from "../../../../snapshots/store/layout.ts";
import { seal } from "../../../../snapshots/store/objects.ts";
import type { Storage } from "../../../../snapshots/store/storage.ts";
import { endsSegment, idsOf, segmentedMarkets } from "../../../helpers/publish/drawn-rows.ts";
import { publishInParts } from "../../../helpers/publish/publish-freely.ts";
import { sourceFileOf, sourcesOf } from "../../../helpers/publish/records.ts";
import { Crash, expectAllGood, steppedStorage } from "../../../helpers/store/faulty-store.ts";
import { contentOf, listed, memoryStorage } from "../../../helpers/store/storages.ts";
import { timedStore } from "../../../helpers/store/timed-store.ts";
import { faultsOf } from "../../../helpers/store/verified.ts";

const first = segmentedMarkets(0, 300);
/** One market removed, one changed and some new: no more than the guards let pass. */
const second = [
  ...first.slice(1, 250),
  { ...first[250]!, composite: 999 },
  ...first.slice(251),
  ...segmentedMarkets(300, 330),
];

const optionsOf = (
  storage: Storage,
  markets: readonly HistoricalMarket[] = second,
  more: Partial<PublishOptions> = {},
): PublishOptions => ({
  storage,
  temporaryDirectory: tmpdir(),
  now: () => new Date("2026-03-01T00:00:00.000Z"),
  sources: async () => sourcesOf(markets, 700),
  ...more,
});

/** A store with the first markets. */
async function published() {
  const objects = new Map<string, Buffer>();
  const storage = memoryStorage(objects);
  await publish(optionsOf(storage, first));
  return { objects, storage };
}

const thrownBy = async (work: Promise<unknown>): Promise<Error> => {
  const [end] = await Promise.allSettled([work]);
  return end.status === "rejected" ? end.reason : expect.unreachable();
};

/** Plans a run of so many parts, and makes them, the last one first. */
async function prepared(options: PublishOptions, run: string, count: number): Promise<void> {
  await planParts(options, run, count);
  for (let part = count; part > 0; part -= 1) await publishPart(options, run, part);
}

/** Expects what a command would end with, and what its message says. */
const expectEnd = async (work: Promise<unknown>, code: number, told: string) => {
  const error = await thrownBy(work);
  expect([exitCodeOf(error), error.message]).toEqual([code, expect.stringContaining(told)]);
};

describe("a run in parts", () => {
  test("is divided where segments end, and into no more parts than there are segments", async () => {
    const { storage } = await published();
    const { parts } = await planParts(optionsOf(storage), "three", 3);
    expect(parts.map(({ markets }) => markets)).toEqual([119, 120, 90]);
    const many = await planParts(optionsOf(storage), "many", 12);
    expect(many.parts.map(({ markets }) => markets > 0)).toEqual(
      Array.from({ length: 12 }, (_, part) => part < 9),
    );
    for (const [index] of many.parts.entries()) await publishPart(optionsOf(storage), "many", index + 1);
    expect(await joinParts(optionsOf(storage), "many")).toMatchObject({ outcome: "published", commit: 2 });
  });

  test("tells what one process would refuse, whichever part has met it", async () => {
    const { storage, objects } = await published();
    const checked = objects.get(layout.checked);
    const refuse =
      (from: number): PublishOptions["sources"] =>
      async () => {
        const sources = sourcesOf(second, 700);
        return {
          ...sources,
          async *markets(known, range) {
            for await (const rows of sources.markets(known, range)) {
              const broken = rows.filter(({ id }) => second.findIndex((row) => row.id === id) >= from);
              // Of each rule the first places are named, and all are counted.
              const named = broken.slice(0, 2);
              if (broken.length > 0)
                throw new SourceRefusal(
                  named.map(({ id }) => ({ file: "markets.parquet", row: id, rule: "must not" })),
                  new Map([["must not", broken.length]]),
                );
              yield rows;
            }
          },
        };
      };
    for (const from of [5, 150, 310]) {
      const options = optionsOf(storage, second, { sources: refuse(from) });
      const alone = (await thrownBy(publish(options))) as SourceRefusal;
      await prepared(options, `run-${from}`, 3);
      const joined = (await thrownBy(joinParts(options, `run-${from}`))) as SourceRefusal;
      expect([joined.message, joined.counted]).toEqual([alone.message, alone.counted]);
      // Sound again, such as a file that was there all the time: what a part has seen still counts.
      const sound = await thrownBy(joinParts(optionsOf(storage), `run-${from}`));
      expect(sound).toBeInstanceOf(SourceRefusal);
    }
    expect(objects.get(layout.checked)).toBe(checked);
  });

  test("is refused by another version of the program", async () => {
    const { storage, objects } = await published();
    await planParts(optionsOf(storage), "run", 2);
    const key = layout.runPlan("run");
    const { digest: _, ...plan } = JSON.parse(String(objects.get(key)));
    const sources = async () => ({ ...sourcesOf(second, 700), rowDigests: "other" });
    await expectEnd(publishPart({ ...optionsOf(storage), sources }, "run", 1), 3, "use the same version");
    await storage.put(key, seal({ ...plan, unicode: "1.0" }));
    await expectEnd(publishPart(optionsOf(storage), "run", 1), 3, "it was made with unicode 1.0");
  });
});

describe("a plan", () => {
  const count = 40_000;
  const begun = 20_010;
  /** All of one segment, except that another one begins there. */
  const ids = idsOf(count, 0, (id) => !endsSegment(id));
  ids[begun - 1] = idsOf(1, count, endsSegment)[0]!;
  const keys = ids.map((id, place) => ({ id, resolvedAt: Math.floor(place / 1000) }));
  /** The third has the markets around the begin, all of one time; the second has none. */
  const fileOf = (time: number) => (time < 20 ? 1 : time === 20 ? 3 : 4);
  const sources = {
    ...sourcesOf([], 700),
    marketCount: count,
    files: [1, 2, 3, 4].map((n) => ({ ...sourceFileOf(n), name: `${n}.parquet` })),
    async *keys() {
      for (let at = 0; at < count; at += 10_000)
        yield keys.slice(at, at + 10_000).map((key) => ({ ...key, file: fileOf(key.resolvedAt) }));
    },
  };

  test("tells where parts and the buckets of their sorts begin, and of what time each file's markets are", async () => {
    const told: number[] = [];
    const storage = memoryStorage(new Map());
    const progress = (_: string, done: number) => told.push(done);
    const { parts, files } = await planParts(
      optionsOf(storage, [], { sources: async () => sources, progress }),
      "run",
      2,
    );
    expect(parts).toEqual([
      { markets: begun, keys: [keys[16_384]] },
      { markets: count - begun, keys: [keys[begun], keys[begun + 16_384]] },
    ]);
    expect(files.map(({ rows, oldest, newest }) => [rows, oldest, newest])).toEqual([
      [20_000, 0, 19],
      [0, null, null],
      [1000, 20, 20],
      [19_000, 21, 39],
    ]);
    expect(told).toEqual([10_000, 20_000, 30_000, 40_000]);

    // What a part does not need it does not read.
    for (const [n, unread] of [
      [2, 4],
      [1, 2],
    ].entries()) {
      const open: PublishOptions["sources"] = async (known) => {
        expect(known?.files.map(({ hash }) => hash)).toEqual(unread.map((file) => files[file - 1]!.hash));
        throw new Error("opened");
      };
      const opening = publishPart(optionsOf(storage, [], { sources: open }), "run", n + 1);
      await expect(opening).rejects.toThrow("opened");
    }
  });
});

async function publishJoined(options: PublishOptions) {
  await prepared(options, "joined", 3);
  return joinParts(options, "joined");
}

test.for(["sound", "gone", "rotten"])(
  "a current snapshot of which pages are %s is judged and replaced as by one process",
  async (how) => {
    const { objects } = await published();
    const pages = [...objects.keys()].filter((key) => key.startsWith(layout.page.prefix));
    for (const page of [pages.at(-1)!, pages[3]!]) {
      if (how === "gone") objects.delete(page);
      if (how === "rotten") objects.set(page, Buffer.alloc(objects.get(page)!.length));
    }
    const [alone, parts] = [memoryStorage(new Map(objects)), memoryStorage(new Map(objects))];
    const { snapshotId, outcome } = await publish(optionsOf(alone));
    expect(await publishInParts(optionsOf(parts), 3)).toMatchObject({ snapshotId, outcome });
    // Of what rotted, neither notices what stays as it is.
    if (how !== "rotten") expect(await faultsOf(parts)).toEqual(await faultsOf(alone));

    // Every other market is gone or changed, and more than twice as many come: also on the pages that are damaged.
    const broken = first.flatMap((market, place) =>
      place % 4 === 0 ? [] : place % 4 === 1 ? [{ ...market, question: `${market.question}?` }] : [market],
    );
    const more = segmentedMarkets(300, 700);
    const outcomes = [];
    for (const work of [publish, publishJoined]) {
      const told: string[] = [];
      const markets = [...broken, ...more];
      const choices = { warn: (line: string) => void told.push(line), allow: { removed: 1 } };
      const options = optionsOf(memoryStorage(new Map(objects)), markets, choices);
      const error = (await thrownBy(work(options))) as Fault;
      const { changes, counts } = await work({ ...options, allow: error.extras.needed! });
      outcomes.push({ message: error.message, told: new Set(told), changes, counts });
    }
    expect(outcomes[1]).toEqual(outcomes[0]);
  },
);

test("kills of any of a run's processes change nothing of what it leaves", async () => {
  const { objects } = await published();
  const whole = memoryStorage(new Map(objects));
  const { snapshotId } = await publish(optionsOf(whole));
  const expected = await contentOf(whole);
  const kills = fc.record({
    parts: fc.constantFrom(1, 2, 3, 8),
    points: fc.array(fc.nat(60), { maxLength: 6 }),
  });
  await fc.assert(
    fc.asyncProperty(kills, async ({ parts, points }) => {
      const storage = memoryStorage(new Map(objects));
      const left = [...points];
      /** Begins a step, kills it before an operation of the store, and begins it again. */
      const killing = async (step: (options: PublishOptions) => Promise<unknown>) => {
        for (;;) {
          const point = left.shift() ?? Number.POSITIVE_INFINITY;
          const before = (n: number) => {
            if (n >= point) throw new Crash();
          };
          const error = await step(optionsOf(steppedStorage(storage, before))).catch((thrown) => thrown);
          if (!(error instanceof Crash)) return error;
        }
      };
      await killing((options) => planParts(options, "run", parts));
      for (let part = 1; part <= parts; part += 1)
        await killing((options) => publishPart(options, "run", part));
      await killing((options) => joinParts(options, "run"));
      await expectAllGood(storage, snapshotId);
      expect(await contentOf(storage)).toEqual(expected);
    }),
    { numRuns: 3 },
  );
});

test("a collection leaves what a run in parts needs, for two days after its plan", async () => {
  const { storage, collect, pass } = timedStore();
  const shortly = { keepHours: 0, keepCommits: 1 };
  await publish(optionsOf(storage, first));
  pass(1);
  await planParts(optionsOf(storage), "joined", 2);
  await publishPart(optionsOf(storage), "joined", 1);
  pass(47);
  await publishPart(optionsOf(storage), "joined", 2);
  await collect(shortly);
  await joinParts(optionsOf(storage), "joined");
  expect(await faultsOf(storage)).toEqual([]);

  await planParts(optionsOf(storage, first.slice(5)), "left", 2);
  await publishPart(optionsOf(storage, first.slice(5)), "left", 1);
  pass(49);
  const { deleted, young } = await collect(shortly);
  expect(deleted.keys.some((key) => key.startsWith(layout.page.prefix))).toBe(true);
  expect(young).toBe(0);
  expect(await listed(storage, layout.runPlan.prefix)).toEqual([]);
  expect(await faultsOf(storage)).toEqual([]);
});
