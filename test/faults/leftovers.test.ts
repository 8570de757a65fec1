import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { mkdir, mkdtemp, readdir, utimes, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { exitCodeOf, exitCodes } from "../../scripts/cli.ts";
import { withTemporaryFolder } from "../../scripts/temporary.ts";
import { collectGarbage } from "../../snapshots/maintain/gc.ts";
import { directoryStorage } from "../../snapshots/store/backends/directory.ts";
import { layout } from "../../snapshots/store/layout.ts";
import { ownerMark } from "../../snapshots/store/local-files.ts";
import { until } from "../helpers/http/proxy-client.ts";
import { snapshotCommand } from "../helpers/publish/commands.ts";
import { publishSources, writeSources } from "../helpers/publish/sample-sources.ts";
import { expectAllGood, publishNew, publishOld } from "../helpers/store/faulty-store.ts";
import { mountSmallDisk } from "../helpers/store/small-disk.ts";
import { memoryStorage } from "../helpers/store/storages.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

const folder = testFolder();
const smallDisk = mountSmallDisk(100);
const ended = spawnSync("true").pid;
const parent = spawn("sh", ["-c", "read line <&3 & echo $!; exec cat"], {
  stdio: ["pipe", "pipe", "inherit", "pipe"],
});
/** A process that has ended, and whose parent does not notice: that was a shell, which would have. */
const zombie = Number(await once(parent.stdout!, "data"));
/** The mark of a process that had the id of a running one before it. */
const reused = ownerMark(process.ppid).replace(/\d+-$/, "1-");
const random = "0123456789abcdef";

const processFile = (pid: number, name: string) => readFileSync(`/proc/${pid}/${name}`, "latin1");
const sources = join(folder, "sources");
beforeAll(async () => {
  await writeSources(sources);
  await until("the shell to be replaced", () => processFile(parent.pid!, "comm") === "cat\n");
  parent.stdio[3]!.destroy();
  await until("a zombie", () => /\) Z/.test(processFile(zombie, "stat")));
});
afterAll(() => parent.stdin!.end());

/** Makes a file or folder as old as it says. */
async function age(path: string, hours: number): Promise<void> {
  const then = new Date(Date.now() - hours * 3_600_000);
  await utimes(path, then, then);
}

describe("temporary files in a directory store", () => {
  const left = [
    ["of a process that ended", `.tmp-${ownerMark(ended)}${random}`, 0],
    ["of a process that nobody waits for", `.tmp-${ownerMark(zombie)}${random}`, 0],
    ["of a process whose id another has got", `.tmp-${reused}${random}`, 0],
    ["of another machine, a day old", `.tmp-ffffffff-1-${random}`, 25],
    ["of an older version, a day old", `.tmp-${random}`, 25],
  ] as const;
  const kept = [
    ["of this process", `.tmp-${ownerMark()}${random}`, 0],
    ["of a running process, by a clock that is days ahead", `.tmp-${ownerMark(process.ppid)}${random}`, 50],
    ["of another machine", `.tmp-ffffffff-1-${random}`, 23],
    ["of an older version", `.tmp-${random}`, 23],
  ] as const;

  test.for([
    ["a publish", publishNew],
    [
      "a collection",
      (storage: ReturnType<typeof directoryStorage>) =>
        collectGarbage(storage, { keepHours: 48, keepCommits: 24, now: new Date(), dryRun: false }),
    ],
  ] as const)("go with %s once nobody can be writing them", async ([, work]) => {
    const root = await mkdtemp(join(folder, "store-"));
    const storage = directoryStorage(root);
    const { snapshotId: old } = await publishOld(storage);
    const place = async (names: typeof left | typeof kept) => {
      const paths: string[] = [];
      for (const under of ["", layout.page.prefix, layout.key.prefix]) {
        for (const [what, name, hours] of names) {
          const path = join(root, under, name);
          await mkdir(dirname(path), { recursive: true });
          await writeFile(path, what);
          await age(path, hours);
          paths.push(path);
        }
      }
      return paths;
    };
    const going = await place(left);
    await work(storage);
    expect(going.filter(existsSync)).toEqual([]);
    const staying = await place(kept);
    await work(storage);
    expect(staying.filter((path) => !existsSync(path))).toEqual([]);
    if (work !== publishNew) await expectAllGood(storage, old);
  });
});

