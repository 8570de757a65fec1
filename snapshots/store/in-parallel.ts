/** Does the work for every item, so many at a time as a store is asked small things; the first failure ends it. */
export async function inParallel<Item>(
  items: Iterable<Item>,
  work: (item: Item) => Promise<void>,
  concurrency = 16,
): Promise<void> {
  const queue = items[Symbol.iterator]();
  let failed = false;
  const worker = async () => {
    for (let next = queue.next(); !next.done && !failed; next = queue.next()) {
      try {
        await work(next.value);
      } catch (error) {
        failed = true;
        throw error;
      }
    }
  };
  await Promise.all(Array.from({ length: concurrency }, worker));
}
