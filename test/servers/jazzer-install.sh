#!/usr/bin/env bash
# Installs Jazzer.js into a folder, for test/fuzz/fuzz.ts:
#
#   test/servers/jazzer-install.sh DIR
#
# On stdout come the KEY=VALUE lines that the fuzzer reads from its environment.
set -Eeuo pipefail

dir=$(realpath -m "${1:?usage: jazzer-install.sh DIR}")
mkdir -p "$dir"
echo '{ "private": true }' >"$dir/package.json"
npm install --prefix "$dir" --ignore-scripts --no-audit --no-fund @jazzer.js/core@4.0.0 >&2

# Its prebuilt file was linked on Ubuntu 24.04. For older systems, such as Debian 12, three names in it are put back to what they
# were before glibc 2.38 and GCC 13: two functions had other names, and the third is never called.
load() { node -e 'require(process.argv[1])' "$dir/node_modules/@jazzer.js/fuzzer"; }
if ! refusal=$(load 2>&1); then
  grep -q "version .GLIBC" <<<"$refusal" || { echo "$refusal" >&2; exit 1; }
  python3 -m venv "$dir/python" >&2
  "$dir/python/bin/pip" install --quiet --disable-pip-version-check lief==1.0.0 >&2
  "$dir/python/bin/python" - "$dir"/node_modules/@jazzer.js/fuzzer/prebuilds/fuzzer-linux-*.node <<'PYTHON'
import lief, sys

older = {"__isoc23_strtol": "strtol", "__isoc23_strtoul": "strtoul", "_ZSt21ios_base_library_initv": None}
for path in sys.argv[1:]:
    addon = lief.parse(path)
    for symbol in addon.dynamic_symbols:
        if symbol.name not in older:
            continue
        symbol.symbol_version.drop_version(1)
        if older[symbol.name] is None:
            symbol.binding = lief.ELF.Symbol.BINDING.WEAK
        else:
            symbol.name = older[symbol.name]
    for library in addon.symbols_version_requirement:
        for version in ("GLIBC_2.38", "GLIBCXX_3.4.32"):
            if library.find_aux(version):
                library.remove_aux_requirement(version)
    addon.write(path)
PYTHON
  load
fi

echo "FUZZ_JAZZER=$dir"
