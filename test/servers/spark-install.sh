#!/usr/bin/env bash
# Installs Spark, which the tests start themselves, into a folder:
#
#   test/servers/spark-install.sh DIR
#
# It takes 0.5 GB, and a Java of 17 or later, such as the Debian package default-jre-headless. On stdout come the KEY=VALUE lines
# that the tests read from their environment.
set -Eeuo pipefail

dir=$(realpath -m "${1:?usage: spark-install.sh DIR}")
python3 -m venv "$dir" >&2
"$dir/bin/pip" install --quiet --disable-pip-version-check --no-compile pyspark==4.0.5 >&2

echo "TEST_SPARK_SUBMIT=$dir/bin/spark-submit"
