import { once } from "node:events";
import { inTime } from "../../snapshots/store/in-parallel.ts";
import { startThread } from "../../snapshots/store/thread.ts";
import type { Counters, QuotaStore } from "./store.ts";

// A network folder may hang for good.
const openSeconds = 10;
// More than the requests of a process at a time. Questions asked before a folder hung are kept until the folder
// answers.
const mostWaiting = 10_000;

type Method = "take" | "giveBack" | "used";
/** A message to the thread, and when nobody waits for the answers any more (epoch milliseconds). */
export interface Questions {
  batch: number;
  until: number;
  asked: { method: Method; of: Parameters<Counters["take"]> }[];
}
export interface Answers {
  batch: number;
  settled: Settled[];
}
type Settled = { value: unknown } | { error: string };
const gone = { error: "the thread of the quota file has ended" };

type Waiting = PromiseWithResolvers<unknown>;

/**
 * `sqliteQuota` of a file on a thread of its own. A file that is locked, or in a folder that hangs, then delays only
 * those who are counted, and them by no more than `seconds`. All questions of one turn of the event loop are one
 * message. Throws when the file cannot be used.
 */
export async function threadedQuota(file: string, seconds: number): Promise<QuotaStore> {
  const thread = startThread(import.meta.resolve("./sqlite-worker.ts"), file);
  /** The callers that wait for answers, by the number of their message, and its deadline. */
  const batches = new Map<number, { settling: readonly Waiting[]; deadline: NodeJS.Timeout }>();
  let next: { asked: Questions["asked"]; waiting: Waiting[] } = { asked: [], waiting: [] };
  let sent = 0;
  /** How many questions the thread has not answered yet, including those for which nobody waits any more. */
  let waiting = 0;
  let ended = false;

  function settle(batch: number, answer: (index: number) => Settled) {
    const { settling = [], deadline } = batches.get(batch) ?? {};
    batches.delete(batch);
    clearTimeout(deadline);
    for (const [index, { resolve, reject }] of settling.entries()) {
      const settled = answer(index);
      if ("error" in settled) reject(new Error(settled.error));
      else resolve(settled.value);
    }
  }

  function send() {
    const batch = ++sent;
    const late = { error: `the quota file did not answer within ${seconds} s` };
    const deadline = setTimeout(() => settle(batch, () => late), seconds * 1000);
    batches.set(batch, { settling: next.waiting, deadline });
    const questions: Questions = { batch, until: Date.now() + seconds * 1000, asked: next.asked };
    thread.postMessage(JSON.stringify(questions));
    next = { asked: [], waiting: [] };
  }

  function ask<T>(method: Method, account: string, day: string, units = 0, limit = 0): Promise<T> {
    if (ended) return Promise.reject(new Error(gone.error));
    if (waiting >= mostWaiting) return Promise.reject(new Error("too many requests wait for the quota file"));
    waiting += 1;
    const settled = Promise.withResolvers<T>();
    next.waiting.push(settled as Waiting);
    if (next.asked.push({ method, of: [account, day, units, limit] }) === 1) setImmediate(send);
    return settled.promise;
  }

  thread.on("message", (text: string) => {
    const { batch, settled }: Answers = JSON.parse(text);
    waiting -= settled.length;
    settle(batch, (index) => settled[index]!);
  });
  const opened = inTime(openSeconds, once(thread, "message"));
  const end = () => {
    ended = true;
    for (const batch of batches.keys()) settle(batch, () => gone);
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