describe("the folder for temporary files", () => {
  const { TMPDIR } = process.env;
  let temporary: string;

  beforeEach(async () => {
    temporary = await mkdtemp(join(folder, "tmp-"));
    process.env.TMPDIR = temporary;
  });

  afterEach(() => {
    if (TMPDIR === undefined) delete process.env.TMPDIR;
    else process.env.TMPDIR = TMPDIR;
  });

  const folders = () => readdir(temporary);
  const nothing = async () => {};

  test("holds a folder for each run, which goes with the run, also one that fails", async () => {
    await withTemporaryFolder(async (mine) => {
      await withTemporaryFolder(nothing);
      expect(await folders()).toEqual([mine.slice(temporary.length + 1)]);
    });
    await expect(withTemporaryFolder(() => Promise.reject(new Error("failed")))).rejects.toThrow("failed");
    expect(await folders()).toEqual([]);
  });

  test("loses folders of runs that were killed, and the store its files, with gc", async () => {
    const root = await mkdtemp(join(folder, "store-"));
    await publishOld(directoryStorage(root));
    await writeFile(join(root, layout.page.prefix, `.tmp-${ownerMark(ended)}${random}`), "x");
    await mkdir(join(temporary, `prs-publish-${ownerMark(ended)}abcXYZ`));
    const gc = (...more: string[]) =>
      snapshotCommand(["gc", "--store", root, "--json", ...more], { from: folder });
    expect(JSON.parse((await gc("--dry-run")).stdout)).toMatchObject({ leftovers: 0 });
    expect(await folders()).toHaveLength(1);
    expect(JSON.parse((await gc()).stdout)).toMatchObject({ leftovers: 2 });
    expect(await folders()).toEqual([]);
  });

  test("loses with the next run what was left there, and keeps what somebody may be using, or is none of ours", async () => {
    const kept = [
      ["prs-publish-abcXYZ", 23],
      ["prs-publish-ffffffff-1-abcXYZ", 23],
      [`prs-publish-${ownerMark()}abcXYZ`, 0],
      [`prs-publish-${ownerMark(process.ppid)}abcXYZ`, 50],
      ["prs-publish-notes", 100],
    ] as const;
    for (const [name, hours] of [...kept, [`prs-publish-${ownerMark(ended)}abcXYZ`, 0] as const]) {
      await mkdir(join(temporary, name));
      await age(join(temporary, name), hours);
    }
    await withTemporaryFolder(nothing);
    expect((await folders()).toSorted()).toEqual(kept.map(([name]) => name).toSorted());
    for (const [name] of kept.slice(0, 2)) await age(join(temporary, name), 25);
    await withTemporaryFolder(nothing);
    expect(await folders()).toHaveLength(3);
  });

  test.for([
    ["there is none", () => join(temporary, "none"), /tmp-\w+\/none: cannot keep files there: ENOENT/],
    ["it is full", () => smallDisk, /prs-publish-[\w-]+: cannot keep files there: ENOSPC/],
  ] as const)("is named when %s, and empty afterwards", async ([, where, told], { skip }) => {
    const place = where();
    skip(!place, "no small disk");
    process.env.TMPDIR = place;
    const publish = (mine: string) => publishSources(sources, memoryStorage(new Map()), mine);
    const error: unknown = await withTemporaryFolder(publish).catch((thrown) => thrown);
    expect(error).toMatchObject({ code: "LOCAL_FOLDER" });
    expect(String(error)).toMatch(told);
    expect(String(error)).toContain("set TMPDIR to use another");
    expect(exitCodeOf(error)).toBe(exitCodes.unreachable);
    expect(existsSync(place!) ? await readdir(place!) : []).toEqual([]);
  });
});
