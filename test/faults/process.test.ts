import type { ChildProcess } from "node:child_process";
import { mkdir, readdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { layout } from "../../snapshots/store/layout.ts";
import { addMarkets } from "../helpers/archive/odd-markets.ts";
import { scriptProcess } from "../helpers/publish/commands.ts";
import { publishSources, writePlainSources } from "../helpers/publish/sample-sources.ts";
import { expectAllGood } from "../helpers/store/faulty-store.ts";
import { startSmallS3 } from "../helpers/store/small-s3.ts";
import { aroundCalls, changes, memoryStorage } from "../helpers/store/storages.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

// What is left by a process that is killed is played by the world; here the process itself ends.

const folder = testFolder();
const sources = join(folder, "sources");
const objects = new Map<string, Buffer>();

// SIGTERM is tried in test/scripts/publish-parts.test.ts.
test("a publish that SIGINT tells to stop ends at once and tidies up", async () => {
  await writePlainSources(sources, 100);
  const { snapshotId: old } = await publishSources(sources, memoryStorage(objects), folder);
  await addMarkets(sources, 5);
  const store = memoryStorage(new Map(objects));
  let process: ChildProcess | undefined;
  const unanswered = aroundCalls(store, async (work, call) => {
    const done = await work();
    if (!changes(call) || !call.key.startsWith(layout.page.prefix)) return done;
    process!.kill("SIGINT");
    return new Promise(() => {});
  });
  const server = await startSmallS3(unanswered);
  const temporary = join(folder, "temporary");
  await mkdir(temporary);
  let signal: NodeJS.Signals | null = null;
  const { stderr } = await scriptProcess(
    "snapshot",
    ["publish", "--sources", sources, "--store", "s3://bucket"],
    { from: folder, env: { ...server.environment, TMPDIR: temporary } },
    (child) => {
      process = child;
      child.on("exit", (_, by) => {
        signal = by;
      });
    },
  );
  await server.stop();
  expect(signal).toBe("SIGINT");
  expect(stderr).not.toContain("Error");
  expect(await readdir(temporary)).toEqual([]);
  await expectAllGood(store, old);
  const { snapshotId } = await publishSources(sources, store, folder);
  await expectAllGood(store, snapshotId);
});
