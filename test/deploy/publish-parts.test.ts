import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, describe, expect, test } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { exitCodes } from "../../scripts/cli.ts";
import { deployed } from "../helpers/http/deployed.ts";
import { snapshotCommand } from "../helpers/publish/commands.ts";
import { withBroken, writeSegmented } from "../helpers/publish/segmented-sources.ts";
import { findProgram, fromEnvironment, nodeOptions } from "../helpers/servers/programs.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

const folder = testFolder();
/** A Python that has Dagster, or undefined where none is installed. */
const dagster = fromEnvironment("TEST_DAGSTER_PYTHON", "Dagster", "python-install.sh engines");
const root = new URL("../..", import.meta.url).pathname;
const file = (name: string) => join(root, ".github/deploy", name);
const sources = join(folder, "sources");
const jobs = parseAllDocuments(deployed("publish-parts-kubernetes.yml")).map((job) => job.toJS().spec);
const { jobs: workflow } = parse(deployed("publish-parts.yml"));
const where = { SOURCES: "s3://SOURCES_BUCKET", STORE: "s3://STORE_BUCKET" };
let snapshotId: string;
/** The options of each job that is submitted to AWS Batch. */
let submitted: string[][];

/**
 * Programs in the place of others, which write to the folder PLAY. `npm` ends the step STEP with CODE, and other steps
 * with 0.
 */
const programs = {
  npm: `case "$*" in *"$STEP"*) echo npm >>"$PLAY/log" ;; *) CODE=0 ;; esac
[ "$CODE" = 0 ] && echo '{"parts": [1]}' || echo '{"error": {}}'
exit "$CODE"`,
  scontrol: 'echo "$*" >>"$PLAY/log"',
  scancel: 'echo "$*" >>"$PLAY/log"',
  sbatch: 'cat >"$PLAY/$(echo "$STEP" | cut -d " " -f 1).job"; echo 1',
  aws: `for a; do printf '%s\\0' "$a"; done >>"$PLAY/submitted"; echo "id-of-$4"`,
};

/** Runs a script as npm does, without the time that npm takes. */
const plainNpm = `#!/bin/sh
cd "$2" && shift 6 && exec ${process.execPath} ${nodeOptions.join(" ")} scripts/snapshot.ts "$@"
`;

/** Spark's part in a program: it tries a task again that raises. */
const pyspark = `
class SparkConf(dict):
    def setIfMissing(self, name, value):
        self.setdefault(name, value)
        return self

class SparkContext:
    def __init__(self, conf):
        self.tries = int(conf["spark.task.maxFailures"])
    def __enter__(self):
        return self
    def __exit__(self, *error):
        pass
    def parallelize(self, values, slices):
        self.values = list(values)
        return self
    def map(self, task):
        self.task = task
        return self
    def collect(self):
        return [self.tried(value, self.tries) for value in self.values]
    def tried(self, value, left):
        try:
            return self.task(value)
        except RuntimeError:
            if left == 1:
                raise
            return self.tried(value, left - 1)
`;

/**
 * Plays the job of publish_parts_dagster.py once with each of the environments in its arguments. Tells of each what its
 * steps told with their outputs and failures, in order.
 */
const dagsterPlays = `
import json, os, sys
from publish_parts_dagster import publish_in_parts

def told(event):
    data = event.event_specific_data
    failed = event.event_type_value == "STEP_FAILURE"
    metadata = (data.user_failure_data and data.user_failure_data.metadata or {}) if failed else data.metadata
    return {
        "step": event.step_key,
        "kind": event.event_type_value,
        "metadata": {name: value.value for name, value in metadata.items()},
    }

ends = []
for environment in json.loads(sys.argv[1]):
    os.environ.update(environment)
    ended = publish_in_parts.execute_in_process(raise_on_error=False)
    events = [e for e in ended.all_events if e.event_type_value in ("STEP_OUTPUT", "STEP_FAILURE")]
    ends.append({"success": ended.success, "told": [told(event) for event in events]})
print(json.dumps(ends))
`;

/** Runs a program with these in the place of others. Returns its exit code, and what was called. */
async function play([program, ...words]: readonly string[], env: NodeJS.ProcessEnv & { PLAY: string }) {
  const PYTHONPATH = join(folder, "python");
  const options = { cwd: root, env: { ...process.env, ...env, PATH: pathOfPrograms(), PYTHONPATH } };
  const code = await promisify(execFile)(program!, words, options).then(
    () => 0,
    (error) => error.code as number,
  );
  return { code, log: await logIn(env.PLAY) };
}

const pathOfPrograms = () => `${join(folder, "bin")}:${process.env.PATH}`;

