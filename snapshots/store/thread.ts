import { availableParallelism } from "node:os";
import { Worker } from "node:worker_threads";

// Node before 22.18 needs tsx to load TypeScript, and applies --import tsx to the main thread only.
const tsx = import.meta.resolve("tsx/esm/api");

/** `module` is the URL of a module of this project. */
export function startThread(module: string, workerData?: unknown): Worker {
  const start = `
    const loader = process.features.typescript ? undefined : import(${JSON.stringify(tsx)});
    Promise.resolve(loader).then((module) => {
      module?.register();
      return import(${JSON.stringify(module)});
    });`;
  return new Worker(start, { eval: true, execArgv: [], workerData });
}

/** Questions to answer on the caller's thread: a run with so few ends before threads have started. */
export const askedBeforeThreads = 64;
/** Each thread takes about 30 MB. */
const maxThreads = Math.min(4, availableParallelism());

/** Up to four worker threads that do the same work. */
export class Threads<Question, Answer> {
  readonly #module: string;
  readonly #task: string;
  readonly #work: (question: Question) => Answer;
  readonly #threads: { worker: Worker; waiting: PromiseWithResolvers<Answer>[] }[] = [];
  #asked = 0;
  #failure: Error | undefined;

  /** The module at this URL answers every message, in order, as `work` does. `task` is its name in errors. */
  constructor(module: string, task: string, work: (question: Question) => Answer) {
    this.#module = module;
    this.#task = task;
    this.#work = work;
  }

  async ask(question: Question): Promise<Answer> {
    this.#asked += 1;
    if (this.#asked <= askedBeforeThreads) return this.#work(question);
    if (this.#failure) throw this.#failure;
    if (this.#threads.length < maxThreads) this.#start();
    const thread = this.#threads.reduce((a, b) => (b.waiting.length < a.waiting.length ? b : a));
    const answered = Promise.withResolvers<Answer>();
    thread.waiting.push(answered);
    thread.worker.postMessage(question);
    return answered.promise;
  }

  /** Abandons what has no answer yet. */
  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#threads.map(({ worker }) => worker.terminate()));
  }

  #start(): void {
    const worker = startThread(this.#module);
    const waiting: PromiseWithResolvers<Answer>[] = [];
    const fail = (error: Error) => {
      this.#failure ??= error;
      for (const { reject } of waiting.splice(0)) reject(error);
    };
    worker.on("message", (answer: Answer) => waiting.shift()?.resolve(answer));
    worker.on("error", fail);
    worker.on("exit", (code) => fail(new Error(`a thread that ${this.#task} ended with ${code}`)));
    this.#threads.push({ worker, waiting });
  }
}
