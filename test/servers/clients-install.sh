#!/usr/bin/env bash
# Installs what others have written to read Delta Sharing and Parquet into a folder, for the tests:
#
#   test/servers/clients-install.sh DIR
#
# On stdout come the KEY=VALUE lines that the tests read from their environment.
set -Eeuo pipefail

dir=$(realpath -m "${1:?usage: clients-install.sh DIR}")
python3 -m venv "$dir" >&2
"$dir/bin/pip" install --quiet --disable-pip-version-check delta-sharing==1.4.2 polars==2.1.0 >&2

echo "TEST_CLIENTS_PYTHON=$dir/bin/python"
