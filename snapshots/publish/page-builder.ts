import { availableParallelism } from "node:os";
import type { Worker } from "node:worker_threads";
import { type BuiltPage, type CompressedPage, compressPage } from "../format/page.ts";
import { startThread } from "../store/thread.ts";

/** Built on the caller's thread: a run with so few pages ends before threads have started. */
export const pagesBeforeThreads = 64;
/** Each thread takes about 30 MB. */
const maxThreads = Math.min(4, availableParallelism());

const worker = import.meta.resolve("./page-worker.ts");

/** Compresses pages on up to four worker threads. */
export class PageBuilder {
  readonly #threads: PageThread[] = [];
  #pages = 0;

  /** The buffer of `text` (made by pageText) is transferred to a thread and must not be used afterwards. */
  async build(text: Buffer<ArrayBuffer>): Promise<BuiltPage> {
    this.#pages += 1;
    if (this.#pages <= pagesBeforeThreads) return compressPage(text);
    if (this.#threads.length < maxThreads) this.#threads.push(new PageThread());
    return this.#threads.reduce((a, b) => (b.waiting < a.waiting ? b : a)).build(text);
  }

  /** Abandons unfinished pages. */
  async close(): Promise<void> {
    await Promise.all(this.#threads.map((thread) => thread.close()));
  }
}

/** Answers in the order in which it receives texts. */
class PageThread {
  readonly #worker: Worker;
  readonly #waiting: PromiseWithResolvers<BuiltPage>[] = [];
  #failure: Error | undefined;

  constructor() {
    this.#worker = startThread(worker);
    this.#worker.on("message", ({ page, bytes }: { page: CompressedPage; bytes: Uint8Array<ArrayBuffer> }) =>
      this.#waiting.shift()?.resolve({ page, stored: Buffer.from(bytes.buffer) }),
    );
    this.#worker.on("error", (error) => this.#fail(error));
    this.#worker.on("exit", (code) =>
      this.#fail(new Error(`a thread that compresses pages ended with ${code}`)),
    );
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  build(text: Buffer<ArrayBuffer>): Promise<BuiltPage> {
    if (this.#failure) return Promise.reject(this.#failure);
    const built = Promise.withResolvers<BuiltPage>();
    this.#waiting.push(built);
    this.#worker.postMessage(text, [text.buffer]);
    return built.promise;
  }

  async close(): Promise<void> {
    await this.#worker.terminate();
  }

  #fail(error: Error): void {
    this.#failure ??= error;
    for (const { reject } of this.#waiting.splice(0)) reject(this.#failure);
  }
}
