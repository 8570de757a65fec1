import { spawn } from "node:child_process";
import { once } from "node:events";
import { dirname, join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, onTestFinished, test } from "vitest";
import { snapshotCommand } from "../helpers/publish/commands.ts";
import { writeSegmented } from "../helpers/publish/segmented-sources.ts";
import { ancestorOf, freezeProcess, signalTo } from "../helpers/servers/processes.ts";
import { fromEnvironment } from "../helpers/servers/programs.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

const folder = testFolder();
/** The spark-submit of an installed Spark, or undefined where none is installed. */
const spark = fromEnvironment("TEST_SPARK_SUBMIT", "Spark", "python-install.sh engines");
const root = new URL("../..", import.meta.url).pathname;
const program = join(root, ".github/deploy/publish_parts.py");

const ofSpark = { SPARK_LOCAL_IP: "127.0.0.1", SPARK_LOCAL_DIRS: folder, PRS_HOME: root };

/** Runs publish_parts.py with these words, on two executors, which are processes of this machine, to its end. */
async function submit(...words: string[]) {
  // Half the work of so short a program is what Java's second compiler does.
  const java = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC";
  const local = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": java,
    "spark.executor.extraJavaOptions": java,
    "spark.ui.enabled": "false",
  };
  const conf = Object.entries(local).flatMap(([name, value]) => ["--conf", `${name}=${value}`]);
  const child = spawn(spark!, ["--master", "local-cluster[2,1,1024]", ...conf, program, ...words], {
    cwd: folder,
    env: { ...process.env, ...ofSpark, PYSPARK_PYTHON: join(dirname(spark!), "python") },
    stdio: ["ignore", "pipe", "pipe"],
  });
  onTestFinished(() => void child.kill());
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "close")]);
  return { code: child.exitCode, stdout, stderr };
}

test.skipIf(!spark)(
  "publish_parts.py makes what one process makes, also when an executor is lost",
  async () => {
    const sources = await writeSegmented(folder, "sources");
    const alone = ["publish", "--sources", sources, "--store", "alone", "--json"];
    const { snapshotId } = JSON.parse((await snapshotCommand(alone, { from: folder })).stdout);
    const store = join(folder, "store");
    const submitted = submit("cut", "3", sources, store);
    const early = submitted.then(({ stderr }) => expect.unreachable(stderr));
    const part = await Promise.race([freezeProcess(`--store ${store} --run cut --part`), early]);
    signalTo(ancestorOf(part, "ExecutorBackend"), "SIGKILL");
    signalTo(part, "SIGKILL");
    const { code, stdout, stderr } = await submitted;
    expect(stderr).toMatch(/Lost executor \d/);
    expect(stdout).toContain(`Published commit 1, snapshot ${snapshotId}`);
    expect(code).toBe(0);
  },
);
