import cluster, { type Worker } from "node:cluster";
import { once } from "node:events";
import { setTimeout as delay } from "node:timers/promises";
import type { Logger } from "pino";
import { type Config, ConfigError } from "./config.ts";

// A worker that dies at once, again and again, must not keep the machine busy.
const restartMilliseconds = 1000;
// What a worker may take to end when its time for requests under way is up.
const endingSeconds = 3;

/** Workers that share one port. */
export interface Workers {
  /** Settles when one listens; ConfigError when it cannot: it has said why. */
  started: Promise<void>;
  /** Ends all of them, each as it ends on SIGTERM, and those that do not end in time all the same. */
  stop(): Promise<void>;
}

/** Runs `count` copies of this process as workers, and replaces those that die. */
export function supervise(
  { webConcurrency: count, shutdownSeconds }: Pick<Config, "webConcurrency" | "shutdownSeconds">,
  log: Logger,
): Workers {
  let stopping = false;

  async function keep(worker: Worker): Promise<void> {
    const [code, signal] = await once(worker, "exit");
    if (stopping) return;
    log.error({ code, signal, worker: worker.id }, "a worker died; another takes its place");
    await delay(restartMilliseconds);
    if (!stopping) void keep(cluster.fork());
  }

  async function start(): Promise<void> {
    // One first: what is wrong with the configuration is then said once.
    const first = cluster.fork();
    const listening = await Promise.race([
      once(first, "listening").then(() => true),
      once(first, "exit").then(() => false),
    ]);
    if (!listening) throw new ConfigError("No worker could be started.");
    const others = Array.from({ length: count - 1 }, () => cluster.fork());
    for (const worker of [first, ...others]) void keep(worker);
  }

  return {
    started: start(),
    async stop() {
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
