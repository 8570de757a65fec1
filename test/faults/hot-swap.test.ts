import { afterAll, beforeAll, expect, test } from "vitest";
import type { Commit } from "../../schemas/snapshot.ts";
import { appendCommit, newestCommit } from "../../snapshots/store/log/commits.ts";
import { type Content, content, Reader } from "../helpers/http/edge-snapshots.ts";
import { startTestProxy, type TestProxy } from "../helpers/http/proxy.ts";
import { until } from "../helpers/http/proxy-client.ts";
import { publishRecords } from "../helpers/publish/records.ts";
import { collectGarbage } from "../helpers/servers/memory.ts";

const [switches, clients] = [50, 3];
// Snapshots of which the proxy holds all that it may.
const published = 30;

let proxy: TestProxy;
let key: string;
const commits: Commit[] = [];
const contents = new Map<string, Content>();
beforeAll(async () => {
  proxy = await startTestProxy({ empty: true, logLevel: "silent", pollSeconds: 0.01 });
  key = await proxy.issue({ quota: 10_000_000 });
});
afterAll(() => proxy.stop());

async function reading(metric: string): Promise<number> {
  const text = await proxy.metrics.getSingleMetricAsString(metric);
  return Number(text.slice(text.lastIndexOf(" ")));
}
const served = (commit: number) =>
  until(`commit ${commit} to be served`, async () => (await reading("prs_snapshot_commit")) === commit);

/** Bytes of index that the proxy has in memory. */
async function indexBytes(): Promise<number> {
  await collectGarbage();
  return reading("prs_index_bytes");
}

/** Publishes snapshots until there are so many; the proxy takes up each. */
async function publishUpTo(count: number): Promise<void> {
  while (commits.length < count) {
    const next = content(commits.length);
    const { commit, snapshotId } = await publishRecords(proxy.storage, next.markets, next.bri);
    contents.set(snapshotId, next);
    commits.push((await newestCommit(proxy.storage))!);
    await served(commit);
  }
}

/** Makes one after the other current again, as publishing would: a commit is all that this takes. */
async function switchAround(): Promise<void> {
  let newest = commits.at(-1)!;
  for (let count = 0; count < switches; count += 1) {
    const { digest: _, ...known } = commits[count % published]!;
    const next = { ...known, commit: newest.commit + 1, previous: newest.digest };
    newest = await appendCommit(proxy.storage, next);
    await served(next.commit);
  }
}

test(`${switches} snapshots one after another, each answer whole and of one of them, memory flat`, {
  timeout: 300_000,
}, async () => {
  await publishUpTo(published);
  const bytes = await indexBytes();
  let done = false;
  const readers = Array.from({ length: clients }, (_, place) => {
    return new Reader({ port: proxy.port, key, contents, coding: place ? "identity" : "gzip" });
  });
  const reading = Promise.all(readers.map((reader) => reader.readUntil(() => done)));
  await Promise.race([switchAround(), reading]).finally(() => {
    done = true;
  });
  await reading;
  for (const { seen } of readers) expect(seen.size).toBeGreaterThan(published / 2);
  expect(await indexBytes()).toBeLessThan(bytes * 1.1);
});
