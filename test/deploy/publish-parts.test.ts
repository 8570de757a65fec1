import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, expect, onTestFinished, test } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { exitCodes } from "../../scripts/cli.ts";
import { deployed } from "../helpers/http/deployed.ts";
import { snapshotCommand } from "../helpers/publish/commands.ts";
import { withBroken, writeSegmented } from "../helpers/publish/segmented-sources.ts";
import { ancestorOf, freezeProcess, signalTo } from "../helpers/servers/processes.ts";
import { findProgram, fromEnvironment, nodeOptions } from "../helpers/servers/programs.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

const folder = testFolder();
/** The configuration of a running Slurm of two nodes, Spark's program, and a Python that has Dagster. */
const slurm = fromEnvironment("TEST_SLURM_CONF", "Slurm", "slurm-start.sh");
const spark = fromEnvironment("TEST_SPARK_SUBMIT", "Spark", "python-install.sh engines");
const dagster = fromEnvironment("TEST_DAGSTER_PYTHON", "Dagster", "python-install.sh engines");
const run = promisify(execFile);
const root = new URL("../..", import.meta.url).pathname;
const file = (name: string) => join(root, ".github/deploy", name);
const sources = join(folder, "sources");
const jobs = parseAllDocuments(deployed("publish-parts-kubernetes.yml")).map((job) => job.toJS().spec);
const { jobs: workflow } = parse(deployed("publish-parts.yml"));
const where = { SOURCES: "s3://SOURCES_BUCKET", STORE: "s3://STORE_BUCKET" };
let snapshotId: string;

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
const plainNpm = `while [ "$1" != -- ]; do [ "$1" != --prefix ] || cd "$2"; shift; done
shift
exec ${process.execPath} ${nodeOptions.join(" ")} scripts/snapshot.ts "$@"`;

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

/** The PATH with programs before it that this folder has. */
const pathWith = (name: string) => `${join(folder, name)}:${process.env.PATH}`;

/** Variables under which a step ends with a code. */
const playOf = async (step: string, code: number) => ({
  ...where,
  PATH: pathWith("bin"),
  PYTHONPATH: join(folder, "python"),
  PLAY: await mkdtemp(join(folder, "play-")),
  STEP: `--${step}`,
  CODE: String(code),
});
type Play = Awaited<ReturnType<typeof playOf>>;

/** What was called in a play. */
const calledIn = async ({ PLAY }: Play) =>
  (await readFile(join(PLAY, "log"), "utf8").catch(() => "")).trimEnd().split("\n");

/** Whether a program ends well, in the folder of the project. */
const endsWell = (program: string, args: readonly string[], env: NodeJS.ProcessEnv) =>
  run(program, args, { cwd: root, env: { ...process.env, ...env } }).then(
    () => true,
    () => false,
  );

