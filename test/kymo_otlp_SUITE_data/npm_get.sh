#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Usage: npm_get.sh FOLDER
#
# Prints the folder of the node packages that package-lock.json in FOLDER names: a cache
# folder, which npm fills once. If that is not possible, the reason is printed to standard
# error and the status is 1.
set -euo pipefail
cd "$1"

fail() {
    echo "$*" >&2
    exit 1
}

command -v node >/dev/null || fail "node is not installed"
sum=$(sha256sum package-lock.json | cut -c 1-16)
cache=${KYMO_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kymo}/npm-$sum
if [ ! -d "$cache" ]; then
    command -v npm >/dev/null || fail "npm is not installed, and $cache does not hold the packages"
    mkdir -p "$(dirname "$cache")"
    temp=$(mktemp -d "$cache.XXXXXX")
    trap 'rm -rf "$temp"' EXIT
    cp package.json package-lock.json "$temp"
    # npm verifies the checksums in the lock file. No script of a package is run.
    (cd "$temp" && timeout 300 npm ci --ignore-scripts --no-audit --no-fund) >"$temp/log" 2>&1 ||
        fail "npm can't get the packages: $(tail -n 1 "$temp/log")"
    # Another process may have created the folder first.
    mv -T "$temp" "$cache" 2>/dev/null || [ -d "$cache" ] || fail "$cache can't be written"
fi
echo "$cache"
