#!/usr/bin/env bash
# Installs what others have written in Python into a folder, for the tests:
#
#   test/servers/python-install.sh clients DIR    reads Delta Sharing and Parquet
#   test/servers/python-install.sh engines DIR    make parts of a publish: Spark and Dagster, which the tests start
#                                                 themselves. They take 0.6 GB, and Spark a Java of 17 or later, as
#                                                 Debian's default-jre-headless is
#
# On stdout come the KEY=VALUE lines that the tests read from their environment.
set -Eeuo pipefail

dir=$(realpath -m "${2:?usage: python-install.sh clients|engines DIR}")
case $1 in
  clients) packages=(delta-sharing==1.4.2 polars==2.1.0) programs=(TEST_CLIENTS_PYTHON=python) ;;
  engines)
    packages=(--no-compile pyspark==4.0.5 dagster==1.13.28)
    programs=(TEST_SPARK_SUBMIT=spark-submit TEST_DAGSTER_PYTHON=python)
    ;;
  *) echo "python-install.sh: $1 is none of clients, engines" >&2 && exit 2 ;;
esac
python3 -m venv "$dir" >&2
"$dir/bin/pip" install --quiet --disable-pip-version-check "${packages[@]}" >&2

for program in "${programs[@]}"; do echo "${program%%=*}=$dir/bin/${program#*=}"; done
