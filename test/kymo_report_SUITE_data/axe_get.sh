#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Prints the path of axe.min.js of axe-core, which checks pages for accessibility: the file
# KYMO_AXE, or one in a cache folder, into which npm downloads it once. If neither is
# possible, the reason is printed to standard error and the status is 1.
set -euo pipefail

version=4.10.3
cache=${KYMO_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kymo}/axe-core-$version
sum=880970c081707360e64f34cea25ff91892f5bc95675b0776925b9709dd8a68bb

fail() {
    echo "$*" >&2
    exit 1
}

whole() { [ -f "$1" ] && sha256sum --quiet --check - <<<"$sum  $1" >/dev/null 2>&1; }

if [ -n "${KYMO_AXE-}" ]; then
    whole "$KYMO_AXE" || fail "KYMO_AXE=$KYMO_AXE is not axe.min.js of axe-core $version"
    echo "$KYMO_AXE"
    exit 0
fi
if ! whole "$cache/axe.min.js"; then
    command -v npm >/dev/null || fail "npm is not installed, and $cache does not hold axe-core"
    temp=$(mktemp -d)
    trap 'rm -rf "$temp"' EXIT
    # Only downloads the archive: npm neither installs nor runs anything.
    (cd "$temp" && timeout 300 npm pack --silent "axe-core@$version") >"$temp/log" 2>&1 ||
        fail "npm can't get axe-core@$version: $(tail -n 1 "$temp/log")"
    tar -xzf "$temp"/*.tgz -C "$temp" package/axe.min.js
    whole "$temp/package/axe.min.js" || fail "axe-core@$version is not what it was"
    mkdir -p "$cache"
    mv "$temp/package/axe.min.js" "$cache/axe.min.js"
fi
echo "$cache/axe.min.js"
