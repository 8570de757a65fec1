import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { ProtocolScore } from "../../../../schemas/records.ts";
import type { ScoreChange } from "../../../../schemas/rooms/feed.ts";
import { forgeScaleNumber, forgeTiers } from "../../../../schemas/versions.ts";
import { rollback } from "../../../../snapshots/maintain/rollback.ts";
import { Catalog } from "../../../../snapshots/read/catalog/catalog.ts";
import { scoreChangeLog } from "../../../../snapshots/read/feed/score-change-log.ts";
import { MissingObjectError } from "../../../../snapshots/store/errors.ts";
import { layout } from "../../../../snapshots/store/layout.ts";
import { newestCommit } from "../../../../snapshots/store/log/commits.ts";
import type { Storage } from "../../../../snapshots/store/storage.ts";
import {
  type Book,
  bookOf,
  changesBetween,
  publishBook,
  scoreOf,
} from "../../../helpers/publish/score-books.ts";
import { memoryStorage } from "../../../helpers/store/storages.ts";

const feedOver = (storage: Storage) => scoreChangeLog(new Catalog(storage, { cacheBytes: 1024 * 1024 }));

const changesOf = async (feed: ReturnType<typeof feedOver>, commit: number) =>
  (await feed.step(commit - 1)).changes;

/** Ways in which a record differs, in each field of its row. */
const change = fc.constantFrom<Partial<ProtocolScore>>(
  ...[0, 1000].map((bri) => ({ bri })),
  ...[0, 100].map((confidence) => ({ confidence })),
  ...[-1000, 1000].map((delta) => ({ delta })),
  ...["2026-02-02T03:04:05.000Z", "2026-02-02T03:04:06.000Z"].map((updatedAt) => ({ updatedAt })),
  ...forgeTiers.map((forgeScale) => ({ forgeScale, forgeScaleNum: forgeScaleNumber(forgeScale) })),
);
const slug = fc.constantFrom("aave", "a.b", "curve.fi", "curve-fi", "constructor", "0x", "z_1");
/** An edit of the scores; without a change the protocol goes. */
const edit = fc.record({ slug, change: fc.option(change, { freq: 4, nil: undefined }) });
const step = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      edits: fc.array(edit, { maxLength: 4 }),
      markets: fc.integer({ min: 3, max: 5 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ backTo: fc.nat() }) },
);
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

function edited(
  book: Book,
  edits: readonly { slug: string; change: Partial<ProtocolScore> | undefined }[],
): Book {
  const next = new Map(book);
  for (const { slug: at, change: changes } of edits) {
    if (changes) next.set(at, { ...(next.get(at) ?? scoreOf(at, 500)), ...changes });
    else if (next.size > 1) next.delete(at);
  }
  return next;
}

/** What a commit shows, as noted when it was the newest. */
interface Shown {
  snapshotId: string;
  book: Book;
  changes: ScoreChange[];
}

/** Carries out the steps, and notes every commit; the first is in place 0. */
async function history(storage: Storage, steps: readonly Step[]): Promise<Shown[]> {
  const shown: Shown[] = [];
  const note = async (book: Book) => {
    const { commit, snapshotId } = (await newestCommit(storage))!.entry;
    if (commit === shown.length) return;
    const changes = await changesBetween(storage, shown.at(-1)?.book ?? book, book);
    shown.push({ snapshotId, book, changes });
  };
  const first = bookOf({ aave: 500, "curve.fi": 600 });
  await publishBook(storage, first);
  await note(first);
  for (const each of steps) {
    const { book, snapshotId } = shown.at(-1)!;
    if ("backTo" in each) {
      const number = (each.backTo % shown.length) + 1;
      const target = shown[number - 1]!;
      if (target.snapshotId === snapshotId) continue;
      await rollback(storage, String(number), () => new Date("2026-03-01T01:00:00.000Z"));
      await note(target.book);
    } else {
      const next = edited(book, each.edits);
      await publishBook(storage, next, { markets: each.markets });
      await note(next);
    }
  }
  return shown;
}

