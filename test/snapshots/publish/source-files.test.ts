import { readdir, readFile, utimes } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { idHash } from "../../../snapshots/index/id-table.ts";
import { sha256 } from "../../../snapshots/store/layout.ts";
import { withDuckDb } from "../../helpers/archive/sql.ts";
import { snapshotCommand } from "../../helpers/publish/commands.ts";
import { Files, one, outcomeOf } from "../../helpers/publish/market-files.ts";
import { publishSources, type RunChoices } from "../../helpers/publish/sample-sources.ts";
import { startSmallS3 } from "../../helpers/store/small-s3.ts";
import { countingStorage, memoryStorage } from "../../helpers/store/storages.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";

const folder = testFolder();

test("files without rows are taken over unread, however many, and do not stand for rows", async () => {
  await withDuckDb(folder, async (sql) => {
    const directory = join(folder, "empty");
    const files = await Files.create(sql, directory);
    for (const name of ["e0", "e1"]) await files.copy(name, "SELECT * EXCLUDE (file)");
    const storage = memoryStorage(new Map());
    const first = await outcomeOf(directory, storage);
    expect(first).toMatchObject({ outcome: "published", unread: 0 });
    const unread = (await files.all()).length;
    expect(await outcomeOf(directory, storage)).toEqual({ ...first, outcome: "unchanged", unread });
    const names = await files.names();
    await files.run("DELETE FROM rows");
    await files.write(...names);
    expect(await files.all()).toEqual(["e0.parquet", "e1.parquet"]);
    const refusal = "markets/: has no rows";
    expect(await outcomeOf(directory, storage)).toEqual({ refusal, unread: 0 });
  });
});

test("a new id whose hash begins as another's does not make a run read all files", async () => {
  const seen = new Map<number, string>();
  const alike: string[] = [];
  for (let n = 0; alike.length === 0; n += 1) {
    const id = `00000000-0000-4000-8000-${n.toString(16).padStart(12, "0")}`;
    const known = seen.get(idHash(id));
    if (known) alike.push(known, id);
    seen.set(idHash(id), id);
  }
  await withDuckDb(folder, async (sql) => {
    const directory = join(folder, "alike");
    const files = await Files.create(sql, directory);
    const storage = memoryStorage(new Map());
    const outcomeWith = async (id: string, file: string) => {
      await files.run(`UPDATE rows SET id = '${id}' WHERE ${one(file, 1)}`);
      await files.write(file);
      return outcomeOf(directory, storage);
    };
    expect(await outcomeWith(alike[0]!, "f1")).toMatchObject({ outcome: "published" });
    const unread = (await files.all()).length - 1;
    expect(await outcomeWith(alike[1]!, "f2")).toMatchObject({ outcome: "published", unread });
    const { refusal } = await outcomeWith(alike[0]!, "f3");
    expect(refusal).toContain("markets/f1.parquet");
  });
});

test("a file that changes while others are taken over unread is refused at once; nothing is read again", async () => {
  await withDuckDb(folder, async (sql) => {
    const directory = join(folder, "changing");
    const files = await Files.create(sql, directory);
    const storage = memoryStorage(new Map());
    await publishSources(directory, storage, folder);
    let [opened, closed] = [0, 0];
    const change: RunChoices["change"] = (sources) => {
      opened += 1;
      return {
        ...sources,
        async *markets(known) {
          await utimes(files.path("f2"), new Date(), new Date());
          yield* sources.markets(known);
        },
        close() {
          closed += 1;
          return sources.close();
        },
      };
    };
    const counting = countingStorage(storage);
    expect(await outcomeOf(directory, counting, { change })).toMatchObject({
      refusal: "markets/f2.parquet: changed while it was read",
      unread: (await files.all()).length,
    });
    expect([opened, closed]).toEqual([1, 1]);
    expect(counting.written()).toEqual([]);
  });
});

test("files on S3 that have not changed are not even fetched, whichever machine runs the publisher", async () => {
  await withDuckDb(folder, async (sql) => {
    const place = join(folder, "remote");
    const directory = join(place, "sources");
    const files = await Files.create(sql, directory);
    const remote = memoryStorage(new Map());
    const upload = async (...names: string[]) => {
      for (const name of names) await remote.put(`sources/${name}`, await readFile(join(directory, name)));
    };
    const nameOf = (file: string) => `markets/${file}.parquet`;
    for (const name of ["e0", "e1"]) await files.copy(name, "SELECT * EXCLUDE (file)");
    const all = (await files.all()).map((name) => `markets/${name}`).sort();
    const everything = [...all, "protocol_scores.parquet"];
    await upload(...everything);
    const s3 = await startSmallS3(remote);
    let fetched: string[] = [];
    s3.fault = (method, key) => {
      if (method === "GET" && key !== "") fetched.push(key.replace("sources/", ""));
      return undefined;
    };
    let machine = 0;
    const run = async (store: string, sources = "s3://bucket/sources") => {
      fetched = [];
      machine += 1;
      const env = { ...s3.environment, XDG_CACHE_HOME: join(place, `cache-${machine}`) };
      const args = ["publish", "--sources", sources, "--store", join(place, store), "--json"];
      const { code, stdout, stderr } = await snapshotCommand(args, { from: folder, env });
      expect(code, stderr).toBe(0);
      return { id: JSON.parse(stdout).snapshotId, said: stderr, fetched: fetched.sort() };
    };
    try {
      const first = await run("store");
      expect(first.fetched).toEqual(everything);
      expect(first.said).toMatch(/^Fetched \d+ files \(\d+ bytes\) of the sources$/m);
      expect(first.said).toContain(`Fetched ${everything.length} files (`);
      expect(first.said).toMatch(/^fetching sources, bytes: \d+ of \d+ \(100 %\)$/m);
      const cache = join(place, "cache-1/protocol-risk-score-service", sha256("s3://bucket/sources/"));
      expect((await readdir(cache)).sort()).toEqual(["objects", "runs"]);
      expect(await readdir(join(cache, "runs"))).toEqual([]);
      expect(await run("store")).toMatchObject({ id: first.id, fetched: ["protocol_scores.parquet"] });
      const [a] = await files.names();
      await files.run(`UPDATE rows SET question = 'Really?' WHERE ${one(a!, 1)}`);
      await files.write(a!);
      await upload(nameOf(a!));
      const changed = await run("store");
      expect(changed.fetched).toEqual([nameOf(a!), "protocol_scores.parquet"]);
      expect(changed.id).toBe((await run("alone", directory)).id);
    } finally {
      await s3.stop();
    }
  });
});
