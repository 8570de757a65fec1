import { once } from "node:events";
import type { AddressInfo, Server } from "node:net";
import { resolve } from "node:path";
import type { Logger } from "pino";
import { keyRing } from "../snapshots/keys/keys.ts";
import { Catalog } from "../snapshots/read/catalog/catalog.ts";
import { openExports } from "../snapshots/read/catalog/exports.ts";
import { openPublicLog } from "../snapshots/read/catalog/public-log.ts";
import { createPoller } from "../snapshots/read/polling.ts";
import type { S3Environment } from "../snapshots/store/backends/s3.ts";
import { hasCode, messageOf } from "../snapshots/store/errors.ts";
import { noStoreAt, openStorage, storeExists } from "../snapshots/store/open-storage.ts";
import type { Storage } from "../snapshots/store/storage.ts";
import { openLogReader } from "../snapshots/trust/log/log-reader.ts";
import { type Config, configError, defaultLimits, type Limits } from "./config.ts";
import { docsFiles } from "./docs/files.ts";
import { liveFeed } from "./feed/live-feed.ts";
import { cdnOrigin, publicObjects, storeOrigin } from "./origin/origin.ts";
import { threadedQuota } from "./quota/counters.ts";
import { createQuota } from "./quota/quota.ts";
import { isUrl, redisQuota } from "./quota/redis.ts";
import { createProxyServer } from "./server.ts";
import { servedSite } from "./site/files.ts";
import { clientFiles } from "./site/static-files.ts";
import { createMetrics } from "./telemetry/telemetry.ts";

// Scores are few and small compared with the pages of the archive.
const publicShare = 1 / 8;

interface Dependencies {
  /** Relative paths resolve against this directory. */
  directory: string;
  /** Region and endpoint for S3. The SDK finds credentials itself. */
  environment?: S3Environment;
  log: Logger;
  /** Epoch milliseconds. */
  now?: () => number;
  limits?: Partial<Limits>;
}

/**
 * Starts the proxy: opens store and quota, loads snapshot and keys, listens, and polls both. It also starts without a
 * snapshot.
 */
