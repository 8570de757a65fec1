"""Publishes by tasks of Spark (OPERATING.md, "In parts"):

    spark-submit [OPTION...] publish_parts.py RUN PARTS SOURCES STORE

The driver plans and joins, and each part is a task. Every machine has this service in the folder PRS_HOME, and
reaches SOURCES and STORE, which are absolute paths or in S3. Parts get variables, such as SIGNING_KEY for a signed
store, by options like --conf spark.executorEnv.SIGNING_KEY=FILE. Spark makes a part again that failed or whose
executor was lost, and begins one that is slow on another machine, too. A part that is made twice does no harm."""
import os
import subprocess
import sys

from pyspark import SparkConf, SparkContext

run, parts, sources, store = sys.argv[1:]
home = os.environ.get("PRS_HOME", "/opt/protocol-risk-score-service")
tries = 3
done, lost = 0, 4
# Another try would end with the same (OPERATING.md, "Commands").
final = (done, 2, 3, lost)


def publish(*step):
    """The exit code of a step, and what it said."""
    command = ["npm", "--prefix", home, "run", "--silent", "snapshot", "--", "publish", "--sources", sources]
    ended = subprocess.run(
        [*command, "--store", store, "--run", run, *step],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    print(ended.stdout, end="", file=sys.stderr, flush=True)
    return ended.returncode, ended.stdout


def make_part(number):
    """For a task of Spark. Raises where another try may help, with the end of what the part said."""
    code, said = publish("--part", str(number))
    if code in final:
        return code, said
    raise RuntimeError(f"part {number} of run {run} ended with {code}: {said[-2000:]}")


def make_parts(spark):
    """The exit code of a part that another try would not help."""
    numbers = spark.parallelize(range(1, int(parts) + 1), int(parts))
    codes = [done]
    for code, said in numbers.map(make_part).collect():
        if code != done:
            print(said, end="", file=sys.stderr, flush=True)
            codes.append(code)
    return codes[-1]


def on_driver(*step):
    """The exit code of a step that is tried as often as Spark tries a task."""
    for _ in range(tries):
        code, _said = publish(*step)
        if code in final:
            break
    return code


conf = SparkConf().setIfMissing("spark.app.name", f"publish {run}")
conf.setIfMissing("spark.task.maxFailures", str(tries)).setIfMissing("spark.speculation", "true")
with SparkContext(conf=conf) as spark:
    # Each step begins when the one before has succeeded.
    code = on_driver("--plan", parts) or make_parts(spark) or on_driver("--join")
# Another publisher was faster, which is no failure: the next run plans anew.
sys.exit(done if code == lost else code)
