#!/usr/bin/env bash
# Installs DuckDB's extensions for PostgreSQL, HTTP and Delta Lake as `INSTALL` would, into a folder that a test takes for its user's:
#
#   test/servers/duckdb-install.sh DIR
#
# They come as Python packages, for the version of DuckDB that the service has. DuckDB checks a signature when it loads one. On
# stdout come the KEY=VALUE lines that the tests read from their environment.
set -Eeuo pipefail

dir=$(realpath -m "${1:?usage: duckdb-install.sh DIR}")
root=$(cd "$(dirname "$0")/../.." && pwd)
version=$(node -p 'require(process.argv[1]).version.split("-")[0]' "$root/node_modules/@duckdb/node-api/package.json")
case $(uname -m) in aarch64) platform=linux_arm64 ;; *) platform=linux_amd64 ;; esac

python3 -m venv "$dir/python" >&2
"$dir/python/bin/pip" install --quiet --disable-pip-version-check --no-deps \
  "duckdb-extension-postgres-scanner==$version" "duckdb-extension-httpfs==$version" \
  "duckdb-extension-delta==$version" >&2
into="$dir/home/.duckdb/extensions/v$version/$platform"
mkdir -p "$into"
cp "$dir"/python/lib/python3*/site-packages/duckdb_extension_*/extensions/"v$version"/*.duckdb_extension "$into"

echo "TEST_DUCKDB_HOME=$dir/home"
