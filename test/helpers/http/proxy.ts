import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Writable } from "node:stream";
import { pino } from "pino";
import type { Registry } from "prom-client";
import { type Config, defaultLimits, type Limits, readConfig } from "../../../proxy/config.ts";
import { startService } from "../../../proxy/start.ts";
import { issueKey, type KeyRequest } from "../../../snapshots/keys/keys.ts";
import type { S3Environment } from "../../../snapshots/store/backends/s3.ts";
import { openStorage } from "../../../snapshots/store/open-storage.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import { publishArchive } from "../publish/records.ts";
import { memoryStorage } from "../store/storages.ts";
import { type Answer, bearer, type Call, call, raw, until, whileWaiting } from "./proxy-client.ts";

/** A proxy on a free port over its own store, with a clock that stands still. */
export interface TestProxy {
  storage: Storage;
  /** Its store is `store` unless it was told another, its quota file `quota.sqlite` in there. */
  directory: string;
  port: number;
  /** Lines logged so far. */
  logged: string[];
  clock: { now: number };
  metrics: Registry;
  /** The sum of a metric's samples. */
  measured(metric: string): Promise<number>;
  get(path: string, how?: Call): Promise<Answer>;
  /** What a key's owner asks with. */
  as(key: string): Ask;
  raw(bytes: string): Promise<string>;
  /** Issues an Aegis key of the owner acme, or another, and waits until the proxy knows it. */
  issue(request?: Partial<KeyRequest>): Promise<string>;
  /** Waits until the proxy accepts a key that was issued elsewhere. */
  accepts(key: string): Promise<void>;
  /** Waits until the proxy refuses a key. */
  refuses(key: string): Promise<void>;
  /** Units that a key's owner has left today. */
  left(key: string): Promise<number>;
  /** Waits until a text is logged, and returns the first line that holds it. */
  logs(text: string | RegExp): Promise<string>;
  /** Another proxy over the same store and quota file. */
  another(changes?: TestProxyOptions): Promise<TestProxy>;
  /** Stops the proxy; the first one's also removes the folder. */
  stop(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** Sends a request with a key. */
export type Ask = (
  path: string,
  headers?: Record<string, string>,
  how?: Omit<Call, "headers">,
) => Promise<Answer>;

/**
 * Options of a test proxy. The defaults are small, which keeps tests quick. Without `pollSeconds` it looks at its store
 * while a test waits `until` something: polls of proxies of which nobody waits for anything cost seconds.
 */
export interface TestProxyOptions extends Partial<Config> {
  /** Start without a snapshot. */
  empty?: boolean;
  limits?: Partial<Limits>;
  /** Markets of the archive. */
  markets?: number;
  /** For a store on S3. */
  environment?: S3Environment;
}

/**
 * Limits that a machine which stands still for a minute does not reach. A test whose subject is one of them sets that
 * one.
 */
export const patient: Limits = {
  ...defaultLimits,
  headSeconds: 3600,
  requestSeconds: 3600,
  stalledSeconds: 3600,
  answerSeconds: 3600,
  sendSeconds: 3600,
  quotaSeconds: 3600,
  quotaOpenSeconds: 3600,
  originSeconds: 3600,
  roundSeconds: 3600,
  store: { connectSeconds: 3600, attemptSeconds: 3600, operationSeconds: 3600, attempts: 3 },
};

const config: Config = {
  ...readConfig({ SNAPSHOT_STORE: "store" }),
  port: 0,
  quotaStore: "quota.sqlite",
  // Less than the minute that tests let pass, after which the proxy must look again.
  pollSeconds: 30,
  cacheDiskBytes: 2 ** 20,
  cacheBytes: 8 * 1024 * 1024,
  logLevel: "trace",
  keepAliveSeconds: 3600,
  shutdownSeconds: 2,
};

/** The objects of archives of so many markets: publishing one takes as long as the rest of a start. */
const published = new Map<number, Promise<Map<string, Buffer>>>();

async function publishedArchive(markets: number): Promise<Map<string, Buffer>> {
  const objects = new Map<string, Buffer>();
  await publishArchive(memoryStorage(objects), { markets });
  return objects;
}

/** Starts a proxy on a small archive in a temporary folder. */
export async function startTestProxy(options: TestProxyOptions = {}): Promise<TestProxy> {
  const directory = await mkdtemp(join(tmpdir(), "prs-proxy-"));
  const storage = await openStorage(
    options.snapshotStore ?? config.snapshotStore,
    directory,
    options.environment,
  );
  const { empty, markets = 40 } = options;
  if (!empty) {
    if (!published.has(markets)) published.set(markets, publishedArchive(markets));
    for (const [key, bytes] of (await published.get(markets))!) await storage.put(key, bytes);
  }
  const proxy = await start(options, directory, storage);
  const stop = async () => {
    await proxy.stop();
    await rm(directory, { recursive: true, force: true });
  };
  return { ...proxy, stop, [Symbol.asyncDispose]: stop };
}

async function start(options: TestProxyOptions, directory: string, storage: Storage): Promise<TestProxy> {
  const { empty: _, markets: __, limits, environment = {}, ...changes } = options;
  const logged: string[] = [];
  const log = pino({ level: changes.logLevel ?? config.logLevel }, lines(logged));
  const clock = { now: Date.parse("2026-03-01T12:00:00.000Z") };
  const dependencies = {
    directory,
    environment,
    log,
    now: () => clock.now,
    limits: { ...patient, ...limits },
  };
  const service = await startService({ ...config, ...changes }, dependencies);
  const port = Number(new URL(service.url).port);
  let polling = false;
  const poll = async () => {
    if (polling) return;
    polling = true;
    await service.poll();
    polling = false;
  };
  if (changes.pollSeconds === undefined) whileWaiting.add(poll);
  let stopped: Promise<void> | undefined;
  const stop = () => {
    whileWaiting.delete(poll);
    stopped ??= service.stop();
    return stopped;
  };
  // Credentials are checked, but no unit is taken.
  const usage = (key: string) => call(port, "/api/v1/usage", { headers: bearer(key) });
  const accepts = (key: string) =>
    until("the proxy to accept the key", async () => (await usage(key)).status === 200);
  return {
    storage,
    directory,
    port,
    logged,
    clock,
    metrics: service.metrics,
    async measured(metric) {
      const { values } = await service.metrics.getSingleMetric(metric)!.get();
      return values.reduce((sum, { value }) => sum + value, 0);
    },
    get: (path, how) => call(port, path, how),
    as: (key) => (path, headers, how) =>
      call(port, path, { ...how, headers: { ...bearer(key), ...headers } }),
    raw: (bytes) => raw(port, bytes),
    async issue(request = {}) {
      const { key } = await issueKey(
        storage,
        { plan: "aegis", owner: "acme", ...request },
        new Date(clock.now),
      );
      await accepts(key);
      return key;
    },
    accepts,
    refuses: (key) => until("the proxy to refuse the key", async () => (await usage(key)).status === 401),
    left: async (key) => (await usage(key)).json().remaining,
    async logs(text) {
      const found = () =>
        logged.find((line) => (typeof text === "string" ? line.includes(text) : text.test(line)));
      await until(`a log line with ${text}`, () => found() !== undefined);
      return found()!;
    },
    another: (differences = {}) => start({ ...options, ...differences }, directory, storage),
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

function lines(into: string[]): Writable {
  return new Writable({
    write(chunk, _encoding, done) {
      into.push(String(chunk));
      done();
    },
  });
}
