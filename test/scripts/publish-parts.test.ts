import type { ChildProcess } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, readdir } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { beforeAll, describe, expect, test } from "vitest";
import { shellOf } from "../../scripts/cli.ts";
import { makeParts } from "../../scripts/snapshot/publish-parts.ts";
import { directoryStorage } from "../../snapshots/store/backends/directory.ts";
import { layout } from "../../snapshots/store/layout.ts";
import { scriptProcess, snapshotCommand } from "../helpers/publish/commands.ts";
import { writeSegmented } from "../helpers/publish/segmented-sources.ts";
import { childrenOf } from "../helpers/servers/processes.ts";
import { contentOf } from "../helpers/store/storages.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

const folder = testFolder();
const run = (args: string) => snapshotCommand(args.split(" "), { from: folder });

let snapshotId: string;
let content: Map<string, string>;
const contentAt = async (store: string) => {
  const found = Object.entries(await contentOf(directoryStorage(join(folder, store))));
  // The commit tells when it was made, and what is shown tells of the commit.
  const own = found.filter(([key]) => /^(private|manifests|public\/objects)\//.test(key));
  return new Map(own.sort());
};

beforeAll(async () => {
  await writeSegmented(folder, "sources");
  const { stdout } = await run("publish --sources sources --store alone --json");
  ({ snapshotId } = JSON.parse(stdout));
  content = await contentAt("alone");
});

// What the steps of a run say is in sessions/parts.txt.
describe("publish in parts", () => {
  test("makes it with processes of its own, and starts one again that is killed", async () => {
    const workers = await run("publish --sources sources --store workers --workers 2 --json");
    expect([workers.code, JSON.parse(workers.stdout)]).toMatchObject([0, { snapshotId }]);
    expect(await contentAt("workers")).toEqual(content);

    await run("publish --sources sources --store killed --plan 1 --run k");
    const said: string[] = [];
    const children = () => childrenOf(process.pid);
    const stderr = {
      write(text: string) {
        if (said.length === 0) for (const child of started) process.kill(child, "SIGKILL");
        said.push(text);
      },
    };
    const before = children();
    const making = makeParts(
      shellOf(folder, process.env, { stdout: { write() {} }, stderr }),
      ["publish", "--sources", "sources", "--store", "killed", "--run", "k"],
      1,
    );
    const started = children().filter((child) => !before.includes(child));
    expect(await making).toBe(0);
    expect(started).toHaveLength(1);
    expect(said.join("")).toContain("Warning: part 1 ended with SIGKILL; it starts again");
    const joined = await run("publish --sources sources --store killed --join --run k --json");
    expect(JSON.parse(joined.stdout)).toMatchObject({ outcome: "published", snapshotId });
    expect(await directoryStorage(join(folder, "killed")).get(layout.runPart("k", 1))).toBeDefined();
  });

  test("ends its processes when it is told to stop, and commits nothing", async () => {
    let workers: number[] = [];
    let stopped: ChildProcess | undefined;
    const args = ["publish", "--sources", "sources", "--store", "stopped", "--workers", "2"];
    const temporary = join(folder, "temporary");
    await mkdir(temporary);
    await scriptProcess("snapshot", args, { from: folder, env: { TMPDIR: temporary } }, (child) => {
      child.stderr!.on("data", (said) => {
        if (stopped || !/^part \d: /m.test(String(said))) return;
        stopped = child;
        workers = childrenOf(child.pid!);
        child.kill("SIGTERM");
      });
    });
    expect(stopped!.signalCode).toBe("SIGTERM");
    expect(workers.length).toBeGreaterThan(0);
    // They remove their temporary folders first.
    while (workers.some((pid) => existsSync(`/proc/${pid}/exe`))) await delay(10);
    expect(await readdir(temporary)).toEqual([]);
    expect(existsSync(join(folder, "stopped", layout.commit.prefix))).toBe(false);
  });

  test("ends as a part does that cannot be made", async () => {
    const shell = shellOf(folder, process.env, { stdout: { write() {} }, stderr: { write() {} } });
    const args = ["publish", "--sources", "sources", "--store", "killed", "--run", "nowhere"];
    expect(await makeParts(shell, args, 2)).toBe(5);
  });
});
