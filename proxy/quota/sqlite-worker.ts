import { parentPort, workerData } from "node:worker_threads";
import { messageOf } from "../../snapshots/store/errors.ts";
import { type Question, sqliteQuota } from "./counters.ts";
import type { Answers } from "./sqlite-thread.ts";

// Worker thread of threadedQuota: answers every message of questions with a message of answers. An empty one says that
// the file is open.
const store = sqliteQuota(workerData);

function answersTo(questions: Question[]): Answers {
  try {
    return { values: store.answer(questions) };
  } catch (error) {
    return { error: messageOf(error) };
  }
}

/** JSON texts take less time than cloned objects. */
const send = (answers: Answers) => parentPort!.postMessage(JSON.stringify(answers));

parentPort!.on("message", (text: string) => send(answersTo(JSON.parse(text))));
send({ values: [] });
