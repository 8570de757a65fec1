#!/usr/bin/env bash
# Builds KrakenD's engine with its check of keys into a folder, for `npm run bench` (gateway/main.go says what it is):
#
#   test/servers/gateway-install.sh DIR
#
# Modules come through Go's module proxy, checked against its checksum database. On stdout come the KEY=VALUE lines that the bench
# reads from its environment.
set -Eeuo pipefail

dir=$(realpath -m "${1:?usage: gateway-install.sh DIR}")
servers=$(cd "$(dirname "$0")" && pwd)
go=$(command -v go || echo /usr/local/go/bin/go)
mkdir -p "$dir/source"
cp "$servers/gateway/main.go" "$dir/source"
cd "$dir/source"
cat >go.mod <<'MODULE'
module gateway

go 1.25

require (
	github.com/krakend/krakend-jose/v2 v2.12.3
	github.com/luraproject/lura/v2 v2.11.0
)
MODULE
"$go" build -mod=mod -o "$dir/gateway" . >&2

echo "BENCH_GATEWAY=$dir/gateway"
