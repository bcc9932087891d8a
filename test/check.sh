# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Sourced by the *_test.sh programs. Runs cases and reports in cmocka's format, for
# scripts/run-prog. A case is a function; it runs in a subshell with errexit, in an empty folder
# under $WORK.

TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
export TOP
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
failures=0

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# run_case NAME: status 77 means that the case cannot run here and has printed the reason.
run_case() {
    local rc
    printf '[ RUN      ] %s\n' "$1"
    mkdir -p "$WORK/$1"
    # Not in a condition, where errexit would have no effect.
    (
        set -euo pipefail
        cd "$WORK/$1"
        "$1"
    )
    rc=$?
    case $rc in
    0) printf '[       OK ] %s\n' "$1" ;;
    77) printf '[  SKIPPED ] %s\n[  SKIPPED ] 1 test(s)\n' "$1" ;;
    *)
        printf '[  FAILED  ] %s (status %d)\n' "$1" "$rc"
        failures=$((failures + 1))
        ;;
    esac
}

# has TEXT FILE: fails, and shows the file, unless it contains the text.
has() {
    grep -qF -- "$1" "$2" && return 0
    sed 's/^/    | /' "$2" >&2
    fail "no '$1' in $2"
}

lacks() {
    if grep -qF -- "$1" "$2"; then fail "'$1' in $2"; fi
}

same() { [ "$1" = "$2" ] || fail "expected '$1', got '$2'"; }

# refuses FILE COMMAND...: the command must fail; its output goes to FILE.
refuses() {
    local file=$1
    shift
    if "$@" >"$file" 2>&1; then fail "did not fail: $*"; fi
}
