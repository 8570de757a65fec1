import { join } from "node:path";
import { expect, test } from "vitest";
import { snapshotCommand } from "../helpers/publish/commands.ts";
import { writeSegmented } from "../helpers/publish/segmented-sources.ts";
import { ancestorOf, freezeProcess, signalTo } from "../helpers/servers/processes.ts";
import { findSpark, submitToSpark } from "../helpers/servers/spark.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

const folder = testFolder();
const spark = findSpark();
const root = new URL("../..", import.meta.url).pathname;

test.skipIf(!spark)(
  "publish_parts.py makes what one process makes, also when an executor is lost",
  async () => {
    const sources = await writeSegmented(folder, "sources");
    const alone = ["publish", "--sources", sources, "--store", "alone", "--json"];
    const { snapshotId } = JSON.parse((await snapshotCommand(alone, { from: folder })).stdout);
    const store = join(folder, "store");
    const words = [join(root, ".github/deploy/publish_parts.py"), "cut", "3", sources, store];
    const submitted = submitToSpark(spark!, words, { folder, env: { PRS_HOME: root } });
    const early = submitted.then(({ stderr }) => expect.unreachable(stderr));
    const part = await Promise.race([freezeProcess(`--store ${store} --run cut --part`), early]);
    signalTo(ancestorOf(part, "ExecutorBackend"), "SIGKILL");
    signalTo(part, "SIGKILL");
    const { code, stdout, stderr } = await submitted;
    expect(stderr).toMatch(/Lost executor \d/);
    expect(stdout).toContain(`Published commit 1, snapshot ${snapshotId}`);
    expect(code).toBe(0);
  },
);