beforeAll(async () => {
  await writeSegmented(folder, "sources");
  const alone = ["publish", "--sources", sources, "--store", "alone", "--json"];
  ({ snapshotId } = JSON.parse((await snapshotCommand(alone, { from: folder })).stdout));
  for (const name of ["bin", "plain", "python"]) await mkdir(join(folder, name));
  for (const [name, script] of Object.entries(programs).concat([["../plain/npm", plainNpm]]))
    await writeFile(join(folder, "bin", name), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  await writeFile(join(folder, "python/pyspark.py"), pyspark);
});

test("the workflow's steps, run as its runners would, publish what one process does", async () => {
  const { strategy, needs } = workflow.part;
  expect([needs, workflow.join.needs]).toEqual(["plan", "part"]);
  expect(strategy).toEqual({ "fail-fast": false, matrix: { part: [1, 2, 3, 4, 5, 6, 7, 8] } });
  const step = async (job: string, PART = "") => {
    const { run: command } = workflow[job].steps.find(({ name }: { name?: string }) => name);
    const where = { SOURCES: sources, STORE: join(folder, "workflow"), RUN: "17", RUNNER_TEMP: folder };
    const files = { GITHUB_OUTPUT: join(folder, "output"), GITHUB_STEP_SUMMARY: join(folder, "summary") };
    const env = { ...process.env, ...where, ...files, PATH: pathWith("plain"), PART };
    // Two parts show as much as eight.
    await run("bash", ["-ec", command.replace("--plan 8", "--plan 2")], { cwd: root, env });
  };
  await step("plan");
  await Promise.all(["1", "2"].map((part) => step("part", part)));
  await step("join");
  expect(await readFile(join(folder, "output"), "utf8")).toBe(`snapshot=${snapshotId}\n`);
});

/** Runs the command of a container of the image. Two parts show as much as eight. */
const inContainer = (args: readonly string[], env = {}) => {
  const [script, ...command] = args.map((arg) =>
    arg.replace(where.SOURCES, sources).replace(where.STORE, join(folder, "both")).replace(/^8$/, "2"),
  );
  expect(script).toBe("scripts/snapshot.ts");
  return snapshotCommand([...command, "--json"], { from: folder, env });
};

test("the Jobs for Kubernetes, and those for AWS Batch, publish the same", async () => {
  const env = { ...(await playOf("", 0)), JOB_QUEUE: "queue", JOB_DEFINITION: "prs" };
  expect(await endsWell(file("publish-parts-batch.sh"), ["run-1"], env)).toBe(true);
  const submitted = (await readFile(join(env.PLAY, "submitted"), "utf8")).split("batch\0").slice(1);
  /** An option of each job that is submitted. */
  const given = (name: string) =>
    submitted.map((call) => new RegExp(`\0${name}\0([^\0]*)`).exec(call)?.[1] ?? "null");
  expect(jobs.map(({ completions = 1 }) => completions)).toEqual([1, 8, 1]);
  expect(given("--array-properties")).toEqual(["null", "size=8", "null"]);
  expect(given("--depends-on")).toEqual(["null", "jobId=id-of-plan-run-1", "jobId=id-of-part-run-1"]);

  const [plan, part, join_] = jobs.map(({ template }) => template.spec.containers[0].args);
  const batch = given("--container-overrides").map((text) => JSON.parse(text).command);
  // But for the variable that tells its part they run the same commands, so that one publish shows both.
  const variables = ["JOB_COMPLETION_INDEX", "AWS_BATCH_JOB_ARRAY_INDEX"];
  const ofBatch = (arg: string) => (arg === variables[0] ? variables[1] : arg);
  expect(batch).toEqual([plan, part.map(ofBatch), join_]);
  expect((await inContainer(plan)).code).toBe(0);
  for (const [index, variable] of variables.entries())
    expect((await inContainer([part, batch[1]][index], { [variable]: String(index) })).code).toBe(0);
  const joined = await inContainer(join_);
  expect([joined.code, JSON.parse(joined.stdout).snapshotId]).toEqual([0, snapshotId]);

  // What another try would end as, too, is not tried again, and anything else twice.
  const { usage, refused, lost } = exitCodes;
  const final = [usage, refused, lost];
  const rules = [{ action: "FailJob", onExitCodes: { operator: "In", values: final } }];
  for (const { backoffLimitPerIndex, backoffLimit = backoffLimitPerIndex, ...job } of jobs)
    expect([backoffLimit, job]).toMatchObject([
      2,
      { podFailurePolicy: { rules }, template: { spec: { restartPolicy: "Never" } } },
    ]);
  const evaluateOnExit = final.map((code) => ({ onExitCode: String(code), action: "EXIT" }));
  for (const strategy of given("--retry-strategy"))
    expect(JSON.parse(strategy)).toEqual({ attempts: 3, evaluateOnExit });
});

const [done, final, again] = ["succeeds", "fails", "fails after 3 tries"];
/** How a step ends whose command ends with exit code 0 to 6. */
const ends = [done, again, final, final, done, again, again];
/** Every code in the last step, and one of each kind in the others, which come by the same lines. */
const plays = [1, 3, 4]
  .flatMap((code): [string, number][] => [
    ["plan", code],
    ["part", code],
  ])
  .concat(ends.map((_, code) => ["join", code]));

/** Plays every step with its codes, and expects of an engine, which tells whether each ended well, these ends. */
async function expectEnds(engine: (plays: Play[]) => Promise<boolean[]>): Promise<void> {
  const played = await Promise.all(plays.map((play) => playOf(...play)));
  const well = await engine(played);
  const told = played.map(async (play, index) => {
    const tries = (await calledIn(play)).filter((call) => call === "npm").length;
    return `${well[index] ? "succeeds" : "fails"}${tries > 1 ? ` after ${tries} tries` : ""}`;
  });
  expect((await Promise.all(told)).map((end, index) => [...plays[index]!, end])).toEqual(
    plays.map(([step, code]) => [step, code, ends[code]]),
  );
}

test("publish-parts-slurm.sh tries again what may help, and begins nothing after a lost commit", () =>
  expectEnds((played) =>
    Promise.all(
      played.map(async (play) => {
        await endsWell(file("publish-parts-slurm.sh"), ["run-1"], play);
        for (let restarts = 0; ; restarts += 1) {
          const job = { ...play, RUN: "run-1", ROOT: root, SLURM_JOB_ID: "7" };
          const env = { ...job, SLURM_RESTART_COUNT: String(restarts) };
          const well = await endsWell("sh", [join(play.PLAY, `${play.STEP}.job`)], env);
          const calls = await calledIn(play);
          if (calls.at(-1) === "requeue 7") continue;
          const cancelled = calls.includes("--state=PENDING --name=join-run-1");
          expect(cancelled).toBe(play.CODE === String(exitCodes.lost));
          return well;
        }
      }),
    ),
  ));

test.skipIf(!findProgram("python3"))("publish_parts.py tries again what may help", () =>
  expectEnds((played) =>
    Promise.all(
      played.map((play) => endsWell("python3", [file("publish_parts.py"), "run-1", "1", "a", "b"], play)),
    ),
  ),
);

interface DagsterEnd {
  success: boolean;
  told: { step: string; kind: "STEP_OUTPUT" | "STEP_FAILURE"; metadata: Record<string, unknown> }[];
}

// By one Dagster, which takes seconds to start.
test.skipIf(!dagster)(
  "publish_parts_dagster.py tries again what may help, and is told rows, root and refusals",
  async () => {
    const broken = await writeSegmented(folder, "broken", withBroken("composite", "9"));
    const published = [sources, broken].map((SOURCES) => ({
      PATH: pathWith("plain"),
      SOURCES,
      STORE: join(folder, `dagster-${SOURCES === sources}`),
      // One part is enough for a refusal.
      PARTS: SOURCES === sources ? "2" : "1",
    }));
    let [made, refused]: DagsterEnd[] = [];
    await expectEnds(async (played) => {
      const own = { PYTHONPATH: file(""), PYTHONDONTWRITEBYTECODE: "1", PRS_HOME: root };
      const given = ["-c", dagsterPlays, JSON.stringify([...played, ...published])];
      const options = { env: { ...process.env, ...own }, maxBuffer: 2 ** 26 };
      const ended: DagsterEnd[] = JSON.parse((await run(dagster!, given, options)).stdout);
      [made, refused] = ended.splice(-2);
      return ended.map(({ success }) => success);
    });
    expect(made!.success).toBe(true);
    expect(made!.told.map(({ step }) => step)).toEqual(["plan", "plan", "part[1]", "part[2]", "join"]);
    const rows = made!.told.slice(2, 4).map(({ metadata }) => Number(metadata.markets));
    expect(rows.reduce((sum, of) => sum + of)).toBe(300);
    expect(made!.told.at(-1)!.metadata).toMatchObject({ outcome: "published", snapshotId });
    const refusals = expect.arrayContaining([expect.objectContaining({ column: "composite" })]);
    const failure = { step: "join", kind: "STEP_FAILURE", metadata: { exitCode: 3, refusals } };
    expect(refused!.told.at(-1)).toMatchObject(failure);
  },
);

test.skipIf(!slurm)(
  "Slurm makes what one process makes though a node is lost amid a part, and takes back what waits for a plan that fails",
  async () => {
    const env = { ...process.env, SLURM_CONF: slurm, PATH: `${pathWith("plain")}:/usr/sbin`, PARTS: "2" };
    const scontrol = async (...words: string[]) => (await run("scontrol", words, { env })).stdout;
    const submit = async (name: string, SOURCES: string) => {
      const options = { cwd: folder, env: { ...env, SOURCES, STORE: join(folder, `store-${name}`) } };
      const { stdout } = await run(file("publish-parts-slurm.sh"), [name], options);
      return stdout.trim().split(" ") as [plan: string, part: string, last: string];
    };
    /** State, restarts and exit code of a job, or of each task of an array. */
    const told = async (id: string) => {
      const jobs = await scontrol("--oneliner", "show", "job", id);
      const words = jobs.matchAll(/ JobState=(\w+) .* Restarts=(\d+) .* ExitCode=(\S+)/g);
      return [...words].map(([, ...each]) => each.join(" ")).toSorted();
    };
    const ended = async (id: string) => {
      const over = /^(COMPLETED|FAILED|CANCELLED) /;
      const isOver = async () => (await told(id)).every((task) => over.test(task));
      await expect.poll(isOver, { interval: 100 }).toBe(true);
      return told(id);
    };
    onTestFinished(() => void run("slurmd", ["-N", "n2"], { env }));
    const early = await submit("early", join(folder, "nowhere"));
    const [, part, last] = await submit("cut", sources);
    const words = `--store ${join(folder, "store-cut")} --run cut --part`;
    await freezeProcess(words, [`SLURM_CONF=${slurm}`, "SLURMD_NODENAME=n2"]);
    // As a power cut would, which Slurm then sees.
    await run(join(root, "test/servers/slurm-stop.sh"), [dirname(slurm!), "n2"]);
    await scontrol("update", "NodeName=n2", "State=DOWN", "Reason=lost");
    const well = "COMPLETED 0 0:0";
    expect(await ended(part)).toEqual([well, "COMPLETED 1 0:0"]);
    expect(await ended(last)).toEqual([well]);
    expect(await readFile(join(folder, "join-cut.out"), "utf8")).toContain(
      `Published commit 1, snapshot ${snapshotId}`,
    );
    expect(await Promise.all(early.map(ended))).toEqual([
      ["FAILED 0 3:0"],
      ["CANCELLED 0 0:0"],
      ["CANCELLED 0 0:0"],
    ]);
    expect(await readFile(join(folder, "plan-early.out"), "utf8")).toContain("nowhere");
  },
);

test.skipIf(!spark)("Spark makes what one process makes though an executor is lost", async () => {
  // Half the work of so short a program is what Java's second compiler does.
  const java = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC";
  const conf = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": java,
    "spark.executor.extraJavaOptions": java,
    "spark.ui.enabled": "false",
  };
  const STORE = join(folder, "store-spark");
  const submitted = run(
    spark!,
    [
      // An executor, which is a process of this machine. When it is lost, there is another.
      ...["--master", "local-cluster[1,1,1024]"],
      ...Object.entries(conf).flatMap(([name, value]) => ["--conf", `${name}=${value}`]),
      ...[file("publish_parts.py"), "cut", "2", sources, STORE],
    ],
    {
      cwd: folder,
      env: {
        ...process.env,
        ...{ PATH: pathWith("plain"), PRS_HOME: root, PYSPARK_PYTHON: join(dirname(spark!), "python") },
        ...{ SPARK_LOCAL_IP: "127.0.0.1", SPARK_LOCAL_DIRS: folder },
      },
      maxBuffer: 2 ** 26,
    },
  );
  onTestFinished(() => void submitted.child.kill());
  const early = submitted.then(({ stderr }) => expect.unreachable(stderr));
  const part = await Promise.race([freezeProcess(`--store ${STORE} --run cut --part`), early]);
  signalTo(ancestorOf(part, "ExecutorBackend"), "SIGKILL");
  signalTo(part, "SIGKILL");
  const { stdout, stderr } = await submitted;
  expect(stderr).toMatch(/Lost executor \d/);
  expect(stdout).toContain(`Published commit 1, snapshot ${snapshotId}`);
});
