import { once } from "node:events";
import { inTime, startThread } from "../../snapshots/store/deadline.ts";
import type { Counters, QuotaStore } from "./counters.ts";

// A network folder may hang for good.
const openSeconds = 10;
// More than the requests of a process at a time. Questions asked before a folder hung are kept until the folder
// answers.
const mostWaiting = 10_000;

type Method = "take" | "giveBack" | "used";
/** A message to the thread. */
export type Questions = [Method, ...Parameters<Counters["take"]>][];
export type Answers = Settled[];
type Settled = { value: unknown } | { error: string };
const gone = { error: "the thread of the quota file has ended" };

/** Questions of one message, and those who wait for the answers. */
interface Batch {
  questions: Questions;
  waiting: PromiseWithResolvers<unknown>[];
  deadline: NodeJS.Timeout;
}

/**
 * `sqliteQuota` of a file on a thread of its own. A file that is locked, or in a folder that hangs, then delays only
 * those who are counted, and them by no more than `seconds`. The thread has one message at a time: what is asked
 * meanwhile is the next one, since waking a thread takes longer than counting. Throws when the file cannot be used.
 */
export async function threadedQuota(file: string, seconds: number): Promise<QuotaStore> {
  const thread = startThread(import.meta.resolve("./sqlite-worker.ts"), file);
  let [underway, next]: (Batch | undefined)[] = [];
  let ended = false;

  function settle(batch: Batch | undefined, answer: (index: number) => Settled) {
    clearTimeout(batch?.deadline);
    for (const [index, { resolve, reject }] of batch?.waiting.entries() ?? []) {
      const settled = answer(index);
      if ("error" in settled) reject(new Error(settled.error));
      else resolve(settled.value);
    }
  }

  function begin(): Batch {
    const late = { error: `the quota file did not answer within ${seconds} s` };
    const deadline = setTimeout(() => {
      settle(batch, () => late);
      // Nobody waits for a late question any more, and units taken for it would belong to no request.
      if (next === batch) next = undefined;
    }, seconds * 1000);
    const batch: Batch = { questions: [], waiting: [], deadline };
    setImmediate(send);
    return batch;
  }

  function send() {
    if (underway || !next) return;
    [underway, next] = [next, undefined];
    thread.postMessage(JSON.stringify(underway.questions));
  }

  function ask<T>(method: Method, account: string, day: string, units = 0, limit = 0): Promise<T> {
    if (ended) return Promise.reject(new Error(gone.error));
    next ??= begin();
    if (next.waiting.length >= mostWaiting)
      return Promise.reject(new Error("too many requests wait for the quota file"));
    const settled = Promise.withResolvers<T>();
    next.waiting.push(settled as PromiseWithResolvers<unknown>);
    next.questions.push([method, account, day, units, limit]);
    return settled.promise;
  }

  thread.on("message", (text: string) => {
    const answers: Answers = JSON.parse(text);
    settle(underway, (index) => answers[index]!);
    underway = undefined;
    send();
  });
  const opened = inTime(openSeconds, once(thread, "message"));
  const end = () => {
    ended = true;
    for (const batch of [underway, next]) settle(batch, () => gone);
  };
  thread.on("error", end).on("exit", end);
  await opened.catch((error) => {
    void thread.terminate();
    throw error;
  });
  thread.unref();
  return {
    take: (...of) => ask<Awaited<ReturnType<Counters["take"]>>>("take", ...of),
    giveBack: (...of) => ask<void>("giveBack", ...of),
    used: (...of) => ask<number>("used", ...of),
    keeping: async () => ({ store: "sqlite", replica: null }),
    close: () =>
      inTime(seconds, thread.terminate()).then(
        () => {},
        () => {},
      ),
  };
}