export async function startService(
  config: Config,
  { directory, environment, log, now = Date.now, limits: changes }: Dependencies,
) {
  const limits = { ...defaultLimits, ...changes };
  const metrics = createMetrics();
  const warn = (line: string) => log.warn(line);
  const cache = { ...config, warn };
  const storage = await openStorage(config.snapshotStore, directory, environment, limits.store, cache);
  const at = (file: string | undefined) => file && resolve(directory, file);
  const { host, trustPolicy, trustedKeys, checkpointFile } = config;
  const reader = await openLogReader(
    storage,
    { TRUST_POLICY: at(trustPolicy), TRUSTED_KEYS: at(trustedKeys), CHECKPOINT_FILE: at(checkpointFile) },
    {
      warn,
      refused(error) {
        metrics.untrusted.inc();
        log.error({ err: error }, "what the trusted keys or the policy do not vouch for is not taken up");
      },
    },
  );
  const catalog = new Catalog(storage, {
    cacheBytes: Math.floor(config.cacheBytes * (1 - publicShare)),
    pollSeconds: config.pollSeconds,
    now,
    reader,
  });
  const keys = keyRing(storage, {
    now,
    damaged: (error) => log.error({ err: error }, "a key record is damaged"),
    lost(revocation) {
      metrics.lostRevocations.inc();
      log.error({ revocation }, "a revocation has gone from the store; until a restart its key stays out");
    },
  });
  const quota = createQuota(await openQuota(config, { directory, log }, limits), {
    onFailure: config.quotaOnFailure,
    now,
    failed(error) {
      metrics.quotaFailures.inc();
      log.error({ err: error }, "the quota store failed");
    },
    recovered: () => log.info("the quota store answers again"),
  });
  const deadline = { deadlineSeconds: limits.originSeconds };
  const origin = config.publicOrigin
    ? cdnOrigin(config.publicOrigin, { ...deadline, proxyEnv: environment })
    : storeOrigin(storage, deadline);
  const objects = publicObjects(Math.floor(config.cacheBytes * publicShare));
  const tasks = [
    { name: "snapshot", run: () => catalog.refresh().finally(() => polled("snapshot")) },
    { name: "keys", run: () => keys.reload().finally(() => polled("keys")) },
  ];
  const poller = createPoller(tasks, limits.roundSeconds, now, (task, error) => {
    metrics.polls.inc({ task, outcome: error === undefined ? "success" : "failure" });
    if (error !== undefined) log.error({ err: error, task }, "polling the store failed");
  });
  const files = {
    site: servedSite(config.contact),
    client: clientFiles,
    docs: docsFiles(config),
  };
  const { server, polled, drain } = createProxyServer({
    ...config,
    catalog,
    exports: openExports(storage, catalog, reader),
    publicLog: openPublicLog(storage, catalog.log, reader),
    keys,
    quota,
    objects,
    origin,
    companions: {
      feed: liveFeed,
    },
    pollAge: poller.age,
    metrics,
    files: Object.values(files).flat(),
    limits,
    now,
    log,
  });

  await poller.once();
  // Not awaited, since a store may take long to answer.
  if (!catalog.current()) void warnOfNoStore(storage, log);
  // Reading a long log takes many requests to a remote store. Client requests that need it before then wait or are
  // retried.
  else void catalog.log.readable().catch(() => {});
  const release = async () => {
    origin.close();
    await quota.close();
  };
  await listen(server, config).catch(async (error) => {
    await release();
    throw error;
  });
  poller.start(config.pollSeconds);

  return {
    url: `http://${host.includes(":") ? `[${host}]` : host}:${(server.address() as AddressInfo).port}`,
    metrics: metrics.registry,
    /** Looks at the store now, between two polls. */
    poll: poller.once,
    /** Gives requests in progress at most SHUTDOWN_SECONDS to finish, then releases everything. */
    async stop(): Promise<void> {
      poller.stop();
      await drain(config.shutdownSeconds);
      await release();
    },
  };
}

/** Warns because a mistyped location looks like a store without a publication. */
async function warnOfNoStore(storage: Storage, log: Logger): Promise<void> {
  // A store that cannot be read has already been logged.
  if (!(await storeExists(storage).catch(() => true)))
    log.warn(`${noStoreAt(storage)} (SNAPSHOT_STORE); the proxy keeps looking for it`);
}

/** A file that cannot be used prevents the start, and a Redis server that is away does not. */
export async function openQuota(
  { quotaStore }: Pick<Config, "quotaStore">,
  { directory, log }: Pick<Dependencies, "directory"> & { log: Pick<Logger, "warn"> },
  { quotaSeconds, quotaOpenSeconds }: Pick<Limits, "quotaSeconds" | "quotaOpenSeconds">,
) {
  const failed = (error: Error) => log.warn({ err: error }, "no connection to the quota store");
  try {
    if (isUrl(quotaStore)) return await redisQuota(quotaStore, quotaSeconds, failed);
    return await threadedQuota(resolve(directory, quotaStore), quotaSeconds, quotaOpenSeconds);
  } catch (error) {
    throw configError(`QUOTA_STORE cannot be used: ${messageOf(error)}`);
  }
}

/** `variable` names the setting of the port, for messages. */
export async function listen(
  server: Server,
  { host, port }: { host: string; port: number },
  variable = "PORT",
): Promise<void> {
  try {
    server.listen(port, host);
    await once(server, "listening");
  } catch (error) {
    const setting = `${variable} ${port}`;
    if (hasCode(error, "EADDRINUSE"))
      throw configError(`${setting} is taken by another process; set ${variable} to a free one.`);
    if (hasCode(error, "EACCES"))
      throw configError(`${setting} may not be used by this user; set ${variable} to one above 1023.`);
    throw configError(`HOST ${host} cannot be listened on: ${messageOf(error)}`);
  }
}
