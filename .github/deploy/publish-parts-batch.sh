#!/bin/sh
# Publishes by eight jobs of AWS Batch at once (OPERATING.md, "In parts"): publish-parts-batch.sh RUN
# JOB_QUEUE and JOB_DEFINITION name a queue, and a definition of the image of the Dockerfile with the role prs-publisher.
set -eu
run=$1

# submit STEP COMMAND [OPTION...]: prints the id of the job
submit() {
  step=$1
  command=$2
  shift 2
  aws batch submit-job --job-name "$step-$run" --job-queue "$JOB_QUEUE" --job-definition "$JOB_DEFINITION" \
    --container-overrides "{\"command\": [\"scripts/snapshot.ts\", \"publish\", \"--sources\", \"$SOURCES\",
      \"--store\", \"$STORE\", $command, \"--run\", \"$run\"]}" --query jobId --output text "$@"
}

plan=$(submit plan '"--plan", "8"')
# Batch counts from 0, and sets AWS_BATCH_JOB_ARRAY_INDEX.
part=$(submit part '"--part", "AWS_BATCH_JOB_ARRAY_INDEX"' --array-properties size=8 --depends-on "jobId=$plan")
submit join '"--join"' --depends-on "jobId=$part"
