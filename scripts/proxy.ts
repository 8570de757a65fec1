import cluster from "node:cluster";
import { createServer } from "node:http";
import { type Logger, pino } from "pino";
import { AggregatorRegistry, collectDefaultMetrics, Registry } from "prom-client";
import { type Config, readConfig } from "../proxy/config.ts";
import { listen } from "../proxy/connection/listen.ts";
import { variablesHelp } from "../proxy/docs/settings.ts";
import { startService } from "../proxy/start.ts";
import { isFault } from "../schemas/errors.ts";
import { supervise } from "./workers.ts";

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
  if (cluster.isWorker) answerAggregator(service.metrics);
  else await serveMetrics(config.metricsPort, () => service.metrics.metrics());
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

function answerAggregator(metrics: Awaited<ReturnType<typeof startService>>["metrics"]): void {
  AggregatorRegistry.setRegistries(metrics);
  // The constructor makes this worker answer the main process's requests for metrics.
  new AggregatorRegistry();
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