const logIn = async (play: string) => (await readFile(join(play, "log"), "utf8").catch(() => "")).split("\n");

const playFolder = () => mkdtemp(join(folder, "play-"));

beforeAll(async () => {
  await writeSegmented(folder, "sources");
  const alone = ["publish", "--sources", sources, "--store", "alone", "--json"];
  ({ snapshotId } = JSON.parse((await snapshotCommand(alone, { from: folder })).stdout));
  await mkdir(join(folder, "bin"));
  for (const [name, script] of Object.entries(programs))
    await writeFile(join(folder, "bin", name), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  await mkdir(join(folder, "plain"));
  await writeFile(join(folder, "plain/npm"), plainNpm, { mode: 0o755 });
  await mkdir(join(folder, "python"));
  await writeFile(join(folder, "python/pyspark.py"), pyspark);
  const PLAY = await playFolder();
  const batch = { JOB_QUEUE: "queue", JOB_DEFINITION: "prs" };
  await play([file("publish-parts-batch.sh"), "run-1"], { ...where, ...batch, PLAY });
  const calls = (await readFile(join(PLAY, "submitted"), "utf8")).split("batch\0").slice(1);
  submitted = calls.map((call) => call.split("\0"));
});

const commandOf = (job: string): string =>
  workflow[job].steps.find(({ name }: { name?: string }) => name).run;

test("the workflow's steps, run as its runners would, publish what one process does", async () => {
  const { part: parts } = workflow.part.strategy.matrix;
  expect([workflow.part.needs, workflow.join.needs]).toEqual(["plan", "part"]);
  expect(parts).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
  const step = async (job: string, env = {}) => {
    // Two parts show as much as eight.
    const text = commandOf(job).replace("--plan 8", "--plan 2");
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

/** An option of each job that is submitted to AWS Batch. */
const given = (name: string) =>
  submitted.map((call) => (call.includes(name) ? call[call.indexOf(name) + 1] : undefined));

test("the Jobs for Kubernetes, and those for AWS Batch, publish the same", async () => {
  expect(jobs.map(({ completions = 1 }) => completions)).toEqual([1, 8, 1]);
  expect(given("--array-properties")).toEqual([undefined, "size=8", undefined]);
  expect(given("--depends-on")).toEqual([undefined, "jobId=id-of-plan-run-1", "jobId=id-of-part-run-1"]);

  const [plan, part, join_] = jobs.map(({ template }) => template.spec.containers[0].args);
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

const steps = ["plan", "part", "join"];

/** Whether a step that ends with a code counts as success, by the file of an engine, and after how many tries. */
type Engine = (step: string, code: number) => Promise<readonly [success: boolean, tries: number]>;

const engines: Record<string, Engine> = {
  async kubernetes(step, code) {
    const { backoffLimit, backoffLimitPerIndex, podFailurePolicy, template } = jobs[steps.indexOf(step)];
    expect(template.spec.restartPolicy).toBe("Never");
    const rule = podFailurePolicy.rules.find(
      ({ onExitCodes: { operator, values } }: { onExitCodes: { operator: string; values: number[] } }) =>
        values.includes(code) === (operator === "In"),
    );
    const once = code === 0 || rule?.action === "FailJob";
    return [code === 0, once ? 1 : 1 + (backoffLimitPerIndex ?? backoffLimit)];
  },
  async batch(step, code) {
    const { attempts, evaluateOnExit } = JSON.parse(given("--retry-strategy")[steps.indexOf(step)]!);
    const isIt = ({ onExitCode }: { onExitCode: string }) => onExitCode === String(code);
    const once = code === 0 || evaluateOnExit.find(isIt)?.action === "EXIT";
    return [code === 0, once ? 1 : attempts];
  },
  async github(step, code) {
    expect(workflow.part.strategy["fail-fast"]).toBe(false);
    const PLAY = await playFolder();
    const runner = { RUNNER_TEMP: PLAY, GITHUB_STEP_SUMMARY: join(PLAY, "s") };
    const env = { ...where, ...runner, PLAY, RUN: "17", PART: "1", STEP: step, CODE: String(code) };
    const ended = await play(["bash", "-ec", commandOf(step)], env);
    return [ended.code === 0, 1];
  },
  async slurm(step, code) {
    const PLAY = await playFolder();
    const env = { ...where, PLAY, RUN: "run-1", ROOT: root, STEP: `--${step}`, CODE: String(code) };
    await play([file("publish-parts-slurm.sh"), "run-1"], env);
    const job = ["sh", join(PLAY, `--${step}.job`)];
    for (let restarts = 0; ; restarts += 1) {
      const ended = await play(job, { ...env, SLURM_JOB_ID: "7", SLURM_RESTART_COUNT: String(restarts) });
      if (ended.log.filter((call) => call === "requeue 7").length > restarts) continue;
      const cancelled = ended.log.includes("--state=PENDING --name=join-run-1");
      expect(cancelled).toBe(code === exitCodes.lost);
      return [ended.code === 0, restarts + 1];
    }
  },
  async spark(step, code) {
    const env = { PLAY: await playFolder(), STEP: `--${step}`, CODE: String(code) };
    const ended = await play(["python3", file("publish_parts.py"), "run-1", "1", "a", "b"], env);
    return [ended.code === 0, triesIn(ended.log)];
  },
  async dagster(step, code) {
    const { ends, folders } = await played();
    const index = steps.indexOf(step) * 7 + code;
    return [ends[index]!.success, triesIn(await logIn(folders[index]!))];
  },
};

const triesIn = (log: readonly string[]) => log.filter((call) => call === "npm").length;

interface DagsterEnd {
  success: boolean;
  told: { step: string; kind: "STEP_OUTPUT" | "STEP_FAILURE"; metadata: Record<string, unknown> }[];
}

let playing: ReturnType<typeof playDagster> | undefined;
const played = () => {
  playing ??= playDagster();
  return playing;
};

/** By one Dagster, which takes seconds to start: each step with each code, and two real publishes of sources. */
async function playDagster() {
  const codes = steps.flatMap((step) => Array.from({ length: 7 }, (_, code) => ({ step, code })));
  const folders = await Promise.all(codes.map(playFolder));
  const plays = codes.map(({ step, code }, index) => ({
    ...where,
    PATH: pathOfPrograms(),
    PLAY: folders[index],
    STEP: `--${step}`,
    CODE: String(code),
  }));
  const broken = await writeSegmented(folder, "broken", withBroken("composite", "9"));
  const published = [sources, broken].map((SOURCES) => ({
    PATH: `${join(folder, "plain")}:${process.env.PATH}`,
    SOURCES,
    STORE: join(folder, `dagster-${SOURCES === sources}`),
    // One part is enough for a refusal.
    PARTS: SOURCES === sources ? "2" : "1",
  }));
  const env = { PYTHONPATH: file(""), PYTHONDONTWRITEBYTECODE: "1", PRS_HOME: root };
  const given = ["-c", dagsterPlays, JSON.stringify([...plays, ...published])];
  const options = { env: { ...process.env, ...env }, maxBuffer: 2 ** 26 };
  const { stdout } = await promisify(execFile)(dagster!, given, options);
  return { ends: JSON.parse(stdout) as DagsterEnd[], folders };
}

test.skipIf(!dagster)("Dagster is told rows, root and refusals of what it publishes", async () => {
  const [made, refused] = (await played()).ends.slice(-2);
  expect(made!.success).toBe(true);
  expect(made!.told.map(({ step }) => step)).toEqual(["plan", "plan", "part[1]", "part[2]", "join"]);
  const rows = made!.told.slice(2, 4).map(({ metadata }) => Number(metadata.markets));
  expect(rows.reduce((sum, of) => sum + of)).toBe(300);
  expect(made!.told.at(-1)!.metadata).toMatchObject({ outcome: "published", snapshotId });
  const refusals = expect.arrayContaining([expect.objectContaining({ column: "composite" })]);
  const failure = { step: "join", kind: "STEP_FAILURE", metadata: { exitCode: 3, refusals } };
  expect(refused!.told.at(-1)).toMatchObject(failure);
});

describe("what ends with exit codes 0 to 6", () => {
  const [done, final, again] = ["succeeds", "fails", "fails after 3 tries"];
  test.for([
    ["kubernetes", [done, again, final, final, final, again, again]],
    ["batch", [done, again, final, final, final, again, again]],
    // A person starts failed jobs again.
    ["github", [done, final, final, final, done, final, final]],
    ["slurm", [done, again, final, final, done, again, again]],
    ["spark", [done, again, final, final, done, again, again]],
    ["dagster", [done, again, final, final, done, again, again]],
  ] as const)("%s", async ([name, wanted], { skip }) => {
    if (name === "spark" && !findProgram("python3")) skip();
    if (name === "dagster" && !dagster) skip();
    for (const step of steps) {
      const ends = await Promise.all(wanted.map((_, code) => engines[name]!(step, code)));
      const told = ends.map(([success, tries]) => {
        return `${success ? "succeeds" : "fails"}${tries > 1 ? ` after ${tries} tries` : ""}`;
      });
      expect([step, told]).toEqual([step, wanted]);
    }
  });
});
