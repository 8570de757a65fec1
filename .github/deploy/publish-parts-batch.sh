#!/bin/sh
# Publishes by eight jobs of AWS Batch at once (OPERATING.md, "In parts"): publish-parts-batch.sh RUN
# JOB_QUEUE and JOB_DEFINITION name a queue, and a definition of the image of the Dockerfile with the role
# prs-publisher. Batch tries a job twice more, but for what ended with 2, 3 or 4, where another try would end so, too.
# Whoever watches failed jobs leaves out those whose exit code is 4: the next run plans anew.
set -eu
run=$1
final='{"onExitCode": "2", "action": "EXIT"}, {"onExitCode": "3", "action": "EXIT"}, {"onExitCode": "4", "action": "EXIT"}'

# submit STEP COMMAND [OPTION...]: prints the id of the job
submit() {
  step=$1
  command=$2
  shift 2
  aws batch submit-job --job-name "$step-$run" --job-queue "$JOB_QUEUE" --job-definition "$JOB_DEFINITION" \
    --retry-strategy "{\"attempts\": 3, \"evaluateOnExit\": [$final]}" \
    --container-overrides "{\"command\": [\"scripts/snapshot.ts\", \"publish\", \"--sources\", \"$SOURCES\",
      \"--store\", \"$STORE\", $command, \"--run\", \"$run\"]}" --query jobId --output text "$@"
}

plan=$(submit plan '"--plan", "8"')
# Batch counts from 0, and sets AWS_BATCH_JOB_ARRAY_INDEX.
part=$(submit part '"--part", "AWS_BATCH_JOB_ARRAY_INDEX"' --array-properties size=8 --depends-on "jobId=$plan")
submit join '"--join"' --depends-on "jobId=$part"
