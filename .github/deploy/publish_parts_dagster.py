"""Publishes by steps of Dagster (OPERATING.md, "In parts"): dagster dev -f publish_parts_dagster.py

What a step reports, such as markets, pages and the snapshot's id, and what it refuses, are its metadata. Every
machine has this service in the folder PRS_HOME, and reaches SOURCES and STORE, which are absolute paths or in S3.
PARTS names another number of parts than eight. A run that is executed again from where it failed goes on with the
parts that it has."""
import json
import os
import subprocess

from dagster import DynamicOut, DynamicOutput, Failure, MetadataValue, RetryPolicy, job, op

home = os.environ.get("PRS_HOME", "/opt/protocol-risk-score-service")
done, usage, refused, lost = 0, 2, 3, 4
policy = RetryPolicy(max_retries=2)


def publish(context, *step):
    """What a step reports. After a lost commit, which is no failure, it has an `error`."""
    run = context.run.root_run_id or context.run_id
    command = ["npm", "--prefix", home, "run", "--silent", "snapshot", "--", "publish", "--json", "--run", run]
    where = ["--sources", os.environ["SOURCES"], "--store", os.environ["STORE"]]
    ended = subprocess.run([*command, *where, *step], stdout=subprocess.PIPE, text=True)
    report = json.loads(ended.stdout or "{}")
    if ended.returncode in (done, lost):
        return report
    error = report.get("error", {})
    # Another try of what was refused would end so, too (OPERATING.md, "Commands").
    again = ended.returncode not in (usage, refused)
    words = error.get("message", f"{' '.join(step)} ended with exit code {ended.returncode}")
    raise Failure(words, metadata_of(error), allow_retries=again)


def metadata_of(report):
    """Dagster shows texts and numbers by themselves."""
    return {name: MetadataValue.json(v) if isinstance(v, (dict, list)) else v for name, v in report.items()}


@op(out=DynamicOut(), retry_policy=policy)
def plan(context):
    report = publish(context, "--plan", os.environ.get("PARTS", "8"))
    for number, markets in enumerate(report.get("parts", []), start=1):
        yield DynamicOutput(number, mapping_key=str(number), metadata={"markets": markets})


@op(retry_policy=policy)
def part(context, number):
    report = publish(context, "--part", str(number))
    context.add_output_metadata(metadata_of(report))
    return report


@op(retry_policy=policy)
def join(context, parts):
    # Another publisher was faster before all parts were made: the next run plans anew.
    if not parts or any("error" in report for report in parts):
        return
    context.add_output_metadata(metadata_of(publish(context, "--join")))


@job
def publish_in_parts():
    join(plan().map(part).collect())
