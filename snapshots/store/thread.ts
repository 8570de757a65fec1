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
