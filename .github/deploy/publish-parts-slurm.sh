#!/bin/sh
# Publishes by tasks of Slurm (OPERATING.md, "In parts"): publish-parts-slurm.sh RUN [OPTION of sbatch...]
# Every node reaches SOURCES, STORE, this checkout and the current folder, where each job leaves what it said. PARTS
# names another number of parts than eight. On stdout come the ids of the three jobs.
set -eu
RUN=$1
shift
ROOT=$(cd "$(dirname "$0")/../.." && pwd)
export RUN ROOT SOURCES STORE

# submit NAME STEP [OPTION...]: prints the id of the job
submit() {
  name=$1-$RUN
  export STEP="$2"
  shift 2
  # What a lost node ran begins again on another. A job whose predecessor failed is cancelled instead of waiting for
  # ever.
  id=$(
    sbatch --parsable --requeue --kill-on-invalid-dep=yes --job-name="$name" --output="$name.out" --open-mode=append \
      "$@" <<'JOB'
#!/bin/sh
# The step is several words, and a task of an array has the number of its part.
npm --prefix "$ROOT" run --silent snapshot -- publish --sources "$SOURCES" --store "$STORE" --run "$RUN" \
  $STEP ${SLURM_ARRAY_TASK_ID:-}
code=$?
case $code in
  0 | 2 | 3) exit $code ;;
  4)
    # Another publisher was faster, which is no failure. The next run plans anew, so nothing of this one needs to begin.
    scancel --state=PENDING --name="part-$RUN"
    scancel --state=PENDING --name="join-$RUN"
    exit 0
    ;;
esac
# Whatever else it was is tried twice more. Slurm ends this job when it puts it back into the queue.
[ "${SLURM_RESTART_COUNT:-0}" -ge 2 ] || scontrol requeue "$SLURM_JOB_ID"
exit $code
JOB
  )
  # With several clusters the name of one follows.
  echo "${id%%;*}"
}

parts=${PARTS:-8}
plan=$(submit plan "--plan $parts" "$@")
part=$(submit part --part --array="1-$parts" --output="part-$RUN-%a.out" --dependency="afterok:$plan" "$@")
join=$(submit join --join --dependency="afterok:$part" "$@")
echo "$plan $part $join"
