import { execFile } from "node:child_process";
import { chmod, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, expect, test } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { exitCodes } from "../../scripts/cli.ts";
import { deployed } from "../helpers/http/deployed.ts";
import { snapshotCommand } from "../helpers/publish/commands.ts";
import { writeSources } from "../helpers/publish/sample-sources.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

const folder = testFolder();
const root = new URL("../..", import.meta.url).pathname;
const sources = join(folder, "sources");
let snapshotId: string;

beforeAll(async () => {
  await writeSources(sources, { markets: 60 });
  const alone = ["publish", "--sources", sources, "--store", "alone", "--json"];
  ({ snapshotId } = JSON.parse((await snapshotCommand(alone, { from: folder })).stdout));
});

test("the workflow's steps, run as its runners would, publish what one process does", async () => {
  const { jobs } = parse(deployed("publish-parts.yml"));
  const { part: parts } = jobs.part.strategy.matrix;
  expect([jobs.part.needs, jobs.join.needs]).toEqual(["plan", "part"]);
  expect(parts).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
  const step = async (job: string, env = {}) => {
    const { run } = jobs[job].steps.find(({ name }: { name?: string }) => name);
    // Two parts show as much as eight.
    const text = run.replace("--plan 8", "--plan 2");
    const where = { SOURCES: sources, STORE: join(folder, "workflow"), RUN: "17", RUNNER_TEMP: folder };
    const files = { GITHUB_OUTPUT: join(folder, "output"), GITHUB_STEP_SUMMARY: join(folder, "summary") };
    const options = { cwd: root, env: { ...process.env, ...where, ...files, ...env } };
    await promisify(execFile)("bash", ["-ec", text], options);
  };
  await step("plan");
  await Promise.all(parts.slice(0, 2).map((part: number) => step("part", { PART: String(part) })));
  await step("join");
  expect(await readFile(join(folder, "output"), "utf8")).toBe(`snapshot=${snapshotId}\n`);
});

/** Runs the command of a container of the image. */
const inContainer = (args: readonly string[], store: string, env = {}) => {
  const [script, ...command] = args.map((arg) =>
    arg.replace("s3://SOURCES_BUCKET", sources).replace("s3://STORE_BUCKET", join(folder, store)),
  );
  expect(script).toBe("scripts/snapshot.ts");
  return snapshotCommand([...command, "--json"], { from: folder, env });
};

test("the Jobs for Kubernetes, and those for AWS Batch, publish the same", async () => {
  const kubernetes = parseAllDocuments(deployed("publish-parts-kubernetes.yml")).map(
    (job) => job.toJS().spec,
  );
  expect(kubernetes.map(({ completions = 1 }) => completions)).toEqual([1, 8, 1]);
  const { usage, refused, lost } = exitCodes;
  for (const {
    backoffLimit,
    backoffLimitPerIndex = backoffLimit,
    podFailurePolicy,
    template,
  } of kubernetes) {
    expect([backoffLimitPerIndex, template.spec.restartPolicy]).toEqual([2, "Never"]);
    const [{ action, onExitCodes }, ...others] = podFailurePolicy.rules;
    expect([action, onExitCodes, others]).toEqual([
      "FailJob",
      { operator: "In", values: [usage, refused, lost] },
      [],
    ]);
  }

  // In the place of aws, which prints the id of the job.
  const programs = join(folder, "bin");
  await mkdir(programs);
  const submitted = join(folder, "submitted");
  await writeFile(
    join(programs, "aws"),
    `#!/bin/sh\nfor a; do printf '%s\\0' "$a"; done >>${submitted}\necho "id-of-$4"\n`,
  );
  await chmod(join(programs, "aws"), 0o755);
  const env = {
    PATH: `${programs}:${process.env.PATH}`,
    ...{
      JOB_QUEUE: "queue",
      JOB_DEFINITION: "prs",
      SOURCES: "s3://SOURCES_BUCKET",
      STORE: "s3://STORE_BUCKET",
    },
  };
  await promisify(execFile)(join(root, ".github/deploy/publish-parts-batch.sh"), ["run-1"], { env });
  const calls = (await readFile(submitted, "utf8")).split("batch\0").slice(1);
  const options = calls.map((call) => call.split("\0"));
  const given = (name: string) =>
    options.map((call) => (call.includes(name) ? call[call.indexOf(name) + 1] : undefined));
  expect(given("--array-properties")).toEqual([undefined, "size=8", undefined]);
  expect(given("--depends-on")).toEqual([undefined, "jobId=id-of-plan-run-1", "jobId=id-of-part-run-1"]);

  const [plan, part, join_] = kubernetes.map(({ template }) => template.spec.containers[0].args);
  const batch = given("--container-overrides").map((text) => JSON.parse(text!).command);
  // But for the variable that tells its part they run the same commands, so that one publish shows both.
  const variables = ["JOB_COMPLETION_INDEX", "AWS_BATCH_JOB_ARRAY_INDEX"];
  const ofBatch = (arg: string) => (arg === variables[0] ? variables[1] : arg);
  expect(batch).toEqual([plan, part.map(ofBatch), join_]);
  expect((await inContainer(plan, "both")).code).toBe(0);
  for (let index = 0; index < 8; index += 1) {
    const variable = variables[index % 2]!;
    const env = { [variable]: String(index) };
    expect((await inContainer([part, batch[1]][index % 2], "both", env)).code).toBe(0);
  }
  const joined = await inContainer(join_, "both");
  expect([joined.code, JSON.parse(joined.stdout).snapshotId]).toEqual([0, snapshotId]);
});
