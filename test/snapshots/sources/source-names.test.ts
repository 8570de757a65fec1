import { mkdir, mkdtemp, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { mirrorSources } from "../../../snapshots/sources/files/mirror.ts";
import { listSourceFiles, passedWarning } from "../../../snapshots/sources/files/source-files.ts";
import { type Refusal, SourceRefusal } from "../../../snapshots/sources/sources.ts";
import { createS3Client } from "../../../snapshots/store/backends/s3.ts";
import { parseS3Location } from "../../../snapshots/store/storage.ts";
import { type SmallS3, startSmallS3 } from "../../helpers/store/small-s3.ts";
import { memoryStorage } from "../../helpers/store/storages.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";

const folder = testFolder();
const objects = memoryStorage(new Map());
let s3: SmallS3;
beforeAll(async () => {
  s3 = await startSmallS3(objects);
});
afterAll(() => s3.stop());

/** What becomes of the names of a source. */
interface Outcome {
  files?: string[];
  passed?: string[];
  refusals?: readonly Refusal[];
}

async function outcomeOf(work: () => Promise<Outcome>): Promise<Outcome> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof SourceRefusal)) throw error;
    const refusals = error.refusals.map(({ rule, ...refusal }) => ({
      ...refusal,
      rule: rule.replace(/ in (\/|s3:)\S+?(;|$)/, " in PLACE$2"),
    }));
    return { refusals };
  }
}

/** The outcome of the names in a folder and below an address, which is the same. */
async function outcomeOfNames(names: readonly string[]): Promise<Outcome> {
  const all = [...names, "protocol_scores.parquet"];
  const directory = await mkdtemp(join(folder, "names-"));
  const location = `s3://bucket/${directory.slice(folder.length + 1)}`;
  for (const name of all) {
    await mkdir(name.endsWith("/") ? join(directory, name) : dirname(join(directory, name)), {
      recursive: true,
    });
    if (!name.endsWith("/")) await writeFile(join(directory, name), name);
    await objects.put(`${location.slice("s3://bucket/".length)}/${name}`, Buffer.from(name));
  }
  const local = await outcomeOf(async () => {
    const { files, passed } = await listSourceFiles({ path: directory }, "markets");
    return { files: files.map(({ name }) => name).sort(), passed: passed.toSorted() };
  });
  const client = createS3Client(s3.environment);
  const remote = await outcomeOf(async () => {
    const mirror = await mirrorSources(parseS3Location(location)!, client, {
      cacheDirectory: join(folder, "cache"),
    });
    await mirror.close();
    const files = [...mirror.listed.keys()].filter((name) => name.startsWith("markets"));
    return { files: files.sort(), passed: mirror.passed.toSorted() };
  });
  client.destroy();
  expect(remote).toEqual(local);
  return local;
}

describe("in a folder and on S3 alike", () => {
  test.for([
    ["Delta Lake", "markets/", ["markets/_delta_log/00000000000000000000.json"]],
    ["Delta Lake", "markets/year=2025/", ["markets/year=2025/_delta_log/_last_checkpoint"]],
    ["Delta Lake", "markets.parquet/", ["markets.parquet/_delta_log/0.json"]],
    ["Apache Iceberg", "markets/", ["markets/metadata/version-hint.text"]],
    ["Apache Iceberg", "markets/", ["markets/metadata/00001-0a1b.metadata.json", "markets/data/b.parquet"]],
    ["Apache Iceberg", "markets/", ["markets/metadata/00001-0a1b.gz.metadata.json"]],
    ["Apache Hudi", "markets/", ["markets/.hoodie/hoodie.properties"]],
    ["Apache Paimon", "markets/", ["markets/snapshot/LATEST", "markets/schema/schema-0"]],
    ["Lance", "markets/", ["markets/_versions/1.manifest"]],
    ["Spark's streaming sink", "markets/", ["markets/_spark_metadata/0"]],
    ["DuckLake", "markets/", ["markets/ducklake-019a4f0c-7f0a-7b3e-8f8e-3b0e6a1f2c4d.parquet"]],
  ] as const)("a table of %s at %s is refused, with the way", async ([format, file, names]) => {
    const way = "whose log says which of its files are live; list those in a script";
    const rule = expect.stringMatching(`^is a table of ${format}, ${way}`);
    const { refusals } = await outcomeOfNames(["markets/part-0.parquet", ...names]);
    expect(refusals).toEqual([{ file, rule }]);
  });

  test("names of hidden and unfinished files and folders are passed over, and counted", async () => {
    const passed = ["_temporary/", ".staging/", "tmp_day.parquet", ".part-1.parquet", "a/_part-1.parquet"];
    const within = ["_temporary/0/task_1/part-0.parquet", ".staging/_delta_log/0.json", ".staging/x.parquet"];
    const uncounted = [
      "_SUCCESS",
      "_metadata",
      ".DS_Store",
      "readme.txt",
      "day.parquet.crc",
      "metadata/notes.json",
    ];
    const read = [
      "day.parquet",
      "a/tmp.parquet",
      "b_/x._.parquet",
      "tmp_a/b.parquet",
      "[x]=_/day[1].parquet",
    ];
    const names = [...passed.filter((name) => !name.endsWith("/")), ...within, ...uncounted, ...read];
    const below = (all: readonly string[]) => all.map((name) => `markets/${name}`).sort();
    const outcome = await outcomeOfNames(below(names));
    expect(outcome).toEqual({ files: below(read), passed: below(passed) });
    expect(passedWarning(outcome.passed!)).toEqual([
      "passed over 5 files and folders named _*, .* or tmp_*.parquet: markets/.part-1.parquet, " +
        "markets/.staging/, markets/_temporary/, markets/a/_part-1.parquet, markets/tmp_day.parquet",
    ]);
  });

  const missing = "is missing, and there is no Parquet file below markets/ in PLACE";
  const ending = "has another ending than .parquet, and is not read; rename it, or move it elsewhere";
  const folderRule = "is a folder; name it markets/";
  test.for<[names: string[], file: string, rule: string]>([
    [["markets.parquet/part-0.parquet"], "markets.parquet/", folderRule],
    [["markets.parquet/"], "markets.parquet/", folderRule],
    [["markets.parquet/x.txt", "markets/a.parquet"], "markets.parquet/", folderRule],
    [["Markets/part-0.parquet"], "markets.parquet", `${missing}; there is Markets/, protocol_scores.parquet`],
    [["markets.parq"], "markets.parquet", `${missing}; there is markets.parq, protocol_scores.parquet`],
    [["markets/part-0.parq"], "markets/part-0.parq", ending],
    [["markets/a.parquet", "markets/b/c.PARQUET"], "markets/b/c.PARQUET", ending],
    [["markets/day.csv"], "markets.parquet", `${missing}; there is markets/day.csv`],
    [["markets/_temporary/a.parquet"], "markets.parquet", `${missing}; there is markets/_temporary/`],
    [
      ["markets.parquet", "markets/a.parquet"],
      "markets.parquet",
      "stands beside markets/, which holds Parquet files too; keep one of them",
    ],
  ])("%j are refused by what is there", async ([names, file, rule]) => {
    expect(await outcomeOfNames(names)).toEqual({ refusals: [{ file, rule }] });
  });
});
