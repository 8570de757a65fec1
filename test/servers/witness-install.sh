#!/usr/bin/env bash
# Builds what others have written around transparency logs, for the tests: two witnesses, which the tests start and stop themselves
# (test/helpers/servers/witness.ts), and a monitor:
#
#   test/servers/witness-install.sh DIR
#
# litewitness cosigns with Ed25519 keys of an ssh-agent, so tests need the Debian package openssh-client too. Its own command
# cannot load ML-DSA-44 keys, but what it is made of can: tlog/mldsa-witness is the rest. Modules come through Go's module proxy,
# checked against its checksum database. On stdout come the KEY=VALUE lines that the tests read from their environment.
set -Eeuo pipefail

dir=$(realpath -m "${1:?usage: witness-install.sh DIR}")
servers=$(cd "$(dirname "$0")" && pwd)
torchwood=v0.10.0
toolchain=v0.0.1-go1.27.4.linux

go=$(command -v go || echo /usr/local/go/bin/go)
mkdir -p "$dir/source"
cp -r "$servers"/tlog/* "$dir/source"
cd "$dir/source"
# Its name lets it import what Go keeps for the modules below that path.
printf 'module filippo.io/torchwood/tests\n\ngo 1.27\n\nrequire filippo.io/torchwood %s\n' "$torchwood" >go.mod

# From 1.21 on Go fetches the version that a module asks for. An older one, as in Debian 12, is told to.
if ! "$go" help toolchain >/dev/null 2>&1; then
  arch=$("$go" env GOARCH)
  (cd "$dir" && "$go" mod download "golang.org/toolchain@$toolchain-$arch") >&2
  cp -r "$("$go" env GOMODCACHE)/golang.org/toolchain@$toolchain-$arch" "$dir/go"
  chmod -R u+wX "$dir/go"
  find "$dir/go/bin" "$dir/go/pkg/tool" -type f -exec chmod +x {} +
  go=$dir/go/bin/go
fi
GOTOOLCHAIN=auto "$go" build -mod=mod -o "$dir/" ./... "filippo.io/torchwood/cmd/litewitness" >&2

echo "TEST_LITEWITNESS=$dir/litewitness"
echo "TEST_MLDSA_WITNESS=$dir/mldsa-witness"
echo "TEST_TLOG_MONITOR=$dir/monitor"
