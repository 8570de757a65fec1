#!/usr/bin/env bash
# Ends what ceph-start.sh started in DIR, by its pid files and nothing else. The data is in memory and goes with it.
set -euo pipefail
dir=$(realpath -m "${1:?usage: ceph-stop.sh DIR}")

# The number in a pid file may belong to another process by now; that of a dead one has no command line.
runs_here() { tr '\0' '\n' <"/proc/$1/cmdline" 2>/dev/null | grep -qxF "$dir/ceph.conf"; }

for file in "$dir"/run/*.pid; do
  [ -s "$file" ] || continue
  pid=$(<"$file")
  while runs_here "$pid"; do
    kill -KILL "$pid"
    sleep 0.05
  done
  rm -f "$file"
done
