#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Prints the path of index.html of speedscope, a viewer for profiles. It is in the folder
# KYMO_SPEEDSCOPE or in a cache folder, into which npm downloads it once. If neither is
# possible, the reason is printed to standard error and the status is 1.
set -euo pipefail

version=1.25.0
cache=${KYMO_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kymo}/speedscope-$version
sums='6388a3a5e74c5dd60352cff13a26154a76770fdddc488ecef8992531f3c1744f  index.html
12b7fcfa95b1f07633886569903e0117043d810c83951ac9084e34c689ef1044  speedscope-Y2522XSH.js'

fail() {
    echo "$*" >&2
    exit 1
}

whole() { [ -d "$1" ] && (cd "$1" && sha256sum --quiet --check - <<<"$sums") >/dev/null 2>&1; }

if [ -n "${KYMO_SPEEDSCOPE-}" ]; then
    whole "$KYMO_SPEEDSCOPE" || fail "KYMO_SPEEDSCOPE=$KYMO_SPEEDSCOPE does not hold it"
    echo "$KYMO_SPEEDSCOPE/index.html"
    exit 0
fi
if ! whole "$cache"; then
    command -v npm >/dev/null || fail "npm is not installed, and $cache does not hold speedscope"
    temp=$(mktemp -d)
    trap 'rm -rf "$temp"' EXIT
    # Only downloads the archive: npm neither installs nor runs anything.
    (cd "$temp" && timeout 300 npm pack --silent "speedscope@$version") >"$temp/log" 2>&1 ||
        fail "npm can't get speedscope@$version: $(tail -n 1 "$temp/log")"
    tar -xzf "$temp"/*.tgz -C "$temp" package/dist/release
    whole "$temp/package/dist/release" || fail "speedscope@$version is not what it was"
    mkdir -p "$(dirname "$cache")"
    rm -rf "$cache"
    mv "$temp/package/dist/release" "$cache"
fi
echo "$cache/index.html"
