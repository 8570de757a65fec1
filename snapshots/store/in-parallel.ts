/**
 * Runs `work` for every item, `concurrency` at a time, and returns the results in the order of the items; the default
 * suits small requests to a store. The first failure is thrown at once, while other items may still be running; no
 * further ones are started.
 */
export async function inParallel<Item, Result>(
  items: Iterable<Item>,
  work: (item: Item) => Promise<Result>,
  concurrency = 16,
): Promise<Result[]> {
  const queue = items[Symbol.iterator]();
  const results: Result[] = [];
  let begun = 0;
  let failed = false;
  const worker = async () => {
    for (let next = queue.next(); !next.done && !failed; next = queue.next()) {
      const place = begun;
      begun += 1;
      try {
        results[place] = await work(next.value);
      } catch (error) {
        failed = true;
        throw error;
      }
    }
  };
  await Promise.all(Array.from({ length: concurrency }, worker));
  return results;
}

/** The most bytes of items that are read ahead. A single larger item is read nevertheless. */
const maxBytesAhead = 64 * 1024 * 1024;

/**
 * Works on up to `concurrency` items at once, also while the caller does, and yields the results in the order of the
 * items. `bytes` tells how much memory the work on an item takes.
 */
export async function* inOrder<Item, Result>(
  items: Iterable<Item> | AsyncIterable<Item>,
  work: (item: Item) => Promise<Result>,
  { concurrency = 64, bytes = () => 0 }: { concurrency?: number; bytes?: (item: Item) => number } = {},
): AsyncGenerator<Result, void, void> {
  const begun: { result: Promise<Result>; size: number }[] = [];
  let ahead = 0;
  const oldest = () => {
    const { result, size } = begun.shift()!;
    ahead -= size;
    return result;
  };
  try {
    for await (const item of items) {
      const size = bytes(item);
      const done: Result[] = [];
      while (begun.length === concurrency || (begun.length > 0 && ahead + size > maxBytesAhead))
        done.push(await oldest());
      const result = work(item);
      // It may fail while nobody awaits it.
      result.catch(() => {});
      begun.push({ result, size });
      ahead += size;
      yield* done;
    }
    while (begun.length > 0) yield await oldest();
  } finally {
    await Promise.allSettled(begun.map(({ result }) => result));
  }
}

/**
 * Waits until a long computation may do its next `steps`, of 0.05 to 0.15 ms each, so that other requests get their
 * turn.
 */
export type Turn = (steps?: number) => Promise<void>;
