import cluster, { type Worker } from "node:cluster";
import { once } from "node:events";
import { createServer } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import { type Logger, pino } from "pino";
import { AggregatorRegistry, collectDefaultMetrics, Registry } from "prom-client";
import { type Config, configError, readConfig } from "../proxy/config.ts";
import { variablesHelp } from "../proxy/docs/settings.ts";
import { listen, startService } from "../proxy/start.ts";
import { isFault } from "../schemas/errors.ts";

if (process.argv.some((argument) => argument === "--help" || argument === "-h")) {
  process.stdout.write(
    `Usage: npm run proxy\n\nThe edge proxy, configured by environment only:\n${variablesHelp()}\n`,
  );
  process.exit(0);
}

// `npm run proxy`. Only this file of the proxy may read the environment and set signal handlers.
try {
  const config = readConfig(process.env);
  const log = pino({ level: config.logLevel });
  if (config.webConcurrency > 1 && cluster.isPrimary) await runWorkers(config, log);
  else await run(config, log);
} catch (error) {
  if (!isFault(error, "CONFIG")) throw error;
  process.stderr.write(`${error.message}\n`);
  process.exit(1);
}

/** Serves in this process. A worker leaves it to the main process to serve the metrics. */
async function run(config: Config, log: Logger): Promise<void> {
  // npm runs scripts in the package's folder, and puts the user's folder into INIT_CWD.
  const directory = process.env.INIT_CWD ?? process.cwd();
  const service = await startService(config, { directory, environment: process.env, log });
  collectDefaultMetrics({ register: service.metrics });
  if (cluster.isWorker) {
    AggregatorRegistry.setRegistries(service.metrics);
    // The constructor makes this worker answer the main process's requests for metrics.
    new AggregatorRegistry();
  } else await serveMetrics(config.metricsPort, () => service.metrics.metrics());
  onSignal(async (signal) => {
    log.info({ signal }, "draining");
    await service.stop();
    process.exit(0);
  });
  // The last step, because a supervisor may send a signal as soon as it reads this line.
  log.info({ url: service.url }, "listening");
}

async function runWorkers(config: Config, log: Logger): Promise<void> {
  const metrics = new AggregatorRegistry();
  // Before the first fork, so that a signal that comes right after a fork ends the workers too.
  onSignal(async (signal) => {
    log.info({ signal }, "draining");
    await workers.stop();
    process.exit(0);
  });
  const workers = supervise(config, log);
  await workers.started;
  await serveMetrics(config.metricsPort, () => metrics.clusterMetrics());
}

/**
 * Calls `stop` on the first signal only: on Ctrl-C a worker gets one from the terminal and one from the main process.
 */
function onSignal(stop: (signal: string) => Promise<void>): void {
  let stopping = false;
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    process.on(signal, () => {
      if (!stopping) void stop(signal);
      stopping = true;
    });
  }
}

/**
 * Serves the text of `render` as `GET /metrics` on a loopback port until the process ends. Does nothing without a port.
 */
async function serveMetrics(port: number | undefined, render: () => Promise<string>): Promise<void> {
  if (port === undefined) return;
  const server = createServer(async ({ url, method }, response) => {
    if (url !== "/metrics" || method !== "GET") return void response.writeHead(404).end();
    try {
      const text = await render();
      response.writeHead(200, { "Content-Type": Registry.PROMETHEUS_CONTENT_TYPE }).end(text);
    } catch {
      response.writeHead(500).end();
    }
  });
  server.unref();
  await listen(server, { host: "127.0.0.1", port }, "METRICS_PORT");
}

/** Runs copies of this process as workers that share the port, and replaces those that die. */
function supervise(
  { webConcurrency: count, shutdownSeconds }: Pick<Config, "webConcurrency" | "shutdownSeconds">,
  log: Logger,
) {
  // A worker that dies at once, again and again, must not keep the machine busy.
  const restartMilliseconds = 1000;
  // How long a worker may take to end after the deadline for its current requests.
  const endingSeconds = 3;
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
