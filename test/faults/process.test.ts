import { mkdir, readdir } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { createS3Client, s3Storage } from "../../snapshots/store/backends/s3.ts";
import { layout } from "../../snapshots/store/layout.ts";
import { parseS3Location } from "../../snapshots/store/storage.ts";
import { addMarkets } from "../helpers/archive/odd-markets.ts";
import { scriptProcess } from "../helpers/publish/commands.ts";
import { publishSources, writePlainSources } from "../helpers/publish/sample-sources.ts";
import { createBucket, s3Environment } from "../helpers/servers/ceph.ts";
import { startFaultyS3 } from "../helpers/store/faulty-s3.ts";
import { copyOf, expectAllGood, expectWhole, fill } from "../helpers/store/faulty-store.ts";
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

  /** Runs the command behind a server that loses or holds back the answer to a PUT, and sends the process a signal then. */
  async function publishBehind(
    location: string,
    { signal: sent, at, fault }: { signal: NodeJS.Signals; at: string; fault: "lost" | "hang" },
  ) {
    const server = await startFaultyS3(environment!);
    const temporary = join(folder, `temporary-${stores}`);
    await mkdir(temporary);
    let stop = () => {};
    server.follow(({ method, path }) => {
      if (method !== "PUT" || !path.includes(at)) return undefined;
      if (fault === "hang") stop();
      return fault;
    });
    server.onLost(() => stop());
    let signal: NodeJS.Signals | undefined;
    const ended = await scriptProcess(
      "snapshot",
      ["publish", "--sources", sources, "--store", location],
      { from: folder, env: { ...server.environment, TMPDIR: temporary } },
      (child) => {
        stop = () => child.kill(sent);
        child.on("exit", (_, by) => {
          signal = by ?? undefined;
        });
      },
    );
    await server.stop();
    return { ...ended, signal, left: await readdir(temporary) };
  }

  // What each single write leaves is played by the world; here the process itself dies.
  test("killed after it put the commit, leaves one whole snapshot", async () => {
    const { location, storage } = await storeWithOld();
    const { signal } = await publishBehind(location, { signal: "SIGKILL", at: "/commits/", fault: "lost" });
    expect(signal).toBe("SIGKILL");
    const left = await copyOf(storage);
    expect(await expectWhole(left, snapshots.old, snapshots.new)).toBe(snapshots.new);
    expect(await publishSources(sources, left, folder)).toMatchObject({ commit: 2, outcome: "unchanged" });
    await expectAllGood(left, snapshots.new);
  });

  test("told to stop, ends at once and tidies up", async () => {
    const { location, storage } = await storeWithOld();
    // The request hangs for longer than the signal may take: only the signal can have ended the process.
    const asked = { signal: "SIGTERM", at: layout.page.prefix, fault: "hang" } as const;
    const { signal, left, stderr } = await publishBehind(location, asked);
    expect(signal).toBe("SIGTERM");
    expect(stderr).not.toContain("Error");
    expect(left).toEqual([]);
    await expectAllGood(await copyOf(storage), snapshots.old);
    const again = await copyOf(storage);
    await publishSources(sources, again, folder);
    await expectAllGood(again, snapshots.new);
  });
});
