import { parentPort, workerData } from "node:worker_threads";
import { messageOf } from "../../snapshots/store/errors.ts";
import { sqliteQuota } from "./sqlite.ts";
import type { Answers, Questions } from "./sqlite-thread.ts";

// Worker thread of threadedQuota: answers every message of questions with a message of answers. An empty one says that
// the file is open.
const store = sqliteQuota(workerData);

/** JSON texts take less time than cloned objects. */
const send = (answers: Answers) => parentPort!.postMessage(JSON.stringify(answers));

parentPort!.on("message", async (text: string) => {
  const { batch, until, asked }: Questions = JSON.parse(text);
  // Nobody waits for a late question any more, and units taken for it would belong to no request.
  const late = () => Promise.reject(new Error("the quota file was busy for too long"));
  const answer = Date.now() > until ? late : ({ method, of }: (typeof asked)[number]) => store[method](...of);
  const settled = await Promise.allSettled(asked.map(answer));
  const value = (one: PromiseSettledResult<unknown>) =>
    one.status === "fulfilled" ? { value: one.value } : { error: messageOf(one.reason) };
  send({ batch, settled: settled.map(value) });
});
send({ batch: 0, settled: [] });
