#!/usr/bin/env bash
# Installs Jazzer.js into a folder, for test/fuzz/fuzz.ts:
#
#   test/servers/jazzer-install.sh DIR
#
# It needs glibc 2.38 or later, as Ubuntu 24.04 and Debian 13 have. On stdout come the KEY=VALUE lines that the fuzzer reads from
# its environment.
set -Eeuo pipefail

dir=$(realpath -m "${1:?usage: jazzer-install.sh DIR}")
mkdir -p "$dir"
echo '{ "private": true }' >"$dir/package.json"
npm install --prefix "$dir" --ignore-scripts --no-audit --no-fund @jazzer.js/core@4.0.0 >&2

echo "FUZZ_JAZZER=$dir"
