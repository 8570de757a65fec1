import { Readable } from "node:stream";
import { setImmediate as nextRound } from "node:timers/promises";
import { beforeAll, describe, expect, test } from "vitest";
import { type Condition, filterFields } from "../../../schemas/filters.ts";
import { listEntryOf } from "../../../schemas/records.ts";
import { feedVersion } from "../../../schemas/versions.ts";
import { idColumn } from "../../../snapshots/changes/difference.ts";
import { runMarkets } from "../../../snapshots/format/page.ts";
import { createLabelTables, type SegmentColumns } from "../../../snapshots/index/index-reader.ts";
import { retained } from "../../../snapshots/index/label-table.ts";
import { issueKey } from "../../../snapshots/keys/keys.ts";
import { countFacets } from "../../../snapshots/read/archive/count-facets.ts";
import { csvOf } from "../../../snapshots/read/archive/csv.ts";
import { ArchiveIndex, evaluate, Matches } from "../../../snapshots/read/archive/evaluate.ts";
import { askPage } from "../../../snapshots/read/archive/paging.ts";
import { askRows, rowsForms } from "../../../snapshots/read/archive/rows.ts";
import { awaitBudget, paidTurns } from "../../../snapshots/read/budgets.ts";
import { Catalog } from "../../../snapshots/read/catalog/catalog.ts";
import { type ChangeTexts, readChanges } from "../../../snapshots/read/changes/change-lines.ts";
import { scoreReader } from "../../../snapshots/read/feed/score-change-log.ts";
import { directoryStorage } from "../../../snapshots/store/backends/directory.ts";
import { archiveQuery, rowsQuery } from "../../helpers/archive/query.ts";
import { startArchiveProxy } from "../../helpers/http/archive-proxy.ts";
import { bearer, call, until } from "../../helpers/http/proxy-client.ts";
import { market, publishRecords, score } from "../../helpers/publish/records.ts";
import { aroundCalls } from "../../helpers/store/storages.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";

const scattered = 200;
/** The runs of which lines may be taken in one round of the event loop at most. */
const runsPerRound = 160;

const folder = testFolder();
let catalog: Catalog;

beforeAll(async () => {
  const storage = directoryStorage(folder);
  const records = Array.from({ length: scattered * runMarkets }, (_, index) => ({
    ...market(index),
    composite: index % runMarkets === 0 ? 1000 : 500,
  }));
  await publishRecords(storage, records);
  catalog = new Catalog(storage, { cacheBytes: 64 * 1024 * 1024 });
  await catalog.refresh();
  // What is fetched from the store takes rounds of its own: it is in memory from here on.
  await body(`pageSize=${scattered}`, false);
});

test("heavy work is open to others while one owner's requests wait for the store", async () => {
  const storage = directoryStorage(folder);
  const { key } = await issueKey(storage, { plan: "aegis", owner: "other" }, new Date(Date.UTC(2030, 0)));
  const held = Promise.withResolvers<void>();
  let holding = false;
  const slow = aroundCalls(storage, async (work, { operation }) => {
    if (holding && operation === "get") await held.promise;
    return work();
  });
  const proxy = await startArchiveProxy(slow);
  const asked = new URL(proxy.address);
  const ask = (query: string, headers: Record<string, string>) =>
    call(Number(asked.port), `${asked.pathname}?${query}`, { headers });
  expect((await ask("pageSize=1", bearer(key))).status).toBe(200);
  const usage = async () =>
    (await call(Number(asked.port), "/api/v1/usage", { headers: proxy.headers })).json();

  holding = true;
  const { remaining } = await usage();
  const waiting = Array.from({ length: 40 }, (_, size) =>
    ask(`to=2025-01-02&pageSize=${size + 1}`, proxy.headers),
  );
  await until(
    "every waiting request to be counted",
    async () => (await usage()).remaining === remaining - waiting.length,
  );
  expect((await ask("pageSize=2", bearer(key))).status).toBe(200);

  held.resolve();
  expect((await Promise.all(waiting)).map(({ status }) => status)).toEqual(waiting.map(() => 200));
  await proxy.stop();
});

const filter = "min_composite=1000&max_composite=1000";

async function body(search: string, gzip: boolean): Promise<readonly Buffer[]> {
  const page = await (await askPage(catalog, archiveQuery(`${filter}&${search}`))).plan();
  return page.body({ tier: "enterprise", timestamp: "", gzip });
}

/** How many rounds of the event loop, in which others have their turn, pass while work is done. */
async function roundsOf(work: () => Promise<unknown>): Promise<number> {
  let [rounds, done] = [0, false];
  const working = work().finally(() => {
    done = true;
  });
  for (; !done; rounds += 1) await nextRound();
  await working;
  return rounds;
}

test("markets become CSV eight in a turn", async () => {
  const lines = Array.from({ length: 57 }, (_, index) => Buffer.from(JSON.stringify(market(index))));
  const { steps, turn } = noted();
  expect((await csvOf(lines, feedVersion, turn)).split("\r\n")).toHaveLength(58);
  expect(steps).toHaveLength(8);
});

describe("ten pages of matches that lie in as many runs", () => {
  const sizes = Array.from({ length: 10 }, (_, number) => scattered - 1 - number);
  const atLeast = Math.floor((sizes.length * sizes.at(-1)!) / runsPerRound);

  test.each(["identity", "gzip"])("let others through while they are made: %s", async (coding) => {
    const made = () => Promise.all(sizes.map((size) => body(`pageSize=${size}`, coding === "gzip")));
    expect(await roundsOf(made)).toBeGreaterThanOrEqual(atLeast);
  });

  test.each(rowsForms.slice(0, 2))("let others through in rows: $name", async (form) => {
    const read = async () => {
      const plan = await (await askRows(catalog, rowsQuery(filter), form)).plan();
      for await (const { count } of plan.read()) expect(count).toBeGreaterThan(0);
    };
    expect(await roundsOf(() => Promise.all(sizes.map(read)))).toBeGreaterThanOrEqual(atLeast);
  });
});

