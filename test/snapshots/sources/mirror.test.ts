import { mkdtemp, readdir, readFile, stat, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { mirrorSources } from "../../../snapshots/sources/files/mirror.ts";
import { openSources } from "../../../snapshots/sources/open-sources.ts";
import type { Refusal } from "../../../snapshots/sources/sources.ts";
import { createS3Client } from "../../../snapshots/store/backends/s3.ts";
import { sha256 } from "../../../snapshots/store/layout.ts";
import { openStorage } from "../../../snapshots/store/open-storage.ts";
import { parseS3Location, type Storage, StorageError } from "../../../snapshots/store/storage.ts";
import { type Link, type Passed, startLink } from "../../helpers/http/link.ts";
import { snapshotCommand } from "../../helpers/publish/commands.ts";
import { writeSources } from "../../helpers/publish/sample-sources.ts";
import { refusedBy } from "../../helpers/publish/sources.ts";
import { createBucket, s3Environment } from "../../helpers/servers/ceph.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";

const environment = s3Environment();
const names = ["markets/odd.parquet", "markets/part-00000.parquet", "protocol_scores.parquet"];
const now = new Date("2030-01-01T00:00:00.000Z");

describe.skipIf(!environment)("sources on S3", () => {
  const folder = testFolder();
  let sources: string;
  let bucket: string;
  let link: Link;
  let location: string;
  let remote: Storage;
  let cache: string;
  let round = 0;

  beforeAll(async () => {
    sources = await writeSources(join(folder, "sources"), { markets: 120 });
    const files = (await readdir(sources, { recursive: true })).filter((name) => name.endsWith(".parquet"));
    expect(files.sort()).toEqual(names);
    bucket = await createBucket(environment!);
  });
  beforeEach(async () => {
    round += 1;
    link = await startLink(Number(new URL(environment!.AWS_ENDPOINT_URL_S3).port));
    location = `${bucket}/sources/${round}`;
    remote = await openStorage(location, folder, environment);
    cache = join(folder, `cache-${round}`);
    for (const name of names) await remote.put(name, await readFile(join(sources, name)));
    // What only looks like sources stays where it is.
    for (const name of ["markets/readme.txt", "markets-old/a.parquet", "markets.parquet.bak"])
      await remote.put(name, Buffer.from("no source"));
  });
  afterEach(() => link.stop());

  // On a busy machine even an answer of this machine's own server takes many seconds.
  const client = (seconds = 3600) => {
    const limits = { connectSeconds: 3600, attemptSeconds: seconds, operationSeconds: 3600, attempts: 2 };
    return createS3Client({ AWS_ENDPOINT_URL_S3: link.url }, limits);
  };
  const mirror = (seconds?: number) =>
    mirrorSources(parseS3Location(location)!, client(seconds), { cacheDirectory: cache });
  const filesIn = async (directory: string) => {
    const entries = await readdir(directory, { recursive: true, withFileTypes: true });
    return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  };
  const contentIn = async (directory: string) => {
    const content: Record<string, string> = {};
    for (const path of (await filesIn(directory)).sort())
      content[path.slice(directory.length + 1)] = sha256(await readFile(path));
    return content;
  };
  /** What a run has, whose sources are as they were put there, had to fetch. */
  const fetchedWhole = async () => {
    const { path: directory, downloaded, close } = await mirror();
    expect(await contentIn(directory)).toEqual(await contentIn(sources));
    await close();
    return downloaded.objects;
  };
  const refusalsOf = async (work: Promise<unknown>) => (await refusedBy(work)).refusals;
  const isObject = ({ target }: Passed, name = "") => target.split("?")[0]!.endsWith(`/${round}/${name}`);
  const fetched = () =>
    link.passed.filter(
      ({ method, target, status }) => method === "GET" && status === 200 && !/[?&]list-type=/.test(target),
    );

  describe("mirrorSources(location, client, options)", () => {
    test("brings the sources and nothing else, none twice, a changed object again, and drops what is gone", async () => {
      const runs: string[] = [];
      const run = async () => {
        link.passed.length = 0;
        const { path: directory, downloaded, close } = await mirror();
        const content = await contentIn(directory);
        await close();
        const came = fetched();
        const bytes = came.reduce((sum, { bytes }) => sum + bytes, 0);
        expect(downloaded).toMatchObject({ objects: came.length, bytes });
        const names = came.map(({ target }) => target.split("?")[0]!.split(`/${round}/`)[1]!);
        runs.push(names.sort().join(" "));
        expect(await filesIn(cache)).toHaveLength(Object.keys(content).length);
        return content;
      };
      expect(await run()).toEqual(await contentIn(sources));
      expect((await stat(cache)).mode & 0o077).toBe(0);
      await run();
      await remote.put(names[0]!, Buffer.from("other"));
      expect((await run())[names[0]!]).toBe(sha256("other"));
      await remote.delete(names[0]!);
      await remote.put("markets/2026/new.parquet", Buffer.from("new"));
      expect(Object.keys(await run())).toEqual(["markets/2026/new.parquet", ...names.slice(1)]);
      expect(runs).toEqual([names.join(" "), "", names[0], "markets/2026/new.parquet"]);
    });

    const [part, late] = [names[1]!, "markets/z.parquet"];
    test.each([
      ["changed before", () => remote.put(part, Buffer.from("other")), part, "changed while it was read"],
      ["removed before", () => remote.delete(part), part, "changed while it was read"],
      ["changed after", () => remote.put(part, Buffer.from("other")), part, "changed while it was read"],
      ["removed after", () => remote.delete(part), part, "changed while it was read"],
      ["joined after", () => remote.put(late, Buffer.from("z")), late, "appeared while the others were read"],
    ])("refuses an object that is %s it was fetched", async (when, change, file, rule) => {
      link[when.endsWith("before") ? "before" : "after"] = async (asked) => {
        if (isObject(asked, part)) await change();
        return undefined;
      };
      expect(await refusalsOf(mirror())).toEqual([{ file, rule }]);
      expect((await filesIn(cache)).filter((path) => path.includes("/runs/"))).toEqual([]);
    });

    test("refuses other content from a server that ignores If-Match", async () => {
      link.before = async (asked) => {
        if (!isObject(asked, names[2])) return undefined;
        const body = Buffer.alloc((await stat(join(sources, names[2]!))).size);
        return { status: 200, headers: { ETag: `"${"0".repeat(32)}"`, "Content-Length": body.length }, body };
      };
      expect(await refusalsOf(mirror())).toEqual([{ file: names[2], rule: "changed while it was read" }]);
    });

    test("takes up a transfer that broke off, and gives up one that always does", async () => {
      let cuts = 0;
      link.cut = (asked) => {
        if (!isObject(asked, names[1])) return undefined;
        cuts += 1;
        return cuts === 1 ? 1000 : undefined;
      };
      await fetchedWhole();
      await remote.put(names[1]!, Buffer.alloc(5000));
      link.cut = (asked) => (isObject(asked, names[1]) ? 1000 : undefined);
      await expect(mirror()).rejects.toThrow(/sources\/\d+\/: cannot read markets\/part-00000\.parquet: /);
      await expect(mirror()).rejects.toBeInstanceOf(StorageError);
    });

    test("gives up a server that stops in the middle of an object", async () => {
      link.cut = (asked) => (isObject(asked, names[2]) ? 10 : undefined);
      link.after = (asked) => isObject(asked, names[2]) && Promise.withResolvers().promise;
      await expect(mirror(0.2)).rejects.toBeInstanceOf(StorageError);
    });

    test("refuses keys that leave the folder or cannot be files", async () => {
      const odd = ["../../escape", "/a", "x".repeat(300)].map((name) => `markets/${name}.parquet`);
      const listed = [...odd, `${names[1]}/below.parquet`];
      link.before = ({ target }) => {
        if (!/list-type=2/.test(target) || !/prefix=[^&]*markets%2F(&|$)/.test(target)) return undefined;
        const keys = [...listed, names[1]!].map((name) => `sources/${round}/${name}`);
        const contents = keys.map(
          (key) => `<Contents><Key>${key}</Key><Size>1</Size><ETag>"a"</ETag></Contents>`,
        );
        const result = `<IsTruncated>false</IsTruncated>${contents.join("")}`;
        const headers = { "Content-Type": "application/xml" };
        return { status: 200, headers, body: `<ListBucketResult>${result}</ListBucketResult>` };
      };
      const refusals = await refusalsOf(mirror());
      expect(refusals.map(({ file }) => file)).toEqual(listed);
      expect(fetched()).toEqual([]);
      expect(await readdir(folder)).not.toContain("escape.parquet");
    });

    test("runs that share a cache do not disturb each other", async () => {
      const first = await mirror();
      const opened = await openSources(first, { now, temporaryDirectory: folder });
      try {
        // The second one takes over the cache, drops a file that the first one reads, and links the others.
        await remote.put(names[0]!, await readFile(join(sources, names[1]!)));
        await remote.delete(names[1]!);
        await (await mirror()).close();
        let markets = 0;
        for await (const rows of opened.markets()) markets += rows.length;
        expect(markets).toBe(opened.marketCount);
        expect(await opened.scores()).toHaveLength(12);
      } finally {
        await opened.close();
      }
      const both = await Promise.all([mirror(), mirror(), mirror()]);
      for (const { path: directory, close } of both) {
        expect(Object.keys(await contentIn(directory))).toEqual([names[0], names[2]]);
        await close();
      }
    });

    test("removes what runs that were killed left, after a day", async () => {
      await (await mirror()).close();
      const runs = join(cache, (await readdir(cache))[0]!, "runs");
      const [old, young] = [await mkdtemp(join(runs, "run-")), await mkdtemp(join(runs, "run-"))];
      for (const run of [old, young]) await writeFile(join(run, "left.parquet"), "x");
      await utimes(young, now, new Date(Date.now() - 23 * 3_600_000));
      await utimes(old, now, new Date(Date.now() - 25 * 3_600_000));
      const { close } = await mirror();
      await close();
      expect(await readdir(runs)).toEqual([young.slice(runs.length + 1)]);
    });

    test("fetches a cached file again that was cut short", async () => {
      await (await mirror()).close();
      for (const path of await filesIn(cache)) await writeFile(path, "short");
      await fetchedWhole();
      expect(await fetchedWhole()).toBe(0);
    });
  });

  test("npm run snapshot -- publish refuses them by the names of their keys, and tells what it cannot reach", async () => {
    await remote.put(names[1]!, Buffer.from("PAR1, but not for long"));
    const none = ["markets", "protocol_scores"].map((name) => `${name}.parquet`);
    const missing = (name: string) =>
      `${name}.parquet: is missing, and there is no Parquet file below ${name}/ in ${bucket}/nothing/`;
    for (const [from, code, files, told, endpoint = environment!.AWS_ENDPOINT_URL_S3] of [
      [`${bucket}/nothing`, 3, none, missing("markets")],
      [`${bucket}/nothing`, 3, none, missing("protocol_scores")],
      [location, 3, [names[1]], /^markets\/part-00000\.parquet: .*cannot be read/m],
      [location, 5, [], `${location}/: cannot list markets.parquet: `, "http://127.0.0.1:9"],
      ["s3://no-such-bucket-anywhere/x", 5, [], "no-such-bucket-anywhere"],
      ["gs://bucket/x", 2, [], "--sources takes a directory, s3://bucket/prefix"],
    ] as const) {
      const ended = await snapshotCommand(["publish", "--sources", from, "--store", "never", "--json"], {
        from: folder,
        env: { AWS_ENDPOINT_URL_S3: endpoint, XDG_CACHE_HOME: join(folder, "xdg") },
      });
      const { exitCode, message, refusals } = JSON.parse(ended.stdout).error;
      expect([ended.code, exitCode, refusals.map(({ file }: Refusal) => file)]).toEqual([code, code, files]);
      // On stdout and on stderr in the same words.
      expect(ended.stderr).toContain(message);
      expect(ended.stderr).toMatch(told);
    }
    expect(await readdir(folder)).not.toContain("never");
  });
});
