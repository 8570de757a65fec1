#!/usr/bin/env bash
# Ends what slurm-start.sh started in DIR, with all jobs, and nothing else: slurm-stop.sh DIR. With the name of a node
# it ends what runs there.
set -euo pipefail
dir=$(realpath -m "${1:?usage: slurm-stop.sh DIR [NODE]}")
node=${2:-}

# Programs of Slurm and munge keep their logs open, also those that Slurm starts for a job and that hide their command
# line.
programs() {
  local link pid
  while read -r link; do
    pid=${link#/proc/} pid=${pid%%/*}
    case $(cat "/proc/$pid/comm" 2>/dev/null) in slurm* | munged) echo "$pid" ;; esac
  done < <(find /proc/[0-9]*/fd -maxdepth 1 -lname "$dir/log/${node:+slurmd-$node.log}*" 2>/dev/null)
}

# What a job runs has this in its environment.
jobs_here() {
  local file
  for file in $(grep -lzxsF "SLURM_CONF=$dir/slurm.conf" /proc/[0-9]*/environ); do
    if grep -qzxs "SLURMD_NODENAME=${node:-.*}" "$file"; then echo "${file//[^0-9]/}"; fi
  done
}

# The programs end first: one that saw its job end would tell.
while pids=$(programs && jobs_here) && [ -n "$pids" ]; do
  kill -KILL $pids 2>/dev/null || true
  sleep 0.05
done