describe("the changes of a commit", () => {
  test("are those from each snapshot to the next, each told once and by slug, whichever is asked for first", async () => {
    const run = async (steps: Step[]) => {
      const storage = memoryStorage(new Map());
      const shown = await history(storage, steps);
      const [feed, other] = [feedOver(storage), feedOver(storage)];
      // The other one begins at the end.
      for (let number = shown.length; number > 1; number -= 1)
        expect(await changesOf(other, number)).toEqual(shown[number - 1]!.changes);
      for (let number = 2; number <= shown.length; number += 1)
        expect(await changesOf(feed, number)).toEqual(shown[number - 1]!.changes);
    };
    const steps = fc.array(step, { minLength: 1, maxLength: 8 });
    // What is not in the row.
    const beside = { edits: [{ slug: "aave" as const, change: { evidenceHash: "sha256:1" } }], markets: 3 };
    await fc.assert(fc.asyncProperty(steps, run), { numRuns: 10, examples: [[[beside]]] });
  });

  const booksOf = (bri: number) => bookOf({ aave: bri, lido: bri, maker: bri });
  async function published(commits: number): Promise<Storage> {
    const storage = memoryStorage(new Map());
    for (let bri = 1; bri <= commits; bri += 1) await publishBook(storage, booksOf(bri));
    return storage;
  }

  test("are kept while there are few enough of them, however many commits they are of", async () => {
    const storage = await published(4);
    const feed = scoreChangeLog(new Catalog(storage, { cacheBytes: 1024 * 1024 }), { most: 8 });
    // The same array: nothing was compared anew.
    const [second, third] = [await changesOf(feed, 2), await changesOf(feed, 3)];
    expect([second.length, third.length]).toEqual([3, 3]);
    expect(await changesOf(feed, 2)).toBe(second);
    await changesOf(feed, 4);
    expect(await changesOf(feed, 2)).toBe(second);
    const again = await changesOf(feed, 3);
    expect(again).toEqual(third);
    expect(again).not.toBe(third);
  });

  test("cannot be told of the first commit, of one to come, or once either side was collected", async () => {
    const storage = await published(3);
    const manifests = [1, 2].map(async (number) =>
      layout.manifest((await feedOver(storage).commit(number)).manifest.hash),
    );
    const [first = "", second = ""] = await Promise.all(manifests);
    const feed = feedOver(storage);
    const missing = async (number: number) =>
      expect(changesOf(feed, number)).rejects.toBeInstanceOf(MissingObjectError);
    await missing(1);
    await missing(4);
    const bytes = (await storage.get(first))!;
    await storage.delete(first);
    await missing(2);
    expect(await changesOf(feed, 3)).toHaveLength(3);
    // What failed is tried again, and what is known is still told.
    await storage.put(first, bytes);
    expect(await changesOf(feed, 2)).toHaveLength(3);
    await storage.delete(second);
    expect(await changesOf(feed, 2)).toHaveLength(3);
    await publishBook(storage, booksOf(4));
    expect(await changesOf(feed, 4)).toHaveLength(3);
  });

  test("pass over a commit that was collected after they were told up to it", async () => {
    const storage = await published(2);
    const catalog = new Catalog(storage, { cacheBytes: 1024 * 1024 });
    await catalog.refresh();
    const feed = scoreChangeLog(catalog);
    expect((await feed.step(1)).commit.commit).toBe(2);
    await publishBook(storage, booksOf(3));
    await storage.delete(layout.manifest((await feed.commit(2)).manifest.hash));
    await catalog.refresh();
    const { commit, changes } = await feed.step(1);
    expect([commit.commit, changes.length, changes[0]?.current?.bri]).toEqual([3, 3, 3]);
  });

  test("are told to the current commit, which is in memory, when all others were collected", async () => {
    const storage = await published(3);
    const catalog = new Catalog(storage, { cacheBytes: 1024 * 1024 });
    await catalog.refresh();
    for (const number of [2, 3])
      await storage.delete(layout.manifest((await catalog.log.commit(number))!.manifest.hash));
    const { commit, changes } = await scoreChangeLog(catalog).step(1);
    expect([commit.commit, changes.length]).toEqual([3, 3]);
  });
});
