import { parentPort, workerData } from "node:worker_threads";
import { messageOf } from "../../snapshots/store/errors.ts";
import { type Answers, type Questions, sqliteQuota } from "./counters.ts";

// Worker thread of threadedQuota: answers every message of questions with a message of answers. An empty one says that
// the file is open.
const store = sqliteQuota(workerData);

/** JSON texts take less time than cloned objects. */
const send = (answers: Answers) => parentPort!.postMessage(JSON.stringify(answers));

parentPort!.on("message", async (text: string) => {
  const questions: Questions = JSON.parse(text);
  const settled = await Promise.allSettled(questions.map(([method, ...of]) => store[method](...of)));
  const answer = (one: PromiseSettledResult<unknown>) =>
    one.status === "fulfilled" ? { value: one.value } : { error: messageOf(one.reason) };
  send(settled.map(answer));
});
send([]);