test("work on a difference lets others through after five pieces of it, and is paid for after a hundred", async () => {
  const paid: number[] = [];
  let piece = 0;
  const turn = paidTurns({ gone: () => false, pay: async () => void paid.push(piece) });
  const work = async () => {
    for (piece = 1; piece <= 210; piece += 1) await turn();
  };
  expect(await roundsOf(work)).toBeGreaterThanOrEqual(41);
  expect(paid).toEqual([100, 200]);
});

test("lines of a difference let others through after twenty of its runs", async () => {
  const run = async () => Array<Buffer>(16).fill(Buffer.from("{}"));
  const texts: ChangeTexts = { bytes: 0, lines: () => 512, run };
  const puts = Uint32Array.from({ length: 6400 }, (_, n) => n);
  const net = { deletes: idColumn(0), puts, texts, bytes: 0 };
  expect(await roundsOf(() => Readable.from(readChanges(net, 0)).toArray())).toBeGreaterThanOrEqual(19);
});

test("changes of scores let others through after 160 of them", async () => {
  const { commit } = catalog.requireCurrent();
  const { snapshotId, publishedAt } = commit;
  const row = listEntryOf(score("aave", 1));
  const common = { slug: "aave", snapshotId, publishedAt, previous: null, current: row };
  const changes = Array.from({ length: 1600 }, () => ({ type: "score.added" as const, ...common }));
  const log = {
    newest: () => commit.commit,
    commit: async () => commit,
    step: async () => ({ commit, changes }),
  };
  const pending = scoreReader(log, { position: commit.commit - 1, gone: false });
  const read = async () => expect(await Readable.from(pending()).toArray()).toHaveLength(1602);
  expect(await roundsOf(read)).toBeGreaterThanOrEqual(9);
});

test("nothing takes turns any more when all work is done", async () => {
  await Promise.all(Array.from({ length: 50 }, () => awaitBudget()));
  for (let round = 0; round < 3; round += 1) await nextRound();
  expect(process.getActiveResourcesInfo()).not.toContain("Immediate");
});

/** A segment that says to have so many markets; the columns hold its oldest one. */
function segment(markets: number): SegmentColumns {
  return {
    markets,
    fields: filterFields,
    times: { markets: 1, oldest: 0, newest: 0, epochs: [[0, 0]], low: Uint32Array.of(0) },
    integers: new Map([["disputed", { min: 0, max: 1, slices: Uint32Array.of(0) }]]),
    labels: new Map(),
  };
}

const archive = (...sizes: number[]) =>
  new ArchiveIndex(sizes.map(segment), createLabelTables(), {
    name: "It",
    version: feedVersion,
    words: () => Promise.reject(new Error("it has no words")),
  });

/** Notes for how many steps of the event loop's budget somebody waited. */
function noted() {
  const steps: (number | undefined)[] = [];
  return { steps, turn: async (count?: number) => void steps.push(count) };
}

test("counting waits for as many steps as the markets of a segment and the facets take", async () => {
  const columns = archive(2 ** 17, 2 ** 17 + 1, 400_000);
  const one = Uint32Array.of(1);
  const matches = new Matches(
    columns.segments.map(({ markets }) => ({ markets, count: 1, bits: one })),
    columns.starts,
  );
  const [single, double] = [noted(), noted()];
  await countFacets(columns, matches, ["month"], 10, single.turn);
  expect(single.steps).toEqual([1, 2, 4]);
  const found = await countFacets(columns, matches, ["month", "disputed"], 10, double.turn);
  expect(double.steps).toEqual([2, 3, 7]);
  expect(found).toEqual({
    month: { buckets: [{ value: "1970-01", count: 3, disputed: 0 }] },
    disputed: {
      distinct: 1,
      buckets: [{ value: "false", count: 3, disputed: 0 }],
      other: { count: 0, disputed: 0 },
    },
  });
});

test("labels of a facet are looked at in steps, too", async () => {
  const columns = archive();
  columns.tables.outcome.intern("Yes");
  const { steps, turn } = noted();
  const found = await countFacets(columns, new Matches([], [0]), ["outcome"], 10, turn);
  expect([found.outcome, steps]).toMatchObject([{ distinct: 0, buckets: [] }, [1]]);
});

test("filtering waits for a turn before each segment, unless there is nothing to compare", async () => {
  const columns = archive(1, 1);
  const cases: [Condition[], number][] = [
    [[], 0],
    [[{ kind: "time", from: 0, to: 0 }], 2],
  ];
  for (const [conditions, turns] of cases) {
    const { steps, turn } = noted();
    expect((await evaluate(columns, { conditions, words: [] }, turn)).total).toBe(2);
    expect(steps).toHaveLength(turns);
  }
});

test("work during which labels are numbered anew is done again", async () => {
  const columns = archive();
  let runs = 0;
  const found = await columns.settled(async () => {
    runs += 1;
    columns.tables.outcome.intern("Yes");
    if (runs === 1) columns.tables.outcome = retained(columns.tables.outcome, []);
    return runs;
  });
  expect([found, runs]).toEqual([2, 2]);
});
