import { parentPort } from "node:worker_threads";
import { type AskedPage, judgePage } from "./page-check.ts";

// Worker thread of PageCheck: answers every page, in order.
parentPort!.on("message", (asked: AskedPage) => parentPort!.postMessage(judgePage(asked)));
