import { spawn } from "node:child_process";
import { once } from "node:events";
import { dirname, join } from "node:path";
import { text } from "node:stream/consumers";
import { onTestFinished } from "vitest";
import { fromEnvironment } from "./programs.ts";

/** The spark-submit of an installed Spark, or undefined where none is installed. */
export const findSpark = () => fromEnvironment("TEST_SPARK_SUBMIT", "Spark", "engines-install.sh");

/** Runs a program of Spark on two executors, which are processes of this machine, to its end. */
export async function submitToSpark(
  program: string,
  words: readonly string[],
  { folder, env = {} }: { folder: string; env?: NodeJS.ProcessEnv },
): Promise<{ code: number | null; stdout: string; stderr: string }> {
  // Half the work of so short a program is what Java's second compiler does.
  const java = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC";
  const local = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": java,
    "spark.executor.extraJavaOptions": java,
    "spark.ui.enabled": "false",
  };
  const conf = Object.entries(local).flatMap(([name, value]) => ["--conf", `${name}=${value}`]);
  const child = spawn(program, ["--master", "local-cluster[2,1,1024]", ...conf, ...words], {
    cwd: folder,
    env: {
      ...process.env,
      SPARK_LOCAL_IP: "127.0.0.1",
      SPARK_LOCAL_DIRS: folder,
      PYSPARK_PYTHON: join(dirname(program), "python"),
      ...env,
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  onTestFinished(() => void child.kill());
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "close")]);
  return { code: child.exitCode, stdout, stderr };
}
