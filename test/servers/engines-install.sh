#!/usr/bin/env bash
# Installs engines that make parts of a publish, Spark and Dagster, which the tests start themselves, into a folder:
#
#   test/servers/engines-install.sh DIR
#
# They take 0.6 GB, and Spark a Java of 17 or later, such as the Debian package default-jre-headless. On stdout come the
# KEY=VALUE lines that the tests read from their environment.
set -Eeuo pipefail

dir=$(realpath -m "${1:?usage: engines-install.sh DIR}")
python3 -m venv "$dir" >&2
"$dir/bin/pip" install --quiet --disable-pip-version-check --no-compile pyspark==4.0.5 dagster==1.13.28 >&2

echo "TEST_SPARK_SUBMIT=$dir/bin/spark-submit"
echo "TEST_DAGSTER_PYTHON=$dir/bin/python"
