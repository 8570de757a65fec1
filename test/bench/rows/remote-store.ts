import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { directoryStorage } from "../../../snapshots/store/backends/directory.ts";
import { inParallel } from "../../../snapshots/store/in-parallel.ts";
import { openStorage } from "../../../snapshots/store/open-storage.ts";
import { startLink } from "../../helpers/http/link.ts";
import { createBucket, s3Environment } from "../../helpers/servers/ceph.ts";
import { ask, jsonOf } from "../load/client.ts";
import { randomFilters, someMarkets } from "../load/filters.ts";
import { type Data, openData, publishCommand } from "../run/data.ts";
import { atMost, line, type Measurement, median } from "../run/measurement.ts";
import { nodeCommand, runProgram } from "../run/processes.ts";
import { issueBenchKey, type Ours, startProxyOn } from "../run/proxy.ts";
import { type Bench, timed } from "../run/run.ts";

/** What each request to the store waits before it goes on to the server. */
const latencyMilliseconds = 60;
const filters = 20;
/** Publishing where nothing is new is measured with an archive of this size: larger ones take long to list. */
const publishedMarkets = 30_000;
const rowsOfPage = 500;
/** Between two looks at a folder that is being filled. */
const settleMilliseconds = 500;

type S3Server = NonNullable<ReturnType<typeof s3Environment>>;

type RemoteStore = Awaited<ReturnType<typeof copyFarAway>>;
type Served = Awaited<ReturnType<typeof serve>>;
/** A publish run with nothing new, from the start of its process. */
type Published = Awaited<ReturnType<Awaited<ReturnType<typeof publisher>>>>;

/** Rows 18 to 21: a store in S3 that is far away, served and published to with a cache on the local disk. */
export async function measureRemoteStore(bench: Bench): Promise<Measurement[]> {
  const real = s3Environment();
  if (!real) {
    bench.say("rows 18 to 21 are left out: test/servers/ceph-start.sh starts an S3 server");
    return [];
  }
  const { data, ends, options, wants } = bench;
  const served: Served[] = [];
  const published: Published[] = [];
  const remote = wants(18, 19, 20) && (await copyFarAway(bench, data, real));
  const ofPublish = { ...options, markets: publishedMarkets };
  const publish = wants(21) && (await publisher(bench, await openData(ofPublish, ends, data.say), real));
  const rows = () => [
    ...(served.length > 0 ? servedRows(served) : []),
    ...(published.length > 0 ? publishedRows(published) : []),
  ];
  for (let run = 0; run < options.effort.runs; run += 1) {
    bench.say(`a store far away, run ${run + 1} of ${options.effort.runs}`);
    if (remote) served.push(await serve(bench, remote));
    if (publish) published.push(await publish());
    await bench.found(rows());
  }
  return rows();
}

/** Copies the store of the sample into a new bucket, behind a link that is as slow as a wide network. */
async function copyFarAway({ ends, say }: Bench, data: Data, real: S3Server) {
  const location = `${await createBucket(real)}/store`;
  const [from, to] = [directoryStorage(await data.store()), await openStorage(location, data.scratch, real)];
  const keys: string[] = [];
  for await (const { key } of from.list("")) keys.push(key);
  say(`copying ${keys.length} objects to ${real.AWS_ENDPOINT_URL_S3}`);
  await inParallel(keys, async (key) => void (await to.put(key, (await from.get(key))!)));
  const link = await startLink(Number(new URL(real.AWS_ENDPOINT_URL_S3).port));
  ends.defer(() => link.stop());
  const ofAws = Object.fromEntries(Object.entries(process.env).filter(([name]) => name.startsWith("AWS_")));
  let firstAt: number | undefined;
  link.before = async () => {
    firstAt ??= performance.now();
    await pause(latencyMilliseconds);
    return undefined;
  };
  return {
    location,
    /** A key of the proxy. */
    key: await issueBenchKey(to),
    environment: { ...ofAws, ...real, AWS_ENDPOINT_URL_S3: link.url },
    /** Begins to count and to time. Returns what tells the requests since then, and the first one's time. */
    watch() {
      firstAt = undefined;
      link.passed.length = 0;
      return () => ({
        requests: link.passed.length,
        megabytes: link.passed.reduce((sum, { bytes }) => sum + bytes, 0) / 1e6,
        firstAt: firstAt ?? Number.NaN,
      });
    },
  };
}

