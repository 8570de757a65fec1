import { availableParallelism } from "node:os";
import { parentPort, type Worker, workerData } from "node:worker_threads";
import { gunzipSync } from "node:zlib";
import { marketOf } from "../../schemas/records.ts";
import { cuts } from "../format/bytes.ts";
import { type Outline, outlineOf } from "../format/market-line.ts";
import {
  areWholeRuns,
  type Page,
  pageText,
  readRun,
  readWholePage,
  runHashesOf,
  separator,
} from "../format/page.ts";
import { leafHash, pageRootOf } from "../format/tree.ts";
import { startThread } from "../store/deadline.ts";
import { CorruptObjectError, unlessSync } from "../store/errors.ts";
import { maxRunBytes } from "../store/layout.ts";
import { outliners } from "./market-pattern.ts";

/** A page whose bytes have been compared with its hash and its length. */
export interface PageToCheck {
  pageKey: string;
  segmentKey: string;
  stored: Uint8Array;
  /** Its entry in the segment's table. */
  page: Page;
  feedVersion: string;
}

/** The rows of a page from the oldest, or what is wrong with it or with its segment. */
type JudgedPage = { rows: Outline[] } | { key: string; reason: string };

export function judgePage(page: PageToCheck): JudgedPage {
  const faultOf = ({ key, reason }: CorruptObjectError) => ({ key, reason });
  return unlessSync(CorruptObjectError, () => ({ rows: checkPage(page) }), faultOf);
}

/** From the oldest market. */
function checkPage({ pageKey, segmentKey, page, feedVersion, stored: bytes }: PageToCheck): Outline[] {
  const stored = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  const wrongTable = (what: string) =>
    new CorruptObjectError(segmentKey, `its page table is wrong about ${what} of ${pageKey}`);
  const whole = readWholePage(stored, page.runs);
  const inflate = () => gunzipSync(stored, { maxOutputLength: maxPageBytes });
  const noGzip = (cause: Error): never => {
    throw new CorruptObjectError(pageKey, "it is not a gzip file", { cause });
  };
  const text = whole ? undefined : unlessSync(Error, inflate, noGzip);
  // The page was inflated before, so runs that cannot be found in it are the segment's fault.
  const lines = whole ?? page.runs.flatMap((_, run) => readRun(segmentKey, stored, page, run));
  if (lines.length !== page.markets) throw wrongTable("the number of markets");
  if ((text && !text.equals(pageText(lines))) || !areWholeRuns(page.runs, lines))
    throw wrongTable("the runs");
  if (runHashesOf(stored, page.runs) !== page.runHashes) throw wrongTable("the hashes of the runs");
  const root = pageRootOf(lines.toReversed().map(leafHash)).toString("hex");
  if (root !== page.root) throw wrongTable("the root");
  return lines.map((line) => parseMarket(pageKey, line, feedVersion)).reverse();
}

const maxPageBytes = maxRunBytes(cuts.pageMax, separator.length) + 4;

function parseMarket(key: string, line: Buffer, feedVersion: string): Outline {
  try {
    const outline = outliners.get(feedVersion)?.(line);
    return outline ?? outlineOf(marketOf(feedVersion).parse(JSON.parse(line.toString("utf8"))), feedVersion);
  } catch (error) {
    throw new CorruptObjectError(key, `a market breaks INTERFACE 2.4: ${line.toString("utf8", 0, 60)}`, {
      cause: error,
    });
  }
}

/** Pages to check on the caller's thread: a store with so few is checked before threads have started. */
export const askedBeforeThreads = 64;
/** Each thread takes some 110 MB. */
const maxThreads = Math.min(4, availableParallelism());

/** What tells a thread that it is one of PageCheck's. */
const threadMark = "checks pages";

/** Up to four worker threads that check pages. */
export class PageCheck {
  readonly #threads: { worker: Worker; waiting: PromiseWithResolvers<JudgedPage>[] }[] = [];
  #asked = 0;
  #failure: Error | undefined;

  async ask(page: PageToCheck): Promise<JudgedPage> {
    this.#asked += 1;
    if (this.#asked <= askedBeforeThreads) return judgePage(page);
    if (this.#failure) throw this.#failure;
    if (this.#threads.length < maxThreads) this.#start();
    const thread = this.#threads.reduce((a, b) => (b.waiting.length < a.waiting.length ? b : a));
    const answered = Promise.withResolvers<JudgedPage>();
    thread.waiting.push(answered);
    thread.worker.postMessage(page);
    return answered.promise;
  }

  /** Abandons what has no answer yet. */
  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#threads.map(({ worker }) => worker.terminate()));
  }

  #start(): void {
    const worker = startThread(import.meta.url, threadMark);
    const waiting: PromiseWithResolvers<JudgedPage>[] = [];
    const fail = (error: Error) => {
      this.#failure ??= error;
      for (const { reject } of waiting.splice(0)) reject(error);
    };
    worker.on("message", (answer: JudgedPage) => waiting.shift()?.resolve(answer));
    worker.on("error", fail);
    worker.on("exit", (code) => fail(new Error(`a thread that checks pages ended with ${code}`)));
    this.#threads.push({ worker, waiting });
  }
}

// In such a thread this module answers every page, in order.
if (workerData === threadMark)
  parentPort!.on("message", (page: PageToCheck) => parentPort!.postMessage(judgePage(page)));
