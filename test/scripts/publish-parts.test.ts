import type { ChildProcess } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { beforeAll, describe, expect, test } from "vitest";
import { Shell } from "../../scripts/cli.ts";
import { makeParts } from "../../scripts/snapshot/publish-parts.ts";
import { directoryStorage } from "../../snapshots/store/backends/directory.ts";
import { layout } from "../../snapshots/store/layout.ts";
import { expectEnd, scriptProcess, snapshotCommand } from "../helpers/publish/commands.ts";
import { withBroken, writeSegmented } from "../helpers/publish/segmented-sources.ts";
import { contentOf } from "../helpers/store/storages.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

const folder = testFolder();
const run = (args: string, env = {}) => snapshotCommand(args.split(" "), { from: folder, env });

const childrenOf = (pid: number) =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ").filter(Boolean);

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

describe("publish in parts", () => {
  test("makes what one process makes, part by part, in any order", async () => {
    const publish = "publish --sources sources --store parts";
    // Only what makes the snapshot opens a statement; this one could not be opened.
    const statement = "--statement nowhere/statement.json";
    const planned = /^Planned run first on an empty store: 300 markets in 3 parts of \d+ to \d+\n$/;
    expectEnd(await run(`${publish} --plan 3 --run first ${statement}`), 0, planned);
    const third = await run(`${publish} --part 3 --run first ${statement}`);
    expectEnd(third, 0, /^Part 3 of run first: \d+ markets in /);
    const lines = "\n  publish … --part 1 --run first\n  publish … --part 2 --run first\n";
    const missing = "missing runs/first/part-1.json, runs/first/part-2.json;";
    expectEnd(await run(`${publish} --join --run first`), 5, missing, lines);
    expectEnd(await run(`${publish} --part 2 --run first`), 0);
    for (const index of ["", "0x1"]) {
      const wrong = await run(`${publish} --part JOB_COMPLETION_INDEX --run first`, {
        JOB_COMPLETION_INDEX: index,
      });
      const words = `JOB_COMPLETION_INDEX must be the number of a part, counted from 0; it is "${index}"`;
      expectEnd(wrong, 2, words);
    }
    const first = await run(`${publish} --part JOB_COMPLETION_INDEX --run first`, {
      JOB_COMPLETION_INDEX: "0",
    });
    expectEnd(first, 0, /^Part 1 of run first: /);
    const { code, stdout } = await run(`${publish} --join --run first --json`);
    expect([code, JSON.parse(stdout)]).toMatchObject([0, { outcome: "published", snapshotId }]);
    expect(await contentAt("parts")).toEqual(content);
    expectEnd(await run(`${publish} --join --run first`), 0, "Nothing new: commit 1 already has");
  });

  test("refuses as one process does, whichever part finds it, and names files that are others by then", async () => {
    await writeSegmented(folder, "broken", withBroken("composite", "9"));
    const alone = await run("publish --sources broken --store refused --json");
    expect(alone.code).toBe(3);
    const publish = "publish --sources broken --store refused --json";
    await run(`${publish} --plan 3 --run r`);
    for (const part of [1, 2, 3]) expect((await run(`${publish} --part ${part} --run r`)).code).toBe(0);
    const joined = await run(`${publish} --join --run r`);
    const message = expect.stringContaining("column composite: 9, must be from 300 to 1000");
    const error = { ...JSON.parse(alone.stdout).error, message };
    expect([joined.code, JSON.parse(joined.stdout)]).toEqual([3, { error }]);
    const changed = /^markets\/b\.parquet: is not as it was when the run was planned; plan another run$/m;
    expectEnd(await run("publish --sources sources --store refused --join --run r"), 3, changed);
  });

  test.for([
    ["early", "TIMESTAMPTZ '1999-12-31 23:59:59+00'", "resolved_at"],
    ["late", "TIMESTAMPTZ '2100-01-01 00:00:00+00'", "resolved_at"],
    ["twice", "'same'", "id"],
  ])("refuses keys that break a rule when it is planned: %s", async ([name, value, column]) => {
    await writeSegmented(folder, name!, withBroken(column!, value!));
    const told = async (step: string) => {
      const { code, stdout } = await run(`publish --sources ${name} --store unplanned --json${step}`);
      // How late a time may be differs from run to run.
      return [code, stdout.replaceAll(/later than \S+,/g, "later than …,")];
    };
    const alone = await told("");
    expect(alone[0]).toBe(3);
    expect(await told(` --plan 3 --run ${name}`)).toEqual(alone);
    expect(existsSync(join(folder, "unplanned"))).toBe(false);
  });

  test("makes it with processes of its own, and starts one again that is killed", async () => {
    const workers = await run("publish --sources sources --store workers --workers 2 --json");
    expect([workers.code, JSON.parse(workers.stdout)]).toMatchObject([0, { snapshotId }]);
    expect(await contentAt("workers")).toEqual(content);

    await run("publish --sources sources --store killed --plan 1 --run k");
    const said: string[] = [];
    const children = () => childrenOf(process.pid);
    const stderr = {
      write(text: string) {
        if (said.length === 0) for (const child of started) process.kill(Number(child), "SIGKILL");
        said.push(text);
      },
    };
    const before = children();
    const making = makeParts(
      new Shell(folder, process.env, { stdout: { write() {} }, stderr }),
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
    let workers: string[] = [];
    let stopped: ChildProcess | undefined;
    const args = ["publish", "--sources", "sources", "--store", "stopped", "--workers", "2"];
    await scriptProcess("snapshot", args, { from: folder }, (child) => {
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
    expect(existsSync(join(folder, "stopped", layout.commit.prefix))).toBe(false);
  });

  test("ends as a part does that cannot be made", async () => {
    const shell = new Shell(folder, process.env, { stdout: { write() {} }, stderr: { write() {} } });
    const args = ["publish", "--sources", "sources", "--store", "killed", "--run", "nowhere"];
    expect(await makeParts(shell, args, 2)).toBe(5);
  });
});
