import { cp, mkdir, readdir } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { exitCodes } from "../../scripts/cli.ts";
import { createS3Client, s3Storage } from "../../snapshots/store/backends/s3.ts";
import { layout } from "../../snapshots/store/layout.ts";
import { parseS3Location } from "../../snapshots/store/storage.ts";
import { verify } from "../../snapshots/verify/verify.ts";
import { addMarkets } from "../helpers/archive/odd-markets.ts";
import { scriptProcess } from "../helpers/publish/commands.ts";
import { publishSources, writePlainSources } from "../helpers/publish/sample-sources.ts";
import { createBucket, s3Environment } from "../helpers/servers/ceph.ts";
import { type FaultPlan, type S3Operation, startFaultyS3 } from "../helpers/store/faulty-s3.ts";
import { copyOf, expectAllGood, expectWhole, fill, seenBy } from "../helpers/store/faulty-store.ts";
import { memoryStorage } from "../helpers/store/storages.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

const environment = s3Environment();
const folder = testFolder();

describe.skipIf(!environment)("a publish command over S3", () => {
  const sources = join(folder, "sources");
  const objects = new Map<string, Buffer>();
  let bucket: string;
  let snapshots: { old: string; new: string };
  let stores = 0;

  beforeAll(async () => {
    await writePlainSources(sources, 100);
    const { snapshotId: old } = await publishSources(sources, memoryStorage(objects), folder);
    await addMarkets(sources, 5);
    const after = await publishSources(sources, memoryStorage(new Map(objects)), folder);
    snapshots = { old, new: after.snapshotId };
    bucket = await createBucket(environment!);
  });

  /** A new store that has the old snapshot: its location, and a direct way to it. */
  async function storeWithOld() {
    stores += 1;
    const location = `${bucket}/store-${stores}`;
    const storage = s3Storage(parseS3Location(location)!, createS3Client(environment!));
    await fill(storage, objects);
    return { location, storage };
  }

  /** Runs the command behind a server that fails as planned; `stop` sends the process a signal. */
  async function publishBehind(
    location: string,
    plan: (stop: (signal: NodeJS.Signals) => void) => { plan: FaultPlan; lost?: (told: S3Operation) => void },
  ) {
    const server = await startFaultyS3(environment!);
    const temporary = join(folder, `temporary-${stores}`);
    await mkdir(temporary);
    let stop: (signal: NodeJS.Signals) => void = () => {};
    const { plan: follow, lost } = plan((signal) => stop(signal));
    server.follow(follow);
    if (lost) server.onLost(lost);
    let signal: NodeJS.Signals | null = null;
    const ended = await scriptProcess(
      "snapshot",
      ["publish", "--sources", sources, "--store", location],
      { from: folder, env: { ...server.environment, TMPDIR: temporary } },
      (child) => {
        stop = (sent) => child.kill(sent);
        child.on("exit", (_, by) => {
          signal = by;
        });
      },
    );
    await server.stop();
    return { ...ended, signal: signal as NodeJS.Signals | null, left: await readdir(temporary) };
  }

  // What each single write leaves is tried in crash.test.ts; here the process itself dies, at the places that differ
  // most.
  const kills = [
    ["before", "a page", /\/private\/pages\//, "old"],
    ["before", "the commit", /\/commits\//, "old"],
    ["after", "the commit", /\/commits\//, "new"],
  ] as const;

  test.for(kills)("killed %s it put %s, leaves one whole snapshot", async ([when, , key, leaves]) => {
    const { location, storage } = await storeWithOld();
    const isPlace = ({ method, path }: S3Operation) => method === "PUT" && key.test(`/${path}`);
    const { signal } = await publishBehind(location, (stop) =>
      when === "before"
        ? {
            plan: (operation) => {
              if (!isPlace(operation)) return undefined;
              stop("SIGKILL");
              return "reset";
            },
          }
        : {
            plan: (operation) => (isPlace(operation) ? "lost" : undefined),
            lost: () => stop("SIGKILL"),
          },
    );
    expect(signal).toBe("SIGKILL");
    const left = await copyOf(storage);
    const seen = await expectWhole(left, snapshots.old, snapshots.new);
    const committed = leaves === "new";
    expect(seen).toBe(committed ? snapshots.new : snapshots.old);
    const again = await publishSources(sources, left, folder);
    expect(again).toMatchObject({ commit: 2, outcome: committed ? "unchanged" : "published" });
    await expectAllGood(left, snapshots.new);
  });

  test.for(["SIGTERM", "SIGINT"] as const)(
    "told to stop by %s, ends at once and tidies up",
    async (asked) => {
      const { location, storage } = await storeWithOld();
      // The request hangs for longer than the signal may take: only the signal can have ended the process.
      const { signal, left, stderr } = await publishBehind(location, (stop) => ({
        plan: ({ method, path }) => {
          if (method !== "PUT" || !path.includes(layout.page.prefix)) return undefined;
          stop(asked);
          return "hang";
        },
      }));
      expect(signal).toBe(asked);
      expect(stderr).not.toContain("Error");
      expect(left).toEqual([]);
      await expectAllGood(await copyOf(storage), snapshots.old);
      const again = await copyOf(storage);
      await publishSources(sources, again, folder);
      await expectAllGood(again, snapshots.new);
    },
  );

  test("of three that commit at the same time, one takes the number, and nothing is lost", async () => {
    const { location, storage } = await storeWithOld();
    const rivals = [1, 2, 3].map((count) => ({ count, directory: join(folder, `rival-${count}`) }));
    for (const { count, directory } of rivals) {
      await cp(sources, directory, { recursive: true });
      await addMarkets(directory, count);
    }
    const server = await startFaultyS3(environment!);
    const ready: (() => void)[] = [];
    // Nobody's commit goes on before all three have sent theirs.
    server.follow(async ({ method, path }) => {
      if (method !== "PUT" || !path.endsWith(layout.commit(2))) return undefined;
      await new Promise<void>((go) => {
        ready.push(go);
        if (ready.length === rivals.length) for (const each of ready) each();
      });
      return undefined;
    });
    const ended = await Promise.all(
      rivals.map(({ directory }) =>
        scriptProcess("snapshot", ["publish", "--sources", directory, "--store", location, "--json"], {
          from: folder,
          env: { ...server.environment },
        }),
      ),
    );
    await server.stop();
    const won = ended.filter(({ code }) => code === exitCodes.done);
    expect(won).toHaveLength(1);
    const { commit, snapshotId } = JSON.parse(won[0]!.stdout);
    expect(commit).toBe(2);
    for (const { code, stderr } of ended.filter((one) => one !== won[0])) {
      expect(stderr).toContain("another publisher made commit 2 first");
      expect(code).toBe(exitCodes.lost);
    }
    const left = await copyOf(storage);
    await expectAllGood(left, snapshotId);
    expect(await verify(left, () => {})).toMatchObject({ commits: 2, collected: 0 });
    // Those that come again later find their turn, one number each.
    for (const [turn, { directory }] of rivals.slice(0, 2).entries()) {
      const later = await publishSources(directory, left, folder);
      expect(later.commit).toBeLessThanOrEqual(3 + turn);
      expect(await seenBy(left)).toBe(later.snapshotId);
    }
  });
});
