#!/usr/bin/env bash
# Starts a throw-away S3 server on loopback: a Ceph of one monitor, one OSD in memory and one radosgw, in a few seconds.
#
#   test/servers/ceph-start.sh DIR [PORT]    free ports unless PORT is given; several may run at a time, each in its DIR
#   test/servers/ceph-stop.sh DIR            ends it
#
# It needs no root, and the Debian packages ceph-mon ceph-osd radosgw ceph-common. On stdout come the KEY=VALUE lines that the tests
# read from their environment; everything else goes to stderr and to DIR/log.
set -Eeuo pipefail

dir=$(realpath -m "${1:?usage: ceph-start.sh DIR [PORT]}")
servers=$(cd "$(dirname "$0")" && pwd)
conf=$dir/ceph.conf
. "$servers/start.sh"

new_uuid() { cat /proc/sys/kernel/random/uuid; }

failed() {
  say "failed at ${step:-the beginning}; logs are in $dir/log"
  tail -n 5 "$dir/log/step-${step:-}.log" >&2 || true
  "$servers/ceph-stop.sh" "$dir"
}

require "ceph-mon ceph-osd radosgw ceph-common" ceph-mon ceph-osd radosgw radosgw-admin ceph
clear_folder ceph.conf mon osd rgw run log monmap
s3_port=${2:-$(free_port)}
if taken "$s3_port"; then
  say "port $s3_port is taken"
  exit 1
fi
mon_port=$(free_port)
trap failed ERR

mkdir -p "$dir"/{mon,osd,rgw,run,log}
cluster=$(new_uuid)
osd=$(new_uuid)
# Some builds look for these plugins in a folder relative to the current one.
classes=$(find /usr/lib /usr/lib64 -maxdepth 2 -type d -name rados-classes 2>/dev/null | head -n 1 || true)

cat >"$conf" <<CONF
[global]
fsid = $cluster
mon_host = [v2:127.0.0.1:$mon_port]
public_addr = 127.0.0.1
cluster_addr = 127.0.0.1
ms_bind_ipv6 = false
# No authentication inside the cluster; radosgw would otherwise wait for an encrypted session, which needs it.
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
ms_mon_client_mode = crc
pid_file = $dir/run/\$type.pid
log_file = $dir/log/\$type.log
crash_dir = $dir/log
# A socket's path may have 107 characters, and a temporary folder's name be longer.
admin_socket =
# One OSD holds the only copy of everything.
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 4
osd_pool_default_pgp_num = 4
osd_pool_default_pg_autoscale_mode = off
osd_crush_chooseleaf_type = 0
mon_allow_pool_size_one = true
mon_max_pg_per_osd = 1000
# radosgw makes its pools one after the other, each in a round of the monitor, which takes a second by default.
paxos_propose_interval = 0.05
paxos_min_wait = 0.01

[mon]
mon_data = $dir/mon
mon_cluster_log_file = $dir/log/cluster.log
# Disks of test machines are often nearly full.
mon_data_avail_warn = 1
mon_data_avail_crit = 1

[osd]
osd_data = $dir/osd
osd_objectstore = memstore
memstore_device_bytes = 4294967296
${classes:+osd_class_dir = $classes}
osd_class_load_list = *
osd_class_default_list = *

[client]
rgw_data = $dir/rgw
# Without tcp_nodelay every GET on a kept connection waits 40 ms for a delayed acknowledgement.
rgw_frontends = beast endpoint=127.0.0.1:$s3_port tcp_nodelay=1
rgw_override_bucket_index_max_shards = 1
rgw_dynamic_resharding = false
rgw_run_sync_thread = false
rgw_enable_usage_log = false
rgw_thread_pool_size = 64
CONF

# Runs one step of the start; what it prints is kept for the case that it fails.
step() {
  step=$1
  shift
  timeout 60 "$@" -c "$conf" >"$dir/log/step-$step.log" 2>&1 </dev/null
}

step map monmaptool --create --fsid "$cluster" --addv a "[v2:127.0.0.1:$mon_port]" "$dir/monmap"
step mon-make ceph-mon -i a --mkfs --monmap "$dir/monmap"
step mon ceph-mon -i a
step osd-new ceph osd new "$osd"
step osd-make ceph-osd -i 0 --mkfs --osd-uuid "$osd"
step osd ceph-osd -i 0
# Waits for the OSD by itself: it stores the user.
step user radosgw-admin user create --uid=test --display-name=test --access-key=test-access --secret=test-secret
step rgw radosgw -n client.rgw.a
for _ in $(seq 300); do
  if taken "$s3_port"; then break; fi
  sleep 0.1
done
taken "$s3_port"

cat <<LINES
TEST_S3_ENDPOINT=http://127.0.0.1:$s3_port
AWS_ACCESS_KEY_ID=test-access
AWS_SECRET_ACCESS_KEY=test-secret
AWS_REGION=us-east-1
LINES
