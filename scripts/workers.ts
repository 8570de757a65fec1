import cluster, { type Worker } from "node:cluster";
import { once } from "node:events";
import { setTimeout as delay } from "node:timers/promises";
import type { Logger } from "pino";
import type { Config } from "../proxy/config.ts";
import { configError } from "../proxy/config.ts";

// A worker that dies at once, again and again, must not keep the machine busy.
const restartMilliseconds = 1000;
// How long a worker may take to end after the deadline for its current requests.
const endingSeconds = 3;

/** Runs copies of this process as workers that share the port, and replaces those that die. */
export function supervise(
  { webConcurrency: count, shutdownSeconds }: Pick<Config, "webConcurrency" | "shutdownSeconds">,
  log: Logger,
) {
  let stopping = false;

  async function keep(worker: Worker): Promise<void> {
    const [code, signal] = await once(worker, "exit");
    if (stopping) return;
    log.error({ code, signal, worker: worker.id }, "a worker died; another takes its place");
    await delay(restartMilliseconds);
    if (!stopping) void keep(cluster.fork());
  }

  async function start(): Promise<void> {
    // One first, so that a faulty configuration is reported once and not by every worker.
    const first = cluster.fork();
    const listening = await Promise.race([
      once(first, "listening").then(() => true),
      once(first, "exit").then(() => false),
    ]);
    if (!listening) throw configError("No worker could be started.");
    const others = Array.from({ length: count - 1 }, () => cluster.fork());
    for (const worker of [first, ...others]) void keep(worker);
  }

  return {
    /** Settles when one worker listens. Rejects with CONFIG if it cannot; the worker has printed why. */
    started: start(),
    /** Ends all workers as SIGTERM does, and kills those that do not end in time. */
    async stop(): Promise<void> {
      stopping = true;
      const running = Object.values(cluster.workers ?? {}).filter((worker) => worker !== undefined);
      const ended = running.map((worker) => once(worker, "exit"));
      for (const worker of running) worker.process.kill("SIGTERM");
      const kill = () => {
        for (const worker of running) worker.process.kill("SIGKILL");
      };
      const timer = setTimeout(kill, (shutdownSeconds + endingSeconds) * 1000);
      await Promise.all(ended);
      clearTimeout(timer);
    },
  };
}
