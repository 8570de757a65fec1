import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, expect } from "vitest";
import type { Commit } from "../../../schemas/store/stored-objects.ts";
import { PreviousSnapshot } from "../../../snapshots/publish/previous-snapshot.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { newestCommit, readCommit } from "../../../snapshots/store/log/commits.ts";
import { seal } from "../../../snapshots/store/objects.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import { type SigningKey, verifierText } from "../../../snapshots/trust/notes/note-keys.ts";
import { signRecord } from "../../../snapshots/trust/notes/signed-note.ts";
import { startTestProxy, type TestProxy, type TestProxyOptions } from "../http/proxy.ts";
import { type Answer, bearer, until } from "../http/proxy-client.ts";
import { marketsOf, publishRecords, slugs } from "../publish/records.ts";
import { linkedStore } from "../store/linked-store.ts";
import { testKey } from "../store/signing.ts";
import { testFolder } from "../store/test-folder.ts";

export const ours = testKey();
/** Keys that a thief can make: one of the same name, and one of another. */
export const thiefs = [testKey(ours.name, "thief"), testKey("thief.example")];

export const records = (count: number) => marketsOf(0, count);
export const bris = [600, 650, 700];

/** When the commits of the store were published, a day each. */
export const days = ["2026-02-26", "2026-02-27", "2026-02-28"];

/** A folder for the tests of a file, stores of three signed commits in it, and proxies that trust their key. */
export function robbedStores() {
  const folder = testFolder();
  const trustedKeys = join(folder, "trusted.keys");
  beforeAll(() => writeFile(trustedKeys, `# publishers\n\n${verifierText(ours)}\n`));
  return {
    folder,
    trustedKeys,
    signedStore: () =>
      linkedStore(folder, "signed", async (storage) => {
        for (const [index, bri] of bris.entries())
          await publishRecords(storage, records(30 + 5 * index), bri, {
            signing: { key: ours },
            now: () => new Date(days[index]!),
          });
      }),
    proxyOn: ({ location }: Storage, options: TestProxyOptions = {}) =>
      startTestProxy({ empty: true, snapshotStore: location, trustedKeys, ...options }),
  };
}

/** What the store's owner publishes next. */
export const publishGood = (storage: Storage, bri = 720) =>
  publishRecords(storage, records(45), bri, { signing: { key: ours } });

export const addresses = [
  "/api/v1/scores",
  ...slugs.map((slug) => `/api/v1/scores/${slug}`),
  `/api/v1/scores/${slugs[0]}/history`,
  `/api/v1/scores/${slugs[0]}/dimensions`,
  "/api/v1/markets/historical?pageSize=500",
  "/api/v1/checkpoint",
  "/api/v1/status",
];

/** What an answer says, except for the time at which it was given. */
export const contentOf = ({ text }: Answer) =>
  text.replace(/"(timestamp|checkedAt)":"[^"]*"|"ageSeconds":\d+/g, "");

export async function answersOf(proxy: TestProxy, key: string, paths: Iterable<string> = addresses) {
  const answers = [...paths].map(
    async (path) => [path, await proxy.get(path, { headers: bearer(key) })] as const,
  );
  return new Map<string, Answer>(await Promise.all(answers));
}

/** Every answer is as it was, or, where the thief destroyed what it needs, an error of the service. */
export async function expectNothingForeign(proxy: TestProxy, key: string, good: ReadonlyMap<string, Answer>) {
  for (const [path, answer] of await answersOf(proxy, key, good.keys())) {
    if (answer.status < 500) expect([path, contentOf(answer)]).toEqual([path, contentOf(good.get(path)!)]);
    expect([path, answer.status]).toEqual([path, expect.toBeOneOf([200, 502, 503])]);
  }
}

export const logOf = (proxy: TestProxy) =>
  proxy.logged.filter((line) => line.includes('"level":50')).join("\n");
export const statusOf = async (proxy: TestProxy) => (await proxy.get("/api/v1/status")).json();
export const commitOf = async (proxy: TestProxy): Promise<number> => (await statusOf(proxy)).commit;
export const metric = async (proxy: TestProxy, name: string) => {
  const found = await proxy.metrics.getSingleMetric(name)!.get();
  return found.values.reduce((sum, { value }) => sum + value, 0);
};

/** Waits until the proxy has looked into the store this many more times. */
export async function polls(proxy: TestProxy, count: number): Promise<void> {
  const before = await metric(proxy, "prs_polls_total");
  await until(`${count} polls`, async () => (await metric(proxy, "prs_polls_total")) >= before + count);
}

export const commitAt = async (storage: Storage, number: number) => (await readCommit(storage, number))!;

/** Puts a commit with this content under its number, sealed as it should be, with this note. */
export function putCommit(
  storage: Storage,
  { digest: _, note: __, ...content }: Commit,
  note?: (commit: Commit) => string,
) {
  const bytes = seal(content, (digest) => (note ? { note: note({ ...content, digest }) } : {}));
  return storage.put(layout.commit(content.entry.commit), bytes);
}

/** A note about a run that ended at a time. */
export const runNote = (key: SigningKey, checkedAt: string, digest: string) =>
  signRecord(key, `checked ${checkedAt}`)(digest).note!;

/** The commit that would follow, with the first snapshot. */
export async function following(storage: Storage): Promise<Commit> {
  const newest = (await newestCommit(storage))!;
  const older = await commitAt(storage, 1);
  const entry = { ...older.entry, commit: newest.entry.commit + 1 };
  return { ...older, entry, previous: newest.digest };
}

/** The keys of all objects that a commit's snapshot consists of, its manifest among them. */
export async function snapshotObjects(storage: Storage, commit: Commit): Promise<Set<string>> {
  const { present } = await PreviousSnapshot.read(storage, commit);
  return new Set([...present.keys(), layout.manifest(commit.manifest.hash)]);
}
