import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate as nextRound } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Catalog } from "../snapshots/catalog.ts";
import { runMarkets } from "../snapshots/format/page.ts";
import { planPage } from "../snapshots/paging.ts";
import { planRows } from "../snapshots/rows.ts";
import { directoryStorage } from "../snapshots/storage/directory.ts";
import { market, publishRecords } from "./helpers/proxy-archive.ts";

const scattered = 200;
/** The most that may be inflated in one round of the event loop. */
const runsPerRound = 32;

let folder = "";
let catalog: Catalog;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "prs-pace-"));
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

afterAll(() => rm(folder, { recursive: true }));

const filter = "min_composite=1000&max_composite=1000";

async function body(search: string, gzip: boolean): Promise<readonly Buffer[]> {
  const page = await planPage(catalog, `${filter}&${search}`);
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

describe("a page of matches that lie in as many runs", () => {
  const pieces = Math.floor(scattered / runsPerRound);

  test.each(["identity", "gzip"])("lets others through while it is made: %s", async (coding) => {
    const rounds = await roundsOf(() => body(`pageSize=${scattered - 1}`, coding === "gzip"));
    expect(rounds).toBeGreaterThanOrEqual(pieces);
  });

  test("lets others through as often when ten are asked for at once", async () => {
    const sizes = Array.from({ length: 10 }, (_, number) => scattered - 2 - number);
    const rounds = await roundsOf(() => Promise.all(sizes.map((size) => body(`pageSize=${size}`, false))));
    expect(rounds).toBeGreaterThanOrEqual(10 * (pieces - 1));
  });

  test("lets others through in NDJSON", async () => {
    const rounds = await roundsOf(async () => {
      const plan = await planRows(catalog, filter);
      for await (const { count } of plan.read()) expect(count).toBeGreaterThan(0);
    });
    expect(rounds).toBeGreaterThanOrEqual(pieces);
  });
});
