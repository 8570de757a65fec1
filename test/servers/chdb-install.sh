#!/usr/bin/env bash
# Installs chdb, which is ClickHouse as a library of Python, into a folder, for `npm run bench`:
#
#   test/servers/chdb-install.sh DIR
#
# It takes 0.9 GB. On stdout come the KEY=VALUE lines that the bench reads from its environment.
set -Eeuo pipefail

dir=$(realpath -m "${1:?usage: chdb-install.sh DIR}")
python3 -m venv "$dir" >&2
"$dir/bin/pip" install --quiet --disable-pip-version-check chdb==4.4.0 chdb-core==26.9.0 >&2

echo "BENCH_CHDB_PYTHON=$dir/bin/python"