/** What a proxy with an empty cache took, in milliseconds, and one after it with what that left. */
async function serve(bench: Bench, remote: RemoteStore) {
  const cache = join(bench.data.scratch, "cache");
  await rm(cache, { recursive: true, force: true });
  const environment = { ...remote.environment, CACHE_DIR: cache };
  const start = async () => {
    const since = remote.watch();
    const started = await startProxyOn(bench, remote.location, remote.key, environment);
    const { firstAt, ...took } = since();
    return { ...started, ready: performance.now() - firstAt, ...took };
  };
  const cold = await start();
  const { ready, requests, megabytes } = cold;
  await warmUp(cold.ours);
  const since = remote.watch();
  const scattered = await scatteredPage(bench, cold.ours);
  const requestsOfScattered = since().requests;
  const filter = median(await firstPages(cold.ours));
  await settled(cache);
  await end(cold.child);
  const warm = await start();
  await warmUp(warm.ours);
  const again = await scatteredPage(bench, warm.ours);
  await end(warm.child);
  return { ready, requests, megabytes, filter, scattered, requestsOfScattered, again };
}

/** The first request to a process makes connections and compiles: one for the newest markets. */
const warmUp = (ours: Ours) => ask(ours, "/api/v1/markets/historical");

async function firstPages(ours: Ours): Promise<number[]> {
  const queries = randomFilters(await someMarkets(ours), filters);
  const milliseconds: number[] = [];
  for (const query of queries)
    milliseconds.push((await ask(ours, `/api/v1/markets/historical?${query}`)).milliseconds);
  return milliseconds;
}

/** A full page of markets that lie in as many stored pages as can be. */
async function scatteredPage({ options }: Bench, ours: Ours): Promise<number> {
  const width = Math.ceil((700 * 1.5 * rowsOfPage) / options.markets);
  const range = `min_composite=640&max_composite=${640 + width}`;
  const answer = await ask(ours, `/api/v1/markets/historical?pageSize=${rowsOfPage}&${range}`);
  const { length } = jsonOf(answer).markets;
  if (length !== rowsOfPage) throw new Error(`${range} finds ${length} markets`);
  return answer.milliseconds;
}

/** Waits until nothing is added to a folder any more. */
async function settled(folder: string): Promise<void> {
  for (let before = -1; ; ) {
    const { length } = await readdir(folder, { recursive: true });
    if (length === before) return;
    before = length;
    await pause(settleMilliseconds);
  }
}

async function end(child: ChildProcess): Promise<void> {
  const ended = once(child, "exit");
  child.kill();
  await ended;
}

function servedRows(served: readonly Served[]): Measurement[] {
  const all = (name: keyof Served) => served.map((run) => run[name]);
  const ready = `a store in S3 at ${latencyMilliseconds} ms a request: a proxy without anything is ready, from its first request on`;
  const starting = `${median(all("requests"))} requests, ${median(all("megabytes")).toFixed(1)} MB`;
  const note = `${median(all("requestsOfScattered"))} requests`;
  const scattered = `the same: page of ${rowsOfPage} scattered markets`;
  return [
    line(18, ready, "ms", all("ready"), { ...atMost(2000), note: starting }),
    line(19, "the same: first page of a new filter, p50", "ms", all("filter"), atMost(250)),
    line(20, scattered, "ms", all("scattered"), { ...atMost(600), note }),
    line(20, "the same after a restart, from the cache on disk", "ms", all("again"), atMost(50)),
  ];
}

/** Publishes with a key and a cache, once so that both are there; returns what does so again. */
async function publisher(bench: Bench, data: Data, real: S3Server) {
  const { ends } = bench;
  const remote = await copyFarAway(bench, data, real);
  const [cache, key] = [join(data.scratch, "publishers-cache"), join(data.scratch, "signing-key")];
  await mkdir(cache);
  await runProgram(ends, [...nodeCommand("scripts/snapshot.ts"), "signing-key", "--out", key]);
  const sources = await data.sources();
  const env = { ...process.env, ...remote.environment, SIGNING_KEY: key, CACHE_DIR: cache };
  const publish = async (...more: string[]) => {
    const since = remote.watch();
    const command = [...publishCommand(sources, remote.location), ...more];
    const { seconds } = await timed(() => runProgram(ends, command, { env }));
    return { seconds, requests: since().requests };
  };
  // The first run signs what nobody has signed, and the second reads all that it needs.
  await publish("--sign-over", "1");
  await publish();
  return () => publish();
}

function publishedRows(published: readonly Published[]): Measurement[] {
  const markets = publishedMarkets.toLocaleString("en-US");
  const work = `the same with ${markets} markets: signed publish with nothing new and a cache on disk`;
  const [requests, seconds] = [published.map((run) => run.requests), published.map((run) => run.seconds)];
  return [
    line(21, `${work}: requests`, "", requests, atMost(12)),
    line(21, `${work}: time`, "s", seconds, atMost(1.5)),
  ];
}
