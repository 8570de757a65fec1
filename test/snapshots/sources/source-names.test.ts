import { readFileSync } from "node:fs";
import { mkdir, mkdtemp, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
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

/** Rows of names.txt. */
const rows = readFileSync(new URL("names.txt", import.meta.url), "utf8").match(/^[^#\n].*/gm)!;
const wordsOf = (text = "") => text.split(" ").filter(Boolean);

test.for(rows)("in a folder and on S3 alike: %s", async (row) => {
  const [, names, sign, told = ""] = /^(.*) ([-=]>) (.*)$/.exec(row)!;
  const outcome = await outcomeOfNames(wordsOf(names));
  const [files, passed] = told.split(" | ");
  const [, file, rule] = /^(\S+): (.*)$/.exec(told) ?? [];
  expect(outcome).toEqual(
    sign === "->" ? { refusals: [{ file, rule }] } : { files: wordsOf(files), passed: wordsOf(passed) },
  );
  if (passed)
    expect(passedWarning(outcome.passed!)).toEqual([
      `passed over 5 files and folders named _*, .* or tmp_*.parquet: ${passed.replaceAll(" ", ", ")}`,
    ]);
});
