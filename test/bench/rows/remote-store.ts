import { mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { openStorage } from "../../../snapshots/store/open-storage.ts";
import { startLink } from "../../helpers/http/link.ts";
import { createBucket, s3Environment } from "../../helpers/servers/ceph.ts";
import { endProcess } from "../../helpers/servers/programs.ts";
import { openData, publish } from "../data.ts";
import { randomFilters } from "../filters.ts";
import { type Bench, median } from "../run.ts";
import { ask, issueBenchKey, nodeArguments, runProgram, startProxy, type Target } from "../servers.ts";

/** What each request to the store waits before it goes on to the server. */
const latencyMilliseconds = 60;
const archive = "/api/v1/markets/historical";

/** Publishes into a new bucket, and stands before it like a wide network. Undefined without an S3 server. */
async function farAway({ ends, say }: Bench, sources: string, scratch: string) {
  const real = s3Environment();
  if (!real) return say("left out: test/servers/ceph-start.sh starts an S3 server");
  const store = `${await createBucket(real)}/store`;
  await publish(ends, sources, store, { env: { ...process.env, ...real } });
  const link = await startLink(Number(new URL(real.AWS_ENDPOINT_URL_S3).port));
  ends.defer(() => link.stop());
  const { AWS_ACCESS_KEY_ID = "", AWS_SECRET_ACCESS_KEY = "" } = process.env;
  let firstAt: number | undefined;
  link.before = async () => {
    firstAt ??= performance.now();
    await pause(latencyMilliseconds);
    return undefined;
  };
  return {
    store,
    key: await issueBenchKey(await openStorage(store, scratch, real)),
    env: {
      AWS_ACCESS_KEY_ID,
      AWS_SECRET_ACCESS_KEY,
      AWS_REGION: real.AWS_REGION!,
      AWS_ENDPOINT_URL_S3: link.url,
    },
    /** What some work gives, its seconds from the first request to its end, and its requests and megabytes. */
    async watch<T>(work: () => Promise<T>) {
      firstAt = undefined;
      link.passed.length = 0;
      const result = await work();
      const milliseconds = performance.now() - (firstAt ?? Number.NaN);
      const megabytes = link.passed.reduce((sum, { bytes }) => sum + bytes, 0) / 1e6;
      return { result, milliseconds, requests: link.passed.length, megabytes };
    },
  };
}

/** A store in S3 that is far away: a proxy with an empty cache, and one after it with what that left. */
export async function farStore(bench: Bench): Promise<void> {
  const { data, effort, ends } = bench;
  const remote = await farAway(bench, await data.sources(), data.scratch);
  if (!remote) return;
  const cache = join(data.scratch, "cache");
  const start = async () => {
    const env = { ...remote.env, CACHE_DIR: cache };
    const started = await remote.watch(() => startProxy(ends, { ...data, ...remote, env }));
    // The first request to a process makes connections and compiles: one for the newest markets.
    await ask(started.result, archive);
    return started;
  };
  // A full page of markets that lie in as many stored pages as can be.
  const scattered = async (ours: Target) => {
    const most = 640 + Math.ceil((700 * 1.5 * 500) / data.markets);
    const { body, milliseconds } = await ask(
      ours,
      `${archive}?pageSize=500&min_composite=640&max_composite=${most}`,
    );
    if (JSON.parse(body.toString()).count < 500) throw new Error(`not 500 markets up to ${most}`);
    return milliseconds;
  };
  const runs: Record<
    "ready" | "requests" | "megabytes" | "scattered" | "later" | "filter" | "again",
    number
  >[] = [];
  for (let run = 0; run < effort.runs; run += 1) {
    await rm(cache, { recursive: true, force: true });
    const { result: cold, milliseconds: ready, ...of } = await start();
    const page = await remote.watch(() => scattered(cold));
    const times: number[] = [];
    for (const filter of await randomFilters(cold, 20))
      times.push((await ask(cold, `${archive}?${filter}`)).milliseconds);
    // Until nothing is added to the cache any more.
    for (let [before, now] = [-1, 0]; before !== now; await pause(500))
      [before, now] = [now, (await readdir(cache, { recursive: true })).length];
    await endProcess(cold.child, "SIGTERM");
    const { result: warm } = await start();
    const again = await scattered(warm);
    await endProcess(warm.child, "SIGTERM");
    runs.push({ ...of, ready, scattered: page.result, later: page.requests, filter: median(times), again });
  }
  const all = (of: keyof (typeof runs)[number]) => runs.map((run) => run[of]);
  const line = (work: string, of: keyof (typeof runs)[number], limit: number) => {
    const told = `a store at ${latencyMilliseconds} ms a request: ${work}`;
    return bench.found({ work: told, unit: "ms", ours: all(of), goal: `<= ${limit}` });
  };
  const [requests, megabytes, later] = [
    median(all("requests")),
    median(all("megabytes")),
    median(all("later")),
  ];
  await line(
    `a proxy without anything is ready, by ${requests} requests, ${megabytes.toFixed(1)} MB`,
    "ready",
    2000,
  );
  await line("first page of a new filter, p50", "filter", 250);
  await line(`page of 500 scattered markets, by ${later} requests`, "scattered", 600);
  await line("the same after a restart, from the cache on disk", "again", 50);
}

/** A publish with nothing new, with a key and a cache. Larger archives take long to list. */
export async function farPublish(bench: Bench): Promise<void> {
  const { effort, ends, found, say } = bench;
  const data = await openData(ends, { markets: 30_000, say });
  const sources = await data.sources();
  const remote = await farAway(bench, sources, data.scratch);
  if (!remote) return;
  const [CACHE_DIR, SIGNING_KEY] = [join(data.scratch, "cache"), join(data.scratch, "signing-key")];
  await mkdir(CACHE_DIR);
  await runProgram(ends, [...nodeArguments("scripts/snapshot.ts"), "signing-key", "--out", SIGNING_KEY]);
  const env = { ...process.env, ...remote.env, SIGNING_KEY, CACHE_DIR };
  const again = async (...more: string[]) => {
    const start = performance.now();
    const { requests } = await remote.watch(() => publish(ends, sources, remote.store, { more, env }));
    return { requests, seconds: (performance.now() - start) / 1000 };
  };
  // The first run signs what nobody has signed, and the second reads all that it needs.
  const runs = [await again("--sign-over", "1"), await again()];
  for (let run = 0; run < effort.runs; run += 1) runs.push(await again());
  const measured = runs.slice(2);
  const work = `signed publish of ${data.markets} markets with nothing new, a cache on disk and ${latencyMilliseconds} ms a request`;
  await found({
    work: `${work}: requests`,
    unit: "",
    ours: measured.map(({ requests }) => requests),
    goal: "<= 12",
  });
  await found({
    work: `${work}: time`,
    unit: "s",
    ours: measured.map(({ seconds }) => seconds),
    goal: "<= 1.5",
  });
}
