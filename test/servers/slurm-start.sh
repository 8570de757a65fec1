#!/usr/bin/env bash
# Starts a throw-away Slurm of two nodes on loopback, which one process of slurmd each stands for, in a second:
#
#   test/servers/slurm-start.sh DIR          several may run at a time, each in its DIR
#   test/servers/slurm-stop.sh DIR [NODE]    ends it, or one of its nodes, n1 or n2, as a power cut would
#
# It needs no root and no control groups, and the Debian packages slurm-wlm and munge. On stdout come the KEY=VALUE
# lines that the tests read from their environment; everything else goes to stderr and to DIR/log.
set -Eeuo pipefail

dir=$(realpath -m "${1:?usage: slurm-start.sh DIR}")
servers=$(cd "$(dirname "$0")" && pwd)
. "$servers/start.sh"
PATH=$PATH:/usr/sbin:/sbin

failed() {
  say "failed; logs are in $dir/log"
  tail -n 5 "$dir"/log/* >&2 || true
  "$servers/slurm-stop.sh" "$dir"
}

require "slurm-wlm munge" slurmctld slurmd sbatch munged
clear_folder slurm.conf log state spool-n1 spool-n2 munge.{key,seed,pid,sock,sock.lock} cgroup.conf
trap failed ERR

mkdir -p "$dir"/{log,state}
host=$(hostname -s)
user=$(id -un)
cat >"$dir/slurm.conf" <<CONF
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$(free_port)
SlurmUser=$user
SlurmdUser=$user
# A job that is put back waits until the credentials of its first run have ended; it would be two minutes.
AuthInfo=socket=$dir/munge.sock,cred_expire=5
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool-%n
SlurmctldPidFile=$dir/state/slurmctld.pid
SlurmdPidFile=$dir/state/slurmd-%n.pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/slurmd-%n.log
# Without control groups.
ProctrackType=proctrack/linuxproc
SchedulerParameters=batch_sched_delay=0,sched_interval=1
ReturnToService=2
NodeName=n1 NodeHostname=$host NodeAddr=127.0.0.1 Port=$(free_port) CPUs=1
NodeName=n2 NodeHostname=$host NodeAddr=127.0.0.1 Port=$(free_port) CPUs=1
PartitionName=all Nodes=n1,n2 Default=YES
CONF

# The default fails where systemd does not run.
case $(slurmd -V) in
  *" 2"[0-3].*) plugin=cgroup/v1 ;;
  *) plugin=disabled ;;
esac
echo "CgroupPlugin=$plugin" >"$dir/cgroup.conf"

(umask 077 && head -c 128 /dev/urandom >"$dir/munge.key")
munged --force --socket="$dir/munge.sock" --key-file="$dir/munge.key" --seed-file="$dir/munge.seed" \
  --pid-file="$dir/munge.pid" --log-file="$dir/log/munged.log" >&2
export SLURM_CONF="$dir/slurm.conf"
slurmctld -c >&2
slurmd -N n1 >&2
slurmd -N n2 >&2
for _ in $(seq 300); do
  idle=$(sinfo --noheader --states=idle --format=%D 2>/dev/null || true)
  if [ "$idle" = 2 ]; then break; fi
  # Another program took a port after the look at it.
  if grep -qs "Address already in use" "$dir"/log/*; then exec "$0" "$dir"; fi
  sleep 0.1
done
[ "$idle" = 2 ]

echo "TEST_SLURM_CONF=$SLURM_CONF"
